"""Figures, all in one style, drawn from stored results only. Matplotlib and seaborn are slow to import, so they are
imported where something is drawn.
"""
