"""servecast: which GPUs, how many and with which settings carry an LLM traffic within its latency limits."""
