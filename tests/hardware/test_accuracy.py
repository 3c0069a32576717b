"""Which measured runs are nearest to a run, and what they say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from servecast.hardware.accuracy import Band, Situation, expected_error, read_bands, shipped_bands
from servecast.hardware.errors import ConfigError

HERE = Situation(
    gpu="h100-sxm",
    engine="vllm",
    dtype="fp8",
    kind="dense",
    load="light",
    link="fast",
    stages=1,
    calibration="measured",
)


def band(pct: float, **where: str) -> Band:
    """A band of 30 runs. scope: "measured" unless it is given."""
    scope = where.pop("scope", "measured")
    return Band(scope, where, "tpot", 30, pct / 3, pct, pct, in_sample=False)


OWN = {"gpu": "h100-sxm", "engine": "vllm"}


def tpot(situation: Situation, *bands: Band) -> float:
    return expected_error(situation, bands).pct["tpot"]


def test_the_nearest_kind_with_enough_runs_counts() -> None:
    rungs = [
        band(5, **OWN, dtype="fp8", load="light"),
        band(6, **OWN, dtype="fp8"),
        band(7, **OWN),
        band(8, engine="vllm", dtype="fp8", load="light"),
        band(9, engine="vllm", dtype="fp8"),
        band(10, engine="vllm"),
        band(11),
    ]
    assert [tpot(HERE, *rungs[first:]) for first in range(7)] == [5, 6, 7, 8, 9, 10, 11]
    assert tpot(HERE, replace(rungs[0], n=4), *rungs[1:]) == 6


def test_runs_that_a_number_was_fitted_to_do_not_stand_alone() -> None:
    fitted = replace(band(2, **OWN, dtype="fp8", load="light"), in_sample=True)
    assert tpot(HERE, fitted, band(10, engine="vllm")) == 10
    assert tpot(HERE, fitted, band(7, **OWN)) == 7
    assert tpot(HERE, fitted) == 2


def test_without_a_run_there_is_no_band() -> None:
    error = expected_error(HERE, [])
    assert (error.label, dict(error.pct)) == ("kernels", {})


def test_a_gpu_without_measurements_has_the_errors_of_the_default_coefficients() -> None:
    nobody = replace(HERE, gpu="t4", calibration="datasheet")
    error = expected_error(nobody, [band(8, engine="vllm"), band(25, scope="unmeasured", engine="vllm")])
    assert (error.label, error.pct["tpot"]) == ("datasheet", 1.5 * 25)
    assert "by coefficients of other GPUs" in error.basis["tpot"]


def test_runs_of_the_gpu_itself_need_no_stand_in() -> None:
    own = band(20, gpu="a10", engine="vllm")
    error = expected_error(replace(HERE, gpu="a10", calibration="datasheet"), [own, band(40, scope="unmeasured")])
    assert (error.label, error.pct["tpot"], error.widened) == ("validated", 20, ())


def test_a_sibling_has_the_wider_of_its_sibling_and_all_others() -> None:
    sibling = replace(HERE, gpu="h800-sxm", calibration="sibling", calibrated_on="h100-sxm")
    error = expected_error(sibling, [band(5, **OWN), band(12, engine="vllm")])
    assert (error.label, error.pct["tpot"]) == ("sibling", 12)
    assert tpot(sibling, band(15, **OWN), band(12, engine="vllm")) == 15


@pytest.mark.parametrize(("kind", "expected"), [("dense", 5), ("moe", 20), ("mla", 20)])
def test_experts_widen_the_band(kind: str, expected: float) -> None:
    bands = (band(5, **OWN), band(20, kind="moe"))
    assert tpot(replace(HERE, kind=kind), *bands) == expected


def test_a_band_never_narrows() -> None:
    assert (
        tpot(replace(HERE, kind="moe", link="pcie"), band(30, **OWN), band(20, kind="moe"), band(10, link="pcie")) == 30
    )


def test_tensor_parallel_over_pcie_and_stages_widen_the_band() -> None:
    bands = (band(5, **OWN), band(40, link="pcie", engine="vllm"))
    assert tpot(replace(HERE, link="pcie"), *bands) == 40
    staged = expected_error(replace(HERE, stages=2), bands)
    assert (staged.pct["tpot"], len(staged.widened)) == (10, 1)


def test_runs_of_this_gpu_and_engine_make_a_band_validated() -> None:
    error = expected_error(HERE, [band(7, **OWN), band(5, **OWN, dtype="fp8", load="light")])
    assert error.label == "validated"
    assert error.basis["tpot"] == "measured runs on h100-sxm, vllm, fp8, light load"


def test_the_bands_that_ship_can_be_read_and_name_what_they_rest_on() -> None:
    bands = shipped_bands()
    assert all(known.n >= 5 and known.band > 0 for known in bands)
    error = expected_error(HERE, bands)
    assert error.label == "validated"
    assert 0 < error.pct["tpot"] < error.pct["ttft"] < 100


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bands: 3\n", "bands: must be a list of bands"),
        ("bands:\n- {scope: measured, figure: tpot, n: 5, median: 1, p90: 2, bend: 3}\n", "unknown key. Did you mean"),
        ("bands:\n- {scope: measured, figure: tpot, n: 5, median: 1, p90: 2, band: wide}\n", "found 'wide'"),
    ],
)
def test_a_wrong_file_is_one_message(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bands.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"bands\.yaml:1|bands\.yaml:2") as caught:
        read_bands(file)
    assert message in str(caught.value)


def test_weights_that_kernels_unpack_have_twice_the_band_of_16_bit_and_are_not_validated() -> None:
    bands = [band(5, **OWN, dtype="fp8"), band(7, **OWN, dtype="16bit")]
    error = expected_error(replace(HERE, dtype="nvfp4", unpacked=True), bands)
    assert (error.label, error.pct["tpot"]) == ("kernels", 14)


def test_one_format_is_no_surer_than_all_on_a_gpu_that_nobody_measured() -> None:
    bands = [band(8, scope="unmeasured", engine="vllm", dtype="fp8"), band(20, scope="unmeasured", engine="vllm")]
    assert tpot(replace(HERE, gpu="t4", calibration="datasheet"), *bands) == 1.5 * 20
