"""Which GPUs, how many and at what cost: candidates under the same traffic and SLO."""
