"""Measures kernels on the user's own GPU: what to measure, the timing loop, and the device that runs it."""
