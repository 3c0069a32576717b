"""The simulator: workload, scheduler, KV pool, cost of a step, replica. Sees no YAML files and no paths."""
