"""`servecast calibrate`: fit coefficients to a user's own measurements and write them as an engine profile."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from servecast.commands.files import check_writable, write_whole
from servecast.hardware.engines import load_engine
from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import load_gpu
from servecast.version import version

_WIDE = 160


@dataclass(frozen=True)
class Options:
    """model, overrides, log: how measured runs were served, for those files among the measurements."""

    gpu: str
    engine: str
    out: Path
    model: str | None = None
    overrides: tuple[str, ...] = ()
    log: Path | None = None
    as_json: bool = False


def calibrate(files: Sequence[Path], options: Options) -> bool:
    """Fit, print what was found, write the profile; whether anything could be fitted (else nothing is written).

    Raises ConfigError.
    """
    _check_scipy()
    # All that needs SciPy.
    from servecast.commands.calibrate_host import host_of_runs
    from servecast.commands.calibrate_tables import fits_of_tables
    from servecast.configs.kernel_tables.profile import check_readable, profile_yaml
    from servecast.reports.calibration_text import calibration_figures, render_calibration

    check_writable(options.out, "-o")
    gpu, profile = load_gpu(options.gpu), load_engine(options.engine)
    made_by = f"servecast calibrate {version()}, {datetime.date.today()}"
    runs = [file for file in files if _is_json(file)]
    _check_run_options(runs, options)
    tables = [file for file in files if file not in runs]
    fitted, changes, notes = fits_of_tables(tables, gpu, profile, made_by)
    host = None
    if runs:
        host, host_changes, host_notes = host_of_runs(runs, options, changes, made_by)
        changes, notes = changes | host_changes, notes + host_notes
    written = str(options.out) if changes else None
    if written is not None:
        write_whole(options.out, profile_yaml(options.engine, changes, f"{made_by}: {gpu.key}, {profile.key}"), "-o")
        check_readable(options.out, gpu)
    if options.as_json:
        print(json.dumps(calibration_figures(fitted, host, notes) | {"written": written}, indent=2))
        return written is not None
    console = Console(highlight=False, width=_WIDE, soft_wrap=True)
    console.print(render_calibration(fitted, host, notes))
    console.print(_ending(options, written))
    return written is not None


def _ending(options: Options, written: str | None) -> str:
    if written is None:
        return "Nothing was written: the measurements determine no coefficient"
    return f"Written: {written}. To use it: servecast run SCENARIO.yaml --set gpu={options.gpu} --set engine={written}"


def _is_json(file: Path) -> bool:
    """Whether `file` is a result of `vllm bench serve` rather than a table; what cannot be read is told later."""
    try:
        with file.open("rb") as stream:
            return stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
    except OSError:
        return False


def _check_run_options(runs: Sequence[Path], options: Options) -> None:
    given = {"--model": options.model, "--set": options.overrides, "--log": options.log}
    stray = next((name for name, value in given.items() if value), None)
    if stray is not None and not runs:
        raise ConfigError("says how runs were served, but no file is a result of vllm bench serve", key=stray)


def _check_scipy() -> None:
    try:
        import scipy.optimize  # noqa: F401  (whether it is there)
    except ImportError:
        raise ConfigError("needs SciPy", key="calibrate", hint="pip install 'servecast[calibrate]'") from None
