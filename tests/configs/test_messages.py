"""Whatever is wrong with a scenario file: file, line, key, what was found and what would be right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from servecast.configs.build import build_simulation
from servecast.configs.load import load_scenario
from servecast.hardware.errors import ConfigError

Refused = Callable[[str, str], str]


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
            "max_num_seqs: must not be above max_num_batched_tokens (8192), found 9000",
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
            "must be none, slo or {max_queue: N}, found false. YAML reads on, off, yes and no as",
        ),
        ("max_num_seqs: 64", "kind: orka", "found the text 'orka'. Did you mean 'orca'?"),
        ("max_num_seqs: 64", "preemption: swop", "found the text 'swop'. Did you mean 'swap'?"),
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
    refused: Refused, old: str, new: str, told: str
) -> None:
    assert told in refused(old, new)


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
def test_wrong_arrivals(refused: Refused, arrivals: str, told: str) -> None:
    assert told in refused("{process: poisson, request_rate: 5}", arrivals)


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
def test_wrong_distributions(refused: Refused, prompt: str, told: str) -> None:
    lengths = f"{{prompt: {prompt}, output: {{distribution: fixed, value: 9}}}}"

    assert told in refused("{profile: azure-conv-2023}", lengths)


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
def test_lengths_have_one_source(refused: Refused, lengths: str, told: str) -> None:
    assert told in refused("{profile: azure-conv-2023}", lengths)


@pytest.mark.parametrize(
    ("admission", "told"),
    [
        ("SLO", "chat.yaml:6: scheduler.admission: must be none, slo or {max_queue: N}, found the text 'SLO'. Did"),
        ("max_queue", "found the text 'max_queue'. Write admission: {max_queue: 100}"),
        ("{max_queu: 5}", "found a mapping of max_queu. Write admission: {max_queue: 100}"),
        ("{max_queue: -1}", "scheduler.admission.max_queue: must be a whole number, 0 or more, found -1"),
        ("{max_queue: true}", "scheduler.admission.max_queue: must be a whole number, 0 or more, found true"),
        ("slo", "slo: needs a limit of ttft: scheduler.admission is slo. Give slo: ttft:p99<=500ms"),
    ],
)
def test_wrong_admission(refused: Refused, admission: str, told: str) -> None:
    assert told in refused("max_num_seqs: 64", f"admission: {admission}")


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (
            "fcsf",
            "must be one of fcfs, shortest_prompt, priority, aging, edf, longest_prefix, found the text 'fcsf'. Did",
        ),
        ("shortest", "Did you mean 'shortest_prompt'?"),
        ("on", "found true. YAML reads on, off, yes and no as true and false"),
        ("'mine:'", "an import path must be written package.module:Class, found the text 'mine:'"),
        ("{fcfs: 1}", "found a mapping"),
        ("a:b:c", "an import path must be written package.module:Class, found the text 'a:b:c'"),
        ("edf", "slo: needs a limit of ttft or e2el: deadlines of scheduler.policy edf come from it"),
    ],
)
def test_wrong_policies(refused: Refused, policy: str, told: str) -> None:
    assert told in refused("max_num_seqs: 64", f"policy: {policy}")


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("nowhere.policies:Mine", "cannot load 'nowhere.policies:Mine': No module named 'nowhere'"),
        ("collections:Mine", "cannot load 'collections:Mine': module 'collections' has no attribute 'Mine'"),
        ("collections:namedtuple", "cannot load 'collections:namedtuple': namedtuple() missing 2 required"),
        ("collections:OrderedDict", "'collections:OrderedDict' has no method key(request)"),
    ],
)
def test_a_policy_that_cannot_be_loaded_is_named_with_its_line(scenario_file: Path, path: str, told: str) -> None:
    scenario_file.write_text(scenario_file.read_text().replace("max_num_seqs: 64", f"policy: {path}"))

    with pytest.raises(ConfigError) as caught:
        build_simulation(load_scenario(scenario_file))

    assert (caught.value.file, caught.value.line, caught.value.key) == (scenario_file, 6, "scheduler.policy")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("max_num_partial_prefills: 9000", "must not be above max_num_batched_tokens (8192), found 9000"),
        ("max_long_partial_prefills: 2", "must not be above max_num_partial_prefills (1), found 2"),
        ("long_prefill_token_threshold: -1", "must be 0 or more, found -1"),
        ("swap_copy_us: 2us", "must be a number, found the text '2us'. Write the number alone, without 'us'"),
        ("aging_tokens_per_s: -1", "must be 0 or more, found -1"),
    ],
)
def test_wrong_limits_of_the_scheduler(refused: Refused, settings: str, told: str) -> None:
    assert told in refused("max_num_seqs: 64", settings)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("priorities: {high: 1}", "workload.priorities.high: a priority must be a whole number, found the text 'high'"),
        ("priorities: {yes: 1}", "a priority must be a whole number, found true"),
        ("priorities: {0: 0}", "workload.priorities.0: must be above 0, found 0"),
        ("priorities: 3", "workload.priorities: must be a mapping with shares of the requests, found 3. Such as"),
        ("priorities: {}", "must be a mapping with shares of the requests, found an empty one"),
        ("tenants: {7: 1}", 'a tenant\'s name must be text, found 7. Put quotes around it: "7"'),
        ("tenants: {off: 1}", "found false. YAML reads on, off, yes and no"),
        ("tenants: [free, paid]", "workload.tenants: must be a mapping with shares of the requests, found a list"),
        ("prompts: 100", "workload.prompts: must be a section with keys, found 100"),
        ("prompts: {distinct: 0}", "workload.prompts.distinct: must be 1 or more, found 0"),
        ("prompts: {shared_prefix: 9}", "unknown key. Did you mean 'shared_prefix_tokens'?"),
    ],
)
def test_wrong_identities(refused: Refused, setting: str, told: str) -> None:
    assert told in refused("num_requests: 200", setting)


@pytest.mark.parametrize(
    ("cohorts", "told"),
    [
        ("{}", "cohorts.by: is missing"),
        ("{by: prompt}", "found the text 'prompt'. Did you mean 'prompt_tokens'?"),
        ("{by: prompt_tokens}", "cohorts.edges: is missing: prompt_tokens needs the upper edges of its classes"),
        (
            "{by: priority, edges: [3]}",
            "cohorts.edges: belongs to by: prompt_tokens or output_tokens, found by: priority",
        ),
        ("{by: prompt_tokens, edges: [9, 3]}", "cohorts.edges: must increase, found [9, 3]"),
        ("{by: prompt_tokens, edges: [0]}", "cohorts.edges.0: must be 1 or more, found 0"),
        ("{by: tenant}", "chat.yaml:3: cohorts: by tenant needs workload.tenants"),
    ],
)
def test_wrong_cohorts(refused: Refused, cohorts: str, told: str) -> None:
    assert told in refused("gpu: h100-sxm", f"gpu: h100-sxm\ncohorts: {cohorts}")


# Several mistakes


def test_all_mistakes_are_told_in_the_order_of_the_file(refused: Refused) -> None:
    told = refused("gpu: h100-sxm\nreplica:\n  dtype: bfloat16", "gpu: 1\nreplica:\n  dtype: x\nseed: -1")

    assert [line.split(": ")[1] for line in told.splitlines()] == ["gpu", "replica.dtype", "seed"]


def test_at_most_five_mistakes_are_told(refused: Refused) -> None:
    told = refused("gpu: h100-sxm\n", "".join(f"wrong{i}: {i}\n" for i in range(7)))

    assert len(told.splitlines()) == 6
    assert told.endswith("and 3 more")


def test_a_misspelt_required_key_is_one_mistake(refused: Refused) -> None:
    told = refused("model: llama", "modle: llama")

    assert told.startswith("chat.yaml:1: modle: unknown key. Did you mean 'model'?")
    assert len(told.splitlines()) == 1


def test_the_first_mistake_gives_the_error_its_place(scenario_file: Path) -> None:
    text = scenario_file.read_text().replace("rate: 5", "rate: -5")
    scenario_file.write_text(f"{text}seed: x\n")

    with pytest.raises(ConfigError) as caught:
        load_scenario(scenario_file)

    assert (caught.value.line, caught.value.key) == (9, "workload.arrivals.request_rate")
    assert caught.value.exit_code == 2
