"""What was fitted, as an engine profile that reads back as it was meant."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builders import a_gpu, gemm_table_text, real_engine
from servecast.configs.kernel_tables.group import Group
from servecast.configs.kernel_tables.groups import kernel_groups
from servecast.configs.kernel_tables.profile import (
    FittedGroup,
    kernel_entries,
    profile_yaml,
    with_whole_all_reduce,
)
from servecast.configs.kernel_tables.read import read_kernel_table
from servecast.hardware.engines import EngineProfile, load_engine
from servecast.model.calibration.all_reduce import AllReduceRows, RingFit
from servecast.model.calibration.fitting import fit

TRUE = {"t0_us": 5.0, "e_c": 0.7, "e_m": 0.8, "p": 3.0}


@pytest.fixture
def entries(tmp_path: Path) -> dict[str, object]:
    """Of a GEMM table."""
    (tmp_path / "gemm.csv").write_text(gemm_table_text(**TRUE))
    groups, _ = kernel_groups([read_kernel_table(tmp_path / "gemm.csv")], a_gpu(), real_engine())
    fitted = [FittedGroup(group, fit(group.form, group.rows, group.defaults)) for group in groups]
    return kernel_entries(fitted, a_gpu(), "made in a test")


def written(tmp_path: Path, engine: str, changes: dict[str, object], name: str = "mine.yaml") -> EngineProfile:
    (tmp_path / name).write_text(profile_yaml(engine, changes, "made in a test"))
    return load_engine(str(tmp_path / name))


def test_profile_reads_back_with_the_fit_and_the_base(tmp_path: Path, entries: dict[str, object]) -> None:
    engine, base = written(tmp_path, "vllm-0.15", {"kernels": {"h100-sxm": entries}}), load_engine("vllm-0.15")
    kernels = engine.kernels_for("h100-sxm")

    gemm = kernels.gemm["16bit"]
    assert (gemm.t0_s, gemm.e_c, gemm.e_m, gemm.p) == pytest.approx((5e-6, 0.7, 0.8, 3.0), rel=0.01)
    assert kernels.sources["gemm_16bit"].endswith("48 points of 8 shapes; made in a test")
    assert "on shapes held out of the fit" in kernels.residuals["gemm_16bit"]
    assert kernels.decode == base.kernels_for("h100-sxm").decode
    assert (engine.host, engine.version) == (base.host, base.version)


def test_a_second_calibration_adds_to_the_first(tmp_path: Path, entries: dict[str, object]) -> None:
    written(tmp_path, "vllm-0.19", {"kernels": {"h100-sxm": entries}})
    again = written(tmp_path, str(tmp_path / "mine.yaml"), {"kernels": {"l40s": entries}}, "both.yaml")

    assert again.kernels_for("h100-sxm").gemm["16bit"].e_c == pytest.approx(0.7, rel=0.01)
    assert again.kernels_for("l40s").gemm["16bit"] == again.kernels_for("h100-sxm").gemm["16bit"]


def fitted_group(name: str) -> FittedGroup:
    form, defaults = RingFit(2), {"a_us": 10.0, "busbw_gbs": 100.0}
    blank = AllReduceRows(np.ones(8), np.geomspace(1e6, 1e9, 8), np.full(8, 2))
    rows = replace(blank, seconds=form.seconds(blank, {"a_us": 20.0, "busbw_gbs": 50.0}))
    group = Group(name, form, rows, defaults, (), "a test", form.seconds(rows, defaults))
    return FittedGroup(group, fit(form, rows, defaults))


def test_one_regime_of_an_all_reduce_over_nvlink_is_not_written_where_the_other_is_unknown() -> None:
    small, large = fitted_group("all_reduce_small"), fitted_group("all_reduce_large_n2")
    pcie, unmeasured = fitted_group("all_reduce_pcie_n2"), real_engine().default_kernels

    alone = with_whole_all_reduce([large, pcie], unmeasured)
    assert [one.written for one in alone] == [False, True]
    assert "small messages" in alone[0].useless
    assert all(one.written for one in with_whole_all_reduce([small, large], unmeasured))


def test_an_entry_is_replaced_as_a_whole(tmp_path: Path, entries: dict[str, object]) -> None:
    """Remarks on the older fit would be about other coefficients."""
    old = {"any": {"t0_us": 1.0, "e_c": 0.5, "e_m": 0.5, "p": 2.0, "heldout": "9%", "kept": {"p": "x"}, "source": "y"}}
    written(tmp_path, "vllm-0.19", {"kernels": {"h100-sxm": {"gemm_16bit": old}}})
    again = written(tmp_path, str(tmp_path / "mine.yaml"), {"kernels": {"h100-sxm": entries}}, "both.yaml")

    assert again.kernels_for("h100-sxm").gemm["16bit"].e_c == pytest.approx(0.7, rel=0.01)
    assert "kept" not in (tmp_path / "both.yaml").read_text()
