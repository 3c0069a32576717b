"""Reading scenario files: where settings come from, and one clear message for whatever is wrong."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from servecast.configs.load import load_scenario, scenario_from
from servecast.configs.origin import Origin
from servecast.hardware.errors import ConfigError

SCENARIO = """\
model: llama-3.1-8b
gpu: h100-sxm
replica:
  dtype: bfloat16
scheduler:
  max_num_seqs: 64
workload:
  num_requests: 200
  arrivals: {process: poisson, request_rate: 5}
  lengths: {profile: azure-conv-2023}
"""

PLACES = [
    "model",
    "gpu",
    "name",
    "slo",
    "seed",
    "coast",
    "replica",
    "scheduler",
    "fleet",
    "workload",
    "replica.dtype",
    "replica.block_size",
    "scheduler.swap_space",
    "scheduler.kind",
    "scheduler.admission",
    "workload.arrivals",
    "workload.arrivals.process",
    "workload.arrivals.request_rate",
    "workload.arrivals.times_s",
    "workload.lengths",
    "workload.lengths.profile",
    "workload.lengths.prompt",
    "workload.lengths.output",
]
WORDS = [
    "process",
    "gamma",
    "cv",
    "trace",
    "path",
    "distribution",
    "fixed",
    "value",
    "uniform",
    "low",
    "prompt",
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "chat.yaml"
    path.write_text(SCENARIO)
    return path


def refused(file: Path, old: str, new: str, *overrides: str) -> str:
    """The message about the scenario with `old` replaced by `new`, without the folder's name."""
    assert old in SCENARIO
    file.write_text(SCENARIO.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load_scenario(file, overrides)
    message = str(caught.value)
    assert "Input should" not in message
    assert "pydantic" not in message
    return message.replace(f"{file.parent}/", "")


# Reading


def test_a_file_is_read_and_gives_the_scenario_its_name(file: Path) -> None:
    scenario = load_scenario(file)

    assert (scenario.name, scenario.model, scenario.gpu) == ("chat", "llama-3.1-8b", "h100-sxm")
    assert scenario.scheduler.max_num_seqs == 64


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty. A scenario needs model, gpu and workload"),
        ("# only a comment\n", "is empty"),
        ("- a\n- b\n", ":1: must hold a section with keys, found a list"),
        ("just words\n", ":1: must hold a section with keys, found the text 'just words'"),
        ("model: [a\ngpu: b\n", ":2: broken YAML"),
        ("model: a\nslo: ttft: 500\n", ":2: broken YAML"),
        ("model: a\nmodel: b\n", ":2: model: key stands twice"),
    ],
)
def test_a_file_that_is_no_scenario(file: Path, text: str, told: str) -> None:
    file.write_text(text)

    with pytest.raises(ConfigError) as caught:
        load_scenario(file)

    assert str(file) in str(caught.value)
    assert told in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: no such file"):
        load_scenario(tmp_path / "nowhere.yaml")


def test_reading_a_scenario_needs_no_numerical_library() -> None:
    # The command must answer a mistake at once; numpy and pandas take longer to import than all of this.
    code = "import sys, servecast.configs.load; print({'numpy', 'pandas', 'scipy'} & set(sys.modules))"
    path = str(Path(__file__).parents[2] / "src")

    found = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )

    assert found.stdout.strip() == "set()"


# Wrong settings: file, line, key, what was found, what would be right


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        # Unknown keys
        (
            "dtype: bfloat16",
            "tensor_paralel_size: 2",
            "chat.yaml:4: replica.tensor_paralel_size: unknown key. Did you mean 'tensor_parallel_size'?",
        ),
        (
            "dtype: bfloat16",
            "max_num_seqs: 4",
            "chat.yaml:4: replica.max_num_seqs: unknown key. It belongs to scheduler",
        ),
        (
            "dtype: bfloat16",
            "tp: 4",
            "chat.yaml:4: replica.tp: unknown key. Did you mean 'tensor_parallel_size'?",
        ),
        ("rate: 5}", "rate: 5, burstiness: 2}", "burstiness: unknown key. It belongs to process: gamma"),
        ("  dtype", "  on: 1\n  dtype", "chat.yaml:4: replica.True: a key must be text, found true"),
        # Numbers
        ("rate: 5", "rate: -5", "chat.yaml:9: workload.arrivals.request_rate: must be above 0, found -5"),
        ("rate: 5", "rate: 0", "request_rate: must be above 0, found 0"),
        ("rate: 5", "rate: .inf", "request_rate: must be finite, found inf. For all requests at once"),
        ("rate: 5", "rate: .nan", "request_rate: must be finite, found nan"),
        ("rate: 5", "rate: five", "request_rate: must be a number, found the text 'five'"),
        (
            "rate: 5",
            "rate: '5'",
            "request_rate: must be a number, found the text '5'. Write 5 without quotes",
        ),
        (
            "rate: 5",
            "rate: 5/s",
            "must be a number, found the text '5/s'. Write the number alone, without '/s'",
        ),
        (
            "max_num_seqs: 64",
            "max_num_seqs: 1.5",
            "chat.yaml:6: scheduler.max_num_seqs: must be a whole number",
        ),
        ("max_num_seqs: 64", "max_num_seqs: yes", "must be a whole number, found true"),
        ("max_num_seqs: 64", "max_num_seqs: 1,024", "found the text '1,024'. Write 1024"),
        ("max_num_seqs: 64", "max_num_seqs:", "found nothing. Leave the key out to get its default"),
        ("max_num_seqs: 64", "max_num_seqs: 0", "must be 1 or more, found 0"),
        (
            "max_num_seqs: 64",
            "max_num_seqs: 9000",
            "max_num_batched_tokens: must not be below max_num_seqs (9000)",
        ),
        ("max_num_seqs: 64", "watermark: 1", "scheduler.watermark: must be below 1, found 1"),
        ("dtype: bfloat16", "gpu_memory_utilization: 90", "must be 1 or less, found 90"),
        ("dtype: bfloat16", "block_size: 17", "must be one of 1, 8, 16, 32, 64, 128, 256, found 17"),
        # Words and switches
        ("dtype: bfloat16", "dtype: bf16", "found the text 'bf16'. Did you mean 'bfloat16'?"),
        ("process: poisson", "process: posson", "arrivals.process: must be one of poisson, gamma, constant"),
        ("max_num_seqs: 64", "enable_chunked_prefill: 1", "must be true or false, found 1"),
        ("max_num_seqs: 64", "enable_chunked_prefill: 'on'", "Write on without quotes"),
        (
            "max_num_seqs: 64",
            "admission: off",
            "must be none, found false. YAML reads on, off, yes and no as",
        ),
        ("gpu: h100-sxm", "gpu: 100", "chat.yaml:2: gpu: must be text, found 100. Put quotes around it"),
        ("gpu: h100-sxm", "gpu: ''", "gpu: must not be empty"),
        ("gpu: h100-sxm", "gpu: a\nslo: tfft:500", "chat.yaml:3: slo: SLO 'tfft:500': unknown metric 'tfft'"),
        ("gpu: h100-sxm", "gpu: a\nslo: {ttft: 500}", "slo: must be text, found a mapping. Write limits as"),
        # Sections
        ("model: llama-3.1-8b\n", "", "chat.yaml:1: model: is missing. Model: a catalogue key"),
        ("{process: poisson, request_rate: 5}", "poisson", "Write arrivals: {process: poisson, ...}"),
        ("process: poisson, ", "", "arrivals.process: is missing: must be one of poisson, gamma"),
        (", request_rate: 5", "", "arrivals.request_rate: is missing. Mean requests per second"),
        ("  lengths: {profile: azure-conv-2023}\n", "", "chat.yaml:7: workload.lengths: is missing"),
        ("{profile: azure-conv-2023}", "sharegpt", "Write lengths: {profile: sharegpt}"),
        ("{profile: azure-conv-2023}", "{prompt: 512}", "Write prompt: {distribution: fixed, value: 512}"),
        ("  dtype: bfloat16", "  - dtype", "chat.yaml:3: replica: must be a section with keys, found a list"),
    ],
)
def test_a_wrong_setting_is_named_with_its_line_and_what_would_be_right(
    file: Path, old: str, new: str, told: str
) -> None:
    assert told in refused(file, old, new)


@pytest.mark.parametrize(
    ("arrivals", "told"),
    [
        (
            "{process: gamma, request_rate: 5}",
            "burstiness: is missing: a gamma process needs burstiness or cv",
        ),
        ("{process: gamma, request_rate: 5, cv: 1, burstiness: 1}", "cv: stands beside burstiness"),
        ("{process: closed_loop}", "concurrency: is missing. Number of clients"),
        (
            "{process: closed_loop, concurrency: 2, think_time_s: -1}",
            "think_time_s: must be 0 or more, found -1",
        ),
        ("{process: schedule}", "times_s: is missing: a schedule needs times_s, or diurnal"),
        (
            "{process: schedule, times_s: [0, 9], request_rates: [1]}",
            "one rate for each of times_s (2), found 1",
        ),
        ("{process: schedule, times_s: [1], request_rates: [1]}", "times_s: must begin at 0"),
        ("{process: schedule, times_s: [0, 0], request_rates: [1, 1]}", "times_s: must increase"),
        ("{process: schedule, times_s: [0], request_rates: [0]}", "request_rates: are all 0"),
        ("{process: schedule, times_s: [0, x], request_rates: [1, 1]}", "times_s.1: must be a number, found"),
        (
            "{process: schedule, times_s: [0, 9], request_rates: [1, 2], period_s: 9}",
            "must lie after the last",
        ),
        ("{process: schedule, times_s: [0], request_rates: 3}", "request_rates: must be a list, found 3"),
        (
            "{process: schedule, period_s: 3, diurnal: {request_rate: 1, peak_to_mean: 2}}",
            "diurnal: stands beside",
        ),
        ("{process: trace}", "path: is missing. CSV or JSON lines file"),
        ("{process: trace, path: a.csv, format: azur}", "found the text 'azur'. Did you mean 'azure'?"),
    ],
)
def test_wrong_arrivals(file: Path, arrivals: str, told: str) -> None:
    assert told in refused(file, "{process: poisson, request_rate: 5}", arrivals)


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ("{distribution: fixed, value: 0}", "prompt.value: must be 1 or more, found 0"),
        (
            "{distribution: unifrom}",
            "prompt.distribution: must be one of fixed, uniform, lognormal, histogram",
        ),
        (
            "{distribution: uniform, low: 5}",
            "prompt.high: is missing. Give low and high, or value and range_ratio",
        ),
        ("{distribution: uniform, low: 5, high: 4}", "prompt.high: must not be below low (5), found 4"),
        ("{distribution: uniform, low: 5, high: 9, value: 7}", "prompt.range_ratio: is missing"),
        (
            "{distribution: uniform, value: 7, range_ratio: 0.1, low: 5}",
            "prompt.value: stands beside low or high",
        ),
        ("{distribution: uniform, value: 7, range_ratio: 1}", "range_ratio: must be below 1, found 1"),
        ("{distribution: lognormal, mean: 7}", "prompt.cv: is missing"),
        (
            "{distribution: lognormal, mean: 7, cv: 1, min: 9, max: 8}",
            "prompt.max: must not be below min (9)",
        ),
        (
            "{distribution: histogram, probabilities: [0, 1], tokens: [1]}",
            "tokens: must have 2 entries or more",
        ),
        (
            "{distribution: histogram, probabilities: [0, 0.5, 1], tokens: [1, 2]}",
            "one for each of probabilities",
        ),
        (
            "{distribution: histogram, probabilities: [0.5, 1], tokens: [1, 2]}",
            "must run from 0 to 1, found 0.5",
        ),
        (
            "{distribution: histogram, probabilities: [0, 1, 1], tokens: [1, 2, 3]}",
            "probabilities: must increase",
        ),
        ("{distribution: histogram, probabilities: [0, 1], tokens: [2, 1]}", "tokens: must not decrease"),
    ],
)
def test_wrong_distributions(file: Path, prompt: str, told: str) -> None:
    lengths = f"{{prompt: {prompt}, output: {{distribution: fixed, value: 9}}}}"

    assert told in refused(file, "{profile: azure-conv-2023}", lengths)


@pytest.mark.parametrize(
    ("lengths", "told"),
    [
        ("{}", "lengths.profile: is missing: nothing says how long prompts and outputs are"),
        ("{prompt: {distribution: fixed, value: 9}}", "lengths.output: is missing, prompt is there"),
        ("{output: {distribution: fixed, value: 9}}", "lengths.prompt: is missing, output is there"),
        ("{profile: a, trace: {path: b}}", "lengths.profile: stands beside another source of lengths"),
        ("{profile: a, rank_correlation: 0.5}", "rank_correlation: belongs to prompt and output"),
    ],
)
def test_lengths_have_one_source(file: Path, lengths: str, told: str) -> None:
    assert told in refused(file, "{profile: azure-conv-2023}", lengths)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("kind: orca", "scheduler.kind: orca is not supported yet. Supported: vllm"),
        ("policy: edf", "scheduler.policy: edf is not supported yet. Supported: fcfs"),
        ("preemption: auto", "auto is not supported yet. Supported: recompute, swap"),
        ("admission: {max_queue: 100}", "max_queue is not supported yet. Supported: none"),
        ("enable_prefix_caching: true", "prefix caching is not supported yet, found true. Supported: false"),
        ("long_prefill_token_threshold: 512", "is not supported yet, found 512. Supported: 0"),
        ("max_num_partial_prefills: 2", "is not supported yet, found 2. Supported: 1"),
    ],
)
def test_planned_features_are_refused_plainly(file: Path, setting: str, told: str) -> None:
    assert told in refused(file, "max_num_seqs: 64", setting)


def test_pipeline_parallelism_is_refused_plainly(file: Path) -> None:
    told = "pipeline_parallel_size: pipeline parallelism is not supported yet, found 2. Supported: 1"

    assert told in refused(file, "dtype: bfloat16", "pipeline_parallel_size: 2")


# Several mistakes


def test_all_mistakes_are_told_in_the_order_of_the_file(file: Path) -> None:
    told = refused(file, "gpu: h100-sxm\nreplica:\n  dtype: bfloat16", "gpu: 1\nreplica:\n  dtype: x\nseed: -1")

    assert [line.split(": ")[1] for line in told.splitlines()] == ["gpu", "replica.dtype", "seed"]


def test_at_most_five_mistakes_are_told(file: Path) -> None:
    told = refused(file, "gpu: h100-sxm\n", "".join(f"wrong{i}: {i}\n" for i in range(7)))

    assert len(told.splitlines()) == 6
    assert told.endswith("and 3 more")


def test_a_misspelt_required_key_is_one_mistake(file: Path) -> None:
    told = refused(file, "model: llama", "modle: llama")

    assert told.startswith("chat.yaml:1: modle: unknown key. Did you mean 'model'?")
    assert len(told.splitlines()) == 1


def test_the_first_mistake_gives_the_error_its_place(file: Path) -> None:
    file.write_text(SCENARIO.replace("rate: 5", "rate: -5") + "seed: x\n")

    with pytest.raises(ConfigError) as caught:
        load_scenario(file)

    assert (caught.value.line, caught.value.key) == (9, "workload.arrivals.request_rate")
    assert caught.value.exit_code == 2


# Overrides


def test_overrides_come_last_and_the_last_one_wins(file: Path) -> None:
    overrides = [
        "scheduler.max_num_seqs=8",
        "scheduler.max_num_seqs=16",
        "slo=ttft:500 tpot:50",
        "fleet.replicas=2",
    ]

    scenario = load_scenario(file, overrides)

    assert (scenario.scheduler.max_num_seqs, scenario.slo, scenario.fleet.replicas) == (
        16,
        "ttft:500 tpot:50",
        2,
    )


def test_an_override_may_set_a_whole_section_and_then_a_key_of_it(file: Path) -> None:
    overrides = [
        "workload.arrivals={process: closed_loop, concurrency: 4}",
        "workload.arrivals.concurrency=8",
    ]

    arrivals = load_scenario(file, overrides).workload.arrivals

    assert arrivals.process == "closed_loop"
    assert arrivals.concurrency == 8


@pytest.mark.parametrize(
    ("override", "told"),
    [
        (
            "scheduler.max_num_seqs=abc",
            "--set scheduler.max_num_seqs=abc: must be a whole number, found the text 'abc'",
        ),
        ("max_num_seqs=4", "--set max_num_seqs=4: unknown key. It belongs to scheduler.max_num_seqs"),
        ("scheduler.max_num_seq=4", "unknown key. Did you mean 'max_num_seqs'?"),
        ("scheduler.max_num_seqs", "--set scheduler.max_num_seqs: is not of the form key=value"),
        ("=4", "--set =4: is not of the form key=value"),
        ("workload.num_requests.x=4", "workload.num_requests is 200, not a section with keys"),
        ("workload=4", "--set workload=4: must be a section with keys, found 4"),
        ("slo=[a", "--set slo=[a: the value broken YAML"),
        (
            "workload.arrivals={process: batch, request_rate: 4}",
            "request_rate: 4}: workload.arrivals.request_rate: unknown key",
        ),
    ],
)
def test_a_wrong_override_is_named_instead_of_the_file(file: Path, override: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_scenario(file, [override])

    assert told in str(caught.value)
    assert "chat.yaml" not in str(caught.value)


def test_overrides_do_not_change_the_data_that_they_are_applied_to() -> None:
    arrivals = {"process": "poisson", "request_rate": 5}
    data = {"model": "a", "gpu": "b", "workload": {"arrivals": arrivals, "lengths": {"profile": "c"}}}

    scenario_from(data, ["workload.arrivals.request_rate=9"])

    assert arrivals["request_rate"] == 5


# Anything


_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=4),
        st.dates(),
        st.sampled_from(WORDS),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(st.sampled_from(WORDS), st.booleans()), inner)
    ),
    max_leaves=6,
)


@given(st.sampled_from(PLACES), _VALUES)
def test_whatever_stands_at_a_key_is_read_or_refused_with_a_config_error(place: str, value: object) -> None:
    data = yaml.safe_load(SCENARIO)
    *parents, last = place.split(".")
    section = data
    for part in parents:
        section = section.setdefault(part, {})
    section[last] = value

    with contextlib.suppress(ConfigError):
        scenario = scenario_from(data)
        assert scenario_from(scenario.effective()).effective() == scenario.effective()


# Origin


def test_later_stages_can_name_file_and_line_of_a_key(file: Path) -> None:
    scenario = load_scenario(file, ["gpu=h1000"])

    assert str(scenario.origin.error("model", "unknown model")) == f"{file}:1: model: unknown model"
    assert str(scenario.origin.error("gpu", "unknown GPU", "Valid: ...")) == "--set gpu=h1000: unknown GPU. Valid: ..."


def test_an_error_from_below_gets_its_place(file: Path) -> None:
    origin = load_scenario(file).origin
    bare = ConfigError("must divide the heads", key="dtype")

    assert str(origin.locate(bare, "replica")) == f"{file}:4: replica.dtype: must divide the heads"
    assert str(origin.locate(ConfigError("is wrong", key="replica.dtype"), "replica")).endswith(
        "4: replica.dtype: is wrong"
    )
    assert str(origin.locate(ConfigError("unknown model"), "model")) == f"{file}:1: model: unknown model"
    placed = ConfigError("no such file", file="trace.csv")
    assert origin.locate(placed, "workload") is placed


def test_paths_are_relative_to_what_names_them(file: Path) -> None:
    origin = load_scenario(file, ["gpu=mine.yaml"]).origin

    assert origin.resolve("model", "config.json") == file.parent / "config.json"
    assert origin.resolve("gpu", "mine.yaml") == Path("mine.yaml")
    assert origin.resolve("model", "/a/config.json") == Path("/a/config.json")
    assert Origin().resolve("model", "config.json") == Path("config.json")
