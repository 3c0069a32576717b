"""`servecast measure`: the plan, an interruption, and what is said without a GPU."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builders import FakeDevice, a_gpu, real_engine
from servecast.commands.measure import measure_into
from servecast.hardware.engines import GemmCoefficients
from servecast.hardware.measure.plan import Gemm, Item, items
from servecast.model.precision import gemm_form

Servecast = Callable[..., subprocess.CompletedProcess[str]]
FACTS = {"gpu": "NVIDIA H100 80GB HBM3"}


def test_the_plan_needs_no_gpu(servecast: Servecast) -> None:
    done = servecast("measure", "--dry-run", "--only", "gemm")

    assert (done.returncode, done.stderr) == (0, "")
    assert "64 measurements" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--dry-run", "--only", "gem"), "--only: unknown kind 'gem'. Did you mean 'gemm'"),
        ((), "-o: is missing: the table to write"),
        (("-o", "nowhere/mine.csv"), "nowhere/mine.csv: -o: no such folder"),
    ],
)
def test_wrong_options_are_one_message(servecast: Servecast, words: tuple[str, ...], message: str) -> None:
    done = servecast("measure", *words)

    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is installed here")
def test_without_pytorch_it_says_what_to_install(servecast: Servecast, tmp_path: Path) -> None:
    done = servecast("measure", "-o", tmp_path / "mine.csv")

    assert done.returncode == 2
    assert "measure: needs PyTorch. pip install 'servecast[measure]'" in done.stderr
    assert not (tmp_path / "mine.csv").exists()


def test_an_interruption_keeps_what_was_measured_and_the_same_command_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, plan = tmp_path / "mine.csv", items(["gemm"])
    interrupted, again = FakeDevice(stop_after=200), FakeDevice()
    with pytest.raises(KeyboardInterrupt):
        measure_into(file, plan, interrupted, FACTS, interrupted.clock)
    kept = len(file.read_text().splitlines()) - 3
    assert f"{kept} of 64 measurements are in {file}; the same command goes on from there" in capsys.readouterr().err

    measure_into(file, plan, again, FACTS, again.clock)
    assert f"Written: {file}: {64 - kept} measurements, {kept} from before, 0 left out" in capsys.readouterr().out


class PricedDevice(FakeDevice):
    """GEMMs take what the cost model says with these coefficients."""

    def prepare(self, item: Item) -> PricedDevice:
        assert isinstance(item, Gemm)
        gpu = a_gpu()
        form = gemm_form(item.gemm_dtype, gpu, real_engine().kernels_for(gpu.key))
        starvation = 0.3 if item.gemm_dtype == "fp8" else 0.0
        form = replace(form, coefficients=GemmCoefficients(6e-6, e_c=0.6, e_m=0.7, p=2.5, s=starvation))
        self.times_s = [float(form.seconds(np.array([float(item.m)]), item.n, item.k).total_s[0])]
        return self


def test_calibrate_finds_the_coefficients_of_what_was_measured(servecast: Servecast, tmp_path: Path) -> None:
    device, table = PricedDevice(), tmp_path / "mine.csv"
    measure_into(table, items(["gemm"]), device, FACTS, device.clock)
    done = servecast("calibrate", table, "--gpu", "h100", "-o", tmp_path / "mine.yaml", "--json")
    groups = json.loads(done.stdout)["groups"]

    for group in ("gemm_16bit", "gemm_fp8"):
        found = groups[group]["coefficients"]
        assert [found[name] for name in ("t0_us", "e_c", "e_m")] == pytest.approx([6.0, 0.6, 0.7], rel=0.02)
        assert groups[group]["not_used"] == ["PyTorch's kernels stand in for those of vllm"]


def test_what_is_left_out_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    device = FakeDevice()
    measure_into(tmp_path / "mine.csv", items(["all-reduce"]), device, FACTS, device.clock)
    printed = capsys.readouterr()

    assert "0 measurements, 0 from before, 51 left out" in printed.out
    assert "needs 8 GPUs, here is 1" in printed.err
