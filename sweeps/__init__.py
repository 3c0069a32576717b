"""Many simulations: grids, capacity search, comparison of GPUs."""
