"""Rows are there whole or not at all, and only those of one plan, by one writer."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pandas
import pytest

from sim import InputError
from sim.sweep import Plan, open_store, work
from tests.sim.sweep.making import DEMO, small_plan

ROW = {"status": "refused", "why": "no"}


def test_rows_are_still_there_when_it_is_opened_again(tmp_path):
    with open_store(tmp_path, small_plan()) as store:
        store.add(3, ROW)
    with open_store(tmp_path, small_plan()) as store:
        assert list(store.missing()) == [1, 2, 4, 5, 6, 7]
        assert store.missing()[1] == small_plan().configurations[0]


def test_pandas_reads_the_dials_and_the_figures(tmp_path):
    plan = Plan.make(DEMO, {"block_size": [8, 32]})
    with open_store(tmp_path, plan) as store:
        for number, configuration in store.missing().items():
            store.add(number, work(configuration))
        database = store._database
        frame = pandas.read_sql("SELECT * FROM results", database)
    assert frame["block_size"].tolist() == [8, 32]
    reports = [work(configuration)["report"] for configuration in plan.configurations]
    assert frame["waste_percent"].tolist() == [report["waste_percent"] for report in reports]
    assert frame["ttft_p95_s"].tolist() == [report["latency"]["ttft"]["p95"] for report in reports]
    assert frame["finished"].tolist() == [60, 60]
    assert not frame[["live", "tokens_per_s", "tpot_p99_s", "hit_tokens", "peak_blocks"]].isna().any().any()


KILLED_IN_THE_MIDDLE = """
import os, signal
from pathlib import Path
from sim.sweep import open_store
from tests.sim.sweep.making import small_plan
with open_store(Path("."), small_plan()) as store:
    database = store._database
    database.execute("PRAGMA cache_size = 1")
    database.execute("BEGIN IMMEDIATE")
    for number in range(2, 7):  # more than the cache holds: pages go to the file before the commit
        database.execute("INSERT INTO rows VALUES (?, 'done', '', ?)", (number, "x" * 100_000))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_row_that_was_half_written_when_its_writer_was_killed_is_not_there(tmp_path):
    with open_store(tmp_path, small_plan()) as store:
        store.add(1, ROW)
    whole = (tmp_path / "sweep.sqlite").read_bytes()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", KILLED_IN_THE_MIDDLE], cwd=tmp_path, env=environment)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "sweep.sqlite").read_bytes() != whole, "nothing was torn: this tests nothing"
    with open_store(tmp_path, small_plan()) as store:
        assert [row["number"] for row in store.results()] == [1]
        store.add(2, ROW)


@pytest.mark.parametrize("kept", [0.3, 0.9])
def test_a_torn_file_is_refused_and_says_what_to_do(tmp_path, kept):
    with open_store(tmp_path, small_plan()) as store:
        for number in store.missing():
            store.add(number, {"status": "done", "report": {"filler": "x" * 5000}})
    path = tmp_path / "sweep.sqlite"
    os.truncate(path, int(kept * path.stat().st_size))
    with pytest.raises(InputError, match=r"is damaged .* move it away"), open_store(tmp_path, small_plan()):
        pass


def test_a_number_is_never_written_twice(tmp_path):
    with open_store(tmp_path, small_plan()) as store:
        store.add(1, ROW)
        with pytest.raises(sqlite3.IntegrityError):
            store.add(1, ROW)
        assert len(store.results()) == 1


def test_a_second_writer_is_refused_until_the_first_has_gone(tmp_path):
    with (
        open_store(tmp_path, small_plan()),
        pytest.raises(InputError, match="another sweep is writing there"),
        open_store(tmp_path, small_plan()),
    ):
        pass
    with open_store(tmp_path, small_plan()):
        pass


def test_rows_of_another_plan_or_of_a_changed_trace_are_not_mixed_in(tmp_path):
    trace = tmp_path / "t.jsonl"
    trace.write_text('{"id": "a", "arrival": 0, "prompt": 3, "output": 2}\n')
    fixed = {"trace": str(trace)}
    with open_store(tmp_path, Plan.make(fixed)):
        pass
    with pytest.raises(InputError, match="holds another sweep"), open_store(tmp_path, Plan.make(DEMO)):
        pass
    trace.write_text('{"id": "a", "arrival": 0, "prompt": 3, "output": 3}\n')
    with (
        pytest.raises(InputError, match=r"t\.jsonl, which has changed since"),
        open_store(tmp_path, Plan.make(fixed)),
    ):
        pass


def test_failures_can_be_forgotten_to_run_again(tmp_path):
    with open_store(tmp_path, small_plan()) as store:
        for number, status in enumerate(("done", "refused", "crashed", "out of memory"), start=1):
            store.add(number, {"status": status})
        assert store.forget_failures() == 2
        assert list(store.missing()) == [3, 4, 5, 6, 7]
        assert store.counts() == {"done": 1, "refused": 1, "out of memory": 0, "crashed": 0}


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="choose another --out"), open_store(tmp_path / "file", small_plan()):
        pass
