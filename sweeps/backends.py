"""Where tasks run: this machine (loky), a Dask cluster or a Ray cluster, all through joblib.

joblib sizes the chunks: from the time that the first ones take it packs as many tasks into one as run for 0.2 s or
more, so that tasks of a few milliseconds are not swamped by dispatch, and fewer again where they get long.
"""

from __future__ import annotations

import itertools
import logging
import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from servecast.hardware.errors import ConfigError

BACKENDS = ("loky", "dask", "ray")

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]

Results = Generator[Any, None, None]
Run = Callable[[Iterable[Call]], Results]

# Ray gives results back only when all of a call are there: a call takes about this long, for progress and storage.
_ROUND_S = 2.0


@dataclass(frozen=True)
class Backend:
    """name: one of BACKENDS. jobs: workers; None for all cores, or all that the cluster has.

    address: of a running cluster (`tcp://host:8786` for Dask, `ray://host:10001` or `auto` for Ray); None starts one on
    this machine.
    """

    name: str = "loky"
    jobs: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if self.name not in BACKENDS:
            raise ConfigError(f"must be one of {', '.join(BACKENDS)}, found {self.name!r}", key="--backend")
        if self.jobs is not None and self.jobs < 1:
            raise ConfigError(f"must be 1 or more, found {self.jobs}", key="--jobs")
        if self.address is not None and self.name == "loky":
            hint = "Add --backend dask or --backend ray"
            raise ConfigError("belongs to a cluster; loky runs on this machine", key="--address", hint=hint)

    @property
    def n_jobs(self) -> int:
        """As joblib counts: -1 for all."""
        return -1 if self.jobs is None else self.jobs


@contextmanager
def opened(backend: Backend) -> Iterator[Run]:
    """A function that runs joblib's `delayed` calls and gives what they return as it comes, in any order.

    Workers stop when the context is left. Raises ConfigError if a library is missing or the cluster does not answer.
    """
    opening = {"loky": _loky, "dask": _dask, "ray": _ray}[backend.name]
    with opening(backend) as run:
        yield run


@contextmanager
def _loky(backend: Backend) -> Iterator[Run]:
    from joblib import Parallel

    parallel = Parallel(
        n_jobs=backend.n_jobs, backend="loky", return_as="generator_unordered", initializer=_end_with_parent
    )
    yield lambda calls: _streamed(parallel, calls)


def _end_with_parent() -> None:
    """In a worker: leave when the parent is gone. loky's workers would wait for a killed one, holding their memory."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _dask(backend: Backend) -> Iterator[Run]:
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise _missing("dask", error) from None
    from joblib import Parallel, parallel_config

    if backend.address is None:
        # No dashboard: its port may be taken. One thread a worker: the simulator is Python.
        cluster = LocalCluster(n_workers=backend.jobs, threads_per_worker=1, dashboard_address=None)
    else:
        cluster = backend.address
    try:
        client = Client(cluster)
    except (OSError, ValueError) as error:
        raise _unreachable(backend, error) from None
    try:
        with client, parallel_config(backend="dask"):
            parallel = Parallel(n_jobs=backend.n_jobs, return_as="generator_unordered")
            yield lambda calls: _streamed(parallel, calls)
    finally:
        if backend.address is None:
            cluster.close()


@contextmanager
def _ray(backend: Backend) -> Iterator[Run]:
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError as error:
        raise _missing("ray", error) from None
    from joblib import Parallel, effective_n_jobs, parallel_config

    register_ray()
    try:
        _check_answer(backend.address)
        if backend.address is None:
            ray.init(num_cpus=backend.jobs, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        else:
            ray.init(address=backend.address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as error:
        raise _unreachable(backend, error) from None
    try:
        with parallel_config(backend="ray"), Parallel(n_jobs=backend.n_jobs) as parallel:
            workers = effective_n_jobs(backend.n_jobs)
            yield lambda calls: _in_rounds(parallel, calls, workers)
    finally:
        ray.shutdown()


def _check_answer(address: str | None) -> None:
    """Raise OSError if nothing listens at a `host:port`: Ray would wait for it for ever."""
    if address is None:
        return
    parts = urlsplit(address if "://" in address else f"//{address}")
    if parts.hostname and parts.port:
        socket.create_connection((parts.hostname, parts.port), timeout=10).close()


def _streamed(parallel: Any, calls: Iterable[Call]) -> Results:
    """Results as they come; closed before its end, it stops the workers."""
    results = parallel(calls)
    try:
        for result in results:  # noqa: UP028 - `yield from` would close them before the warning is off
            yield result
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that what still runs is cancelled
            results.close()


def _in_rounds(parallel: Any, calls: Iterable[Call], workers: int) -> Results:
    """Calls in rounds of about `_ROUND_S`, each a whole joblib call."""
    left, size = iter(calls), workers
    while group := list(itertools.islice(left, size)):
        begin = time.perf_counter()
        yield from parallel(group)
        spent = time.perf_counter() - begin
        size = max(workers, min(4 * size, int(len(group) * _ROUND_S / spent)))


def _missing(extra: str, error: ImportError) -> ConfigError:
    hint = f"Install it with: pip install 'servecast[{extra}]'"
    return ConfigError(f"{extra} is not installed ({error})", key=f"--backend {extra}", hint=hint)


def _unreachable(backend: Backend, error: Exception) -> ConfigError:
    place = "on this machine" if backend.address is None else f"at {backend.address}"
    return ConfigError(f"no {backend.name} cluster {place}: {error}", key="--address")
