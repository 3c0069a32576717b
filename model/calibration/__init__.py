"""Fits of the cost model's coefficients to measurements: arrays in, coefficients and their errors out; no files."""
