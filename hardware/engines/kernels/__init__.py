"""Kernel coefficients, one YAML file a GPU, for all engines; read by kernel_files.py."""
