"""Predicted against measured: runs measured by others, simulated and held against what came out of them."""
