"""Measured serving runs of others, as scenarios with the figures that were measured.

`read_runs` reads a file in one of four layouts (docs/validate.md); `rules.py` adds what a file does not state.
"""

from servecast.configs.measured.files import complete, read_runs
from servecast.configs.measured.rules import Rules, read_rules
from servecast.configs.measured.run import METRICS, MeasuredRun

__all__ = ["METRICS", "MeasuredRun", "Rules", "complete", "read_rules", "read_runs"]
