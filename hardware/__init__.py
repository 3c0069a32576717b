"""GPU catalogue, engine profiles and what both are read with. The ground layer: imports nothing of servecast above
it.
"""
