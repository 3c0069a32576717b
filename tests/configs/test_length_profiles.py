"""The built-in length profiles against the traces they were made from, and profile files of one's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from servecast.configs.length_profiles import load_length_profile, profile_names, read_length_profile
from servecast.configs.traces import read_trace
from servecast.hardware.errors import ConfigError
from servecast.model.lengths import JointLengths, UniformLength, rank_correlation

TRACES = {
    "azure-conv-2023": "azure_llm_2023_conv.csv.gz",
    "azure-code-2023": "azure_llm_2023_code.csv.gz",
    "sharegpt": "sharegpt_8k_lengths.csv.gz",
    "mooncake-conversation": "mooncake_conversation.jsonl.gz",
}


def test_the_profiles_of_the_manual_are_there() -> None:
    assert set(profile_names()) == {*TRACES, "1k1k", "8k1k", "1k8k"}


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_can_be_drawn_and_says_where_it_comes_from(name: str) -> None:
    profile = read_length_profile(name)
    prompt, output = profile.lengths.draw(1000, np.random.default_rng(0), np.random.default_rng(1))
    assert min(prompt.min(), output.min()) >= 1
    assert "not stated" not in (profile.source, profile.licence, profile.title)


def test_fixed_settings_are_0_8_to_1_0_of_nominal() -> None:
    assert load_length_profile("8k1k") == JointLengths(UniformLength(6553, 8192), UniformLength(819, 1024))


@pytest.mark.needs_shared
@pytest.mark.parametrize("name", TRACES)
def test_draws_from_a_profile_have_the_statistics_of_its_trace(name: str, shared_data: Path) -> None:
    trace = read_trace(shared_data / "traces" / TRACES[name])
    profile = read_length_profile(name)
    assert profile.requests == len(trace)
    prompt, output = profile.lengths.draw(100_000, np.random.default_rng(0), np.random.default_rng(1))
    for drawn, real in ((prompt, trace.prompt_tokens), (output, trace.output_tokens)):
        assert drawn.mean() == pytest.approx(real.mean(), rel=0.02)
        assert np.percentile(drawn, [50, 90, 99]) == pytest.approx(np.percentile(real, [50, 90, 99]), rel=0.03)
        assert real.min() <= drawn.min() <= drawn.max() <= real.max()
    expected = rank_correlation(trace.prompt_tokens, trace.output_tokens)
    assert rank_correlation(prompt, output) == pytest.approx(expected, abs=0.03)


def test_a_profile_of_ones_own_is_a_yaml_file(tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text(
        "title: ours\n"
        "prompt: {distribution: lognormal, mean: 900, cv: 1.2, max: 8192}\n"
        "output: {distribution: histogram, probabilities: [0, 0.5, 1], tokens: [1, 80, 900]}\n"
        "rank_correlation: 0.4\n"
    )
    profile = read_length_profile(str(file))
    assert (profile.name, profile.title, profile.licence) == ("ours", "ours", "not stated")
    assert profile.lengths.rank_correlation == 0.4
    assert profile.lengths.output.at(np.array([0.5])).tolist() == [80]


def test_an_unknown_profile_is_answered_with_a_near_miss() -> None:
    with pytest.raises(ConfigError, match=r"unknown workload profile 'azure-conv'. Did you mean 'azure-conv-2023'"):
        load_length_profile("azure-conv")


GOOD = "prompt: {distribution: fixed, value: 5}\noutput: {distribution: fixed, value: 5}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "a profile must be a mapping"),
        (GOOD + "outptu: 3\n", r"own.yaml:3: outptu: unknown key. Did you mean 'output'"),
        (GOOD + "rank_correlation: much\n", "own.yaml:3: rank_correlation: must be a number, found 'much'"),
        (GOOD + "rank_correlation: 2\n", "own.yaml:3: rank_correlation: must lie in"),
        ("prompt: {distribution: fixed, value: 5}\n", "output: needs a mapping with the key distribution"),
        (
            GOOD.replace("fixed", "fix"),
            r"own.yaml:1: prompt.distribution: unknown distribution 'fix'. Did you mean",
        ),
        (GOOD.replace("value: 5", "value: 0"), "own.yaml:1: prompt.value: must be a whole number"),
        (GOOD.replace("value: 5", "value: five"), "own.yaml:1: prompt: .*'five' is not a number"),
        (GOOD.replace("value", "mean"), "own.yaml:1: prompt: does not fit distribution fixed: .*'mean'"),
        (
            "prompt: {distribution: uniform, low: 9, high: 8}\n",
            r"own.yaml:1: prompt.high: must not lie below low",
        ),
    ],
)
def test_a_wrong_profile_file_is_named_with_line_and_key(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_length_profile(file)
