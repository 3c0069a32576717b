"""The command line. Commands import what they need when they run: `--help` must come at once."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from servecast import cli_calibration, cli_planning
from servecast.cli_options import Json, Overrides
from servecast.cli_reports import register as register_reports
from servecast.hardware.errors import ServecastError

app = typer.Typer(
    help="Predict latency, throughput and cost of LLM serving on a GPU before you buy it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Key = Annotated[str | None, typer.Argument(help="Show one entry: a key, an alias or a file of your own.")]


@app.command()
def run(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (YAML).")],
    overrides: Overrides = None,
    json: Json = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the files that `servecast report` reads.")] = None,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Also write timeline.json, a trace for Perfetto.")
    ] = False,
) -> None:
    """Simulate one scenario.

    Example: servecast run configs/quickstart.yaml --set workload.arrivals.request_rate=8 --out out/quickstart
    """
    from servecast.commands.run import run_scenario

    run_scenario(scenario, overrides or [], as_json=json, out=out, with_timeline=timeline)


@app.command()
def memory(  # long, as typer wants a parameter for each option
    scenario: Annotated[Path | None, typer.Argument(help="Scenario file (YAML); else give --model and --gpu.")] = None,
    overrides: Overrides = None,
    model: Annotated[str | None, typer.Option(help="Catalogue key, or path of a config.json.")] = None,
    gpu: Annotated[list[str] | None, typer.Option(help="Catalogue key. Give it again to compare GPUs.")] = None,
    engine: Annotated[str | None, typer.Option(help="Engine profile. Default: vllm-0.19.")] = None,
    tp: Annotated[int | None, typer.Option("--tp", "--tensor-parallel-size", help="GPUs that share a layer.")] = None,
    pp: Annotated[int | None, typer.Option("--pp", "--pipeline-parallel-size", help="Pipeline stages.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Of the weights: bfloat16, fp8, w4a16 ...")] = None,
    kv_cache_dtype: Annotated[str | None, typer.Option(help="auto (16 bit) or fp8.")] = None,
    gpu_memory_utilization: Annotated[float | None, typer.Option(help="Share of a GPU. Default: 0.9.")] = None,
    max_model_len: Annotated[int | None, typer.Option(help="Tokens. Default: what the model allows.")] = None,
    max_num_batched_tokens: Annotated[int | None, typer.Option(help="Default: what vLLM's server takes.")] = None,
    max_num_seqs: Annotated[int | None, typer.Option(help="Default: what vLLM's server takes.")] = None,
    block_size: Annotated[int | None, typer.Option(help="Tokens in a KV block. Default: 16.")] = None,
    length: Annotated[int | None, typer.Option(help="Tokens of a sequence, for the concurrency.")] = None,
    json: Json = False,
) -> None:
    """Show whether a model fits, how large the KV pool is, and what to change if it does not fit.

    Example: servecast memory --model llama-3.1-8b --gpu h100-sxm --gpu l40s --max-model-len 8192

    The exit code is 0 if it fits every GPU asked for, else 1.
    """
    from servecast.commands.memory import show_memory

    settings = {
        "model": model,
        "engine": engine,
        "tensor_parallel_size": tp,
        "pipeline_parallel_size": pp,
        "dtype": dtype,
        "kv_cache_dtype": kv_cache_dtype,
        "gpu_memory_utilization": gpu_memory_utilization,
        "max_model_len": max_model_len,
        "max_num_batched_tokens": max_num_batched_tokens,
        "max_num_seqs": max_num_seqs,
        "block_size": block_size,
    }
    fits_all = show_memory(scenario, overrides or [], gpu or [], settings, length=length, as_json=json)
    if not fits_all:
        raise typer.Exit(1)


@app.command()
def gpus(key: Key = None, json: Json = False) -> None:
    """List the GPUs of the catalogue, or show one.

    Example: servecast gpus h100-sxm
    """
    from servecast.commands.catalogue import show_gpus

    show_gpus(key, as_json=json)


@app.command()
def models(key: Key = None, json: Json = False) -> None:
    """List the models of the catalogue, or show one; the path of a config.json works too.

    Example: servecast models llama-3.1-8b
    """
    from servecast.commands.catalogue import show_models

    show_models(key, as_json=json)


@app.command()
def engines(key: Key = None, json: Json = False) -> None:
    """List the engine profiles, or show one.

    Example: servecast engines vllm-0.19
    """
    from servecast.commands.catalogue import show_engines

    show_engines(key, as_json=json)


@app.command()
def lab(
    experiment: Annotated[
        str | None, typer.Argument(help="Name of the experiment. Without it they are listed.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for table.csv, figure.svg, figure.png and scenarios/.")
    ] = None,
    json: Json = False,
) -> None:
    """List the scheduler experiments, or run one and print what it shows.

    Example: servecast lab starvation --out out/starvation
    """
    from servecast.commands.lab import list_experiments, run_lab

    if experiment is None:
        list_experiments(as_json=json)
    else:
        run_lab(experiment, out=out, as_json=json)


cli_planning.register(app)
register_reports(app)


@app.command()
def schema(
    sweep: Annotated[bool, typer.Option("--sweep", help="Of sweep files instead.")] = False,
) -> None:
    """Print the JSON schema of scenario files, for editors.

    Example: servecast schema > scenario.schema.json
    """
    from servecast.commands.catalogue import print_schema, print_sweep_schema

    if sweep:
        print_sweep_schema()
    else:
        print_schema()


cli_calibration.register(app)


@app.callback(invoke_without_command=True)
def _root(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if show_version:
        from servecast.version import version

        typer.echo(version())
        raise typer.Exit


def main() -> None:
    """Entry point: errors that servecast foresees end with one message and their exit code, without a traceback."""
    try:
        app()
    except ServecastError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output (`| head`) has gone; nothing is wrong.
        sys.stderr.close()
        sys.exit(0)
    except SystemExit as leaving:
        # Or it went before anything was written to it; then Typer is told so, and would leave with 1.
        if isinstance(leaving.__context__, BrokenPipeError):
            sys.exit(0)
        raise
    except OSError as error:
        # Standard output on a full disk, say. Python would try to write it once more on its way out.
        typer.echo(f"error: {error}", err=True)
        os._exit(2)
