"""What files of measured runs leave unsaid, in a YAML file: a list of rules, applied in order to the runs they match.

    - where: {source: blis_training, model: [a, b]}   # column of the file -> its text, or one of several
      set: {engine: vllm-0.15, replica.max_model_len: 4096}   # dotted keys of a scenario
      length_range: [0.8, 1.0]        # lengths are uniform between these shares of the nominal ones
      requests_per_client: 10         # of a closed loop
      leave_out: {ttft: why}          # figures not to compare; `run: why` for the whole run
      fitted: {ttft: server time}     # figures by which a number of the model was chosen, and which
      unsettled: {ttft: token budget} # figures that follow from a setting that nobody stated: in no error band
      aside: why                      # errors are shown, but say nothing about runs of today (an old engine, say)
      note: what had to be assumed

`file` and `line` serve as columns. Numbers match as numbers: `tp_size: 2` matches the cell 2.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from servecast.configs.measured.run import METRICS, MeasuredRun, Settings, with_settings
from servecast.hardware.errors import ConfigError
from servecast.hardware.yaml_fields import Fields
from servecast.hardware.yaml_source import read_yaml

WHOLE_RUN = "run"
_KEYS = ("where", "set", "length_range", "requests_per_client", "leave_out", "fitted", "unsettled", "aside", "note")


@dataclass(frozen=True)
class Rule:
    """where: column -> texts that match, one of them must. The rest: see the head of this file."""

    where: Mapping[str, tuple[str, ...]]
    set: Settings = field(default_factory=dict)
    length_range: tuple[float, float] | None = None
    requests_per_client: int | None = None
    leave_out: Mapping[str, str] = field(default_factory=dict)
    fitted: Mapping[str, str] = field(default_factory=dict)
    unsettled: Mapping[str, str] = field(default_factory=dict)
    aside: str = ""
    note: str = ""

    def matches(self, run: MeasuredRun) -> bool:
        return all(any(_same(run.cells.get(key, ""), text) for text in texts) for key, texts in self.where.items())

    def apply(self, run: MeasuredRun) -> MeasuredRun:
        problem = run.problem or self.leave_out.get(WHOLE_RUN)
        figures = {key: why for key, why in self.leave_out.items() if key != WHOLE_RUN}
        changed = replace(
            run,
            problem=problem,
            left_out={**run.left_out, **figures},
            fitted={**run.fitted, **self.fitted},
            unsettled={**run.unsettled, **self.unsettled},
            aside=self.aside or run.aside,
            note="; ".join(filter(None, (run.note, self.note))),
        )
        return changed if problem else replace(changed, settings=self._settings(run.settings))

    def _settings(self, settings: Settings) -> Settings:
        workload, more = settings["workload"], dict(self.set)
        if self.length_range is not None:
            more |= {
                f"workload.lengths.{name}": self._between(part) for name, part in workload.get("lengths", {}).items()
            }
        arrivals = workload["arrivals"]
        if self.requests_per_client is not None and arrivals["process"] == "closed_loop":
            more["workload.num_requests"] = self.requests_per_client * arrivals["concurrency"]
        return with_settings(settings, more)

    def _between(self, length: Mapping[str, Any]) -> dict[str, Any]:
        assert self.length_range is not None  # the caller asked
        low, high = (max(1, int(share * length["value"])) for share in self.length_range)
        return {"distribution": "uniform", "low": low, "high": high}


@dataclass(frozen=True)
class Rules:
    rules: Sequence[Rule] = ()

    def apply(self, run: MeasuredRun) -> MeasuredRun:
        """`run` as all rules that match it make it; later ones win."""
        for rule in self.rules:
            if rule.matches(run):
                run = rule.apply(run)
        return run


def read_rules(file: Path) -> Rules:
    """Raises ConfigError with line and key."""
    source = read_yaml(file)
    if not isinstance(source.data, list) or not all(isinstance(rule, dict) for rule in source.data):
        hint = "Such as - {where: {source: mine}, set: {engine: vllm-0.19}}"
        raise ConfigError("must hold a list of rules", file=file, hint=hint)
    return Rules([_rule(Fields(source, (number,), rule)) for number, rule in enumerate(source.data)])


def _rule(fields: Fields) -> Rule:
    fields.only(_KEYS)
    return Rule(
        where={column: _texts(value) for column, value in fields.section("where").values.items()},
        set=fields.section("set").values if fields.has("set") else {},
        length_range=_range(fields),
        requests_per_client=fields.count("requests_per_client") if fields.has("requests_per_client") else None,
        leave_out=_by_figure(fields, "leave_out", (WHOLE_RUN, *METRICS)),
        fitted=_by_figure(fields, "fitted", tuple(METRICS)),
        unsettled=_by_figure(fields, "unsettled", tuple(METRICS)),
        aside=fields.text("aside", ""),
        note=fields.text("note", ""),
    )


def _by_figure(fields: Fields, key: str, allowed: Sequence[str]) -> dict[str, str]:
    if not fields.has(key):
        return {}
    fields.section(key).only(allowed)
    return fields.text_map(key)


def _range(fields: Fields) -> tuple[float, float] | None:
    if not fields.has("length_range"):
        return None
    value = fields.values["length_range"]
    numbers = isinstance(value, list) and len(value) == 2 and all(type(item) in (int, float) for item in value)
    if not numbers or not 0 < value[0] <= value[1]:
        raise fields.error("length_range", f"must be two rising shares such as [0.8, 1.0], found {value!r}")
    return float(value[0]), float(value[1])


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ("" if value is None else str(value),)


def _same(cell: str, wanted: str) -> bool:
    if cell == wanted:
        return True
    try:
        return float(cell) == float(wanted)
    except ValueError:
        return False
