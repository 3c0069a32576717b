"""The store of a folder: what it keeps, who may use it, and how it is read."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from servecast.hardware.errors import ConfigError, DoesNotFitError
from servecast.sweeps.backends import Backend
from servecast.sweeps.runner import Task
from servecast.sweeps.store import FILE_NAME, Planned, open_store, reading, run_stored

ALONE = Backend(jobs=1)
FIGURES = {"third_ms": "times/third"}


def points(numbers: range) -> list[Planned]:
    return [Planned(Task(f"key{number}", {"number": number}), {"number of it": number}) for number in numbers]


def work(content: dict[str, int]) -> dict[str, Any]:
    if content["number"] == 2:
        raise DoesNotFitError("2 does not fit")
    return {"times": {"third": content["number"] / 3, "nothing": float("nan")}}


def refuse(content: dict[str, int]) -> dict[str, Any]:
    raise AssertionError(f"{content} ran again")


def test_results_come_back_in_order_and_exactly(tmp_path: Path) -> None:
    with open_store(tmp_path, resume=False) as store:
        found = run_stored(store, points(range(4)), work, backend=ALONE)
    assert [outcome.status for outcome in found] == ["ok", "ok", "failed", "ok"]
    assert found[1].value == {"times": {"third": 1 / 3, "nothing": None}}
    assert found[2].message == "2 does not fit"


def test_only_what_is_missing_runs(tmp_path: Path) -> None:
    with open_store(tmp_path, resume=False) as store:
        first = run_stored(store, points(range(3)), work, backend=ALONE)
    with open_store(tmp_path, resume=True) as store:
        again = run_stored(store, points(range(3)), refuse, backend=ALONE)
        more = run_stored(store, points(range(5)), work, backend=ALONE)
    assert again == first
    assert more[:3] == first
    assert len(more) == 5


def test_a_crash_is_tried_again(tmp_path: Path) -> None:
    with open_store(tmp_path, resume=False) as store:
        crashed = run_stored(store, points(range(1)), refuse, backend=ALONE)
        repaired = run_stored(store, points(range(1)), work, backend=ALONE)
    assert [outcome.status for outcome in (*crashed, *repaired)] == ["crashed", "ok"]


def test_pandas_reads_the_view(tmp_path: Path) -> None:
    with open_store(tmp_path, resume=False) as store:
        run_stored(store, points(range(4)), work, backend=ALONE, figures=FIGURES)
    with sqlite3.connect(tmp_path / FILE_NAME) as database:
        frame = pd.read_sql("SELECT * FROM points", database)
    database.close()
    assert list(frame.columns) == ["number", "number of it", "third_ms", "status", "message", "seconds"]
    assert frame["third_ms"].tolist()[:2] == [0, 1 / 3]
    assert frame["message"].tolist()[2] == "2 does not fit"


def test_readers_do_not_write_and_do_not_wait(tmp_path: Path) -> None:
    with open_store(tmp_path, resume=False) as store:
        run_stored(store, points(range(4)), work, backend=ALONE)
        with reading(tmp_path) as database:
            assert database.execute("SELECT count(*) FROM points").fetchone() == (4,)
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                database.execute("DELETE FROM outcomes")


def test_a_used_folder_needs_resume(tmp_path: Path) -> None:
    with open_store(tmp_path, resume=False) as store:
        run_stored(store, points(range(2)), work, backend=ALONE)
    with pytest.raises(ConfigError, match=r"holds 2 results already. Add --resume"), open_store(tmp_path, resume=False):
        pass


def test_a_folder_with_something_else_is_not_filled(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ConfigError, match=r"is not empty: it holds thesis.tex"), open_store(tmp_path, resume=False):
        pass
    with open_store(tmp_path, resume=True) as store:
        assert store.outcomes() == []


def test_a_file_that_is_no_store(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("not a database, but long enough to be looked at" * 30)
    with pytest.raises(ConfigError, match="cannot be used"), open_store(tmp_path, resume=True):
        pass
    with pytest.raises(ConfigError, match="holds no results"), reading(tmp_path / "elsewhere"):
        pass


HOLDER = """
import sys, time
from pathlib import Path
from servecast.sweeps.store import open_store
with open_store(Path(sys.argv[1]), resume=True):
    print("open", flush=True)
    time.sleep(60)
"""


def test_one_process_at_a_time_and_the_lock_of_a_dead_one_is_void(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        in_use = rf"is in use by process {holder.pid} on .*\. Wait for it"
        with pytest.raises(ConfigError, match=in_use), open_store(tmp_path, resume=True):
            pass
        holder.kill()
    with open_store(tmp_path, resume=True) as store:
        assert run_stored(store, points(range(1)), work, backend=ALONE)[0].status == "ok"


def test_the_store_names_what_it_was_given(tmp_path: Path) -> None:
    with open_store(tmp_path, resume=False) as store:
        run_stored(store, points(range(1)), work, backend=ALONE)
    with reading(tmp_path) as database:
        ((content, labels),) = database.execute("SELECT content, labels FROM plan JOIN outcomes USING (key)")
    assert (json.loads(content), json.loads(labels)) == ({"number": 0}, {"number of it": 0})
