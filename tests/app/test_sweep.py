"""`pagelab sweep`: from options or a file to rows; killed at any moment, it goes on; and what it refuses."""

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.cli import run as pagelab
from sim.sweep import Plan, open_store, work
from tests.app.test_dirty import limited
from tests.sim.sweep.making import DEMO, nurseries
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]
SMALL = ("demo", "--pool-tokens", "4096", "--max-len", "512")
PLAN = """
[fixed]
trace = "demo"
pool_tokens = 4096
max_len = 512

[grid]
allocator = ["max", "paged"]
block_size = [8, 16]
rate_scale = [1, 2, 3]

[[list]]
allocator = "grow"
growth = "64"
"""
GRID = {"rate_scale": [1, 2, 3], "allocator": ["max", "paged"], "block_size": [8, 16]}


def swept(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert pagelab(["sweep", *options, "--json", "--quiet", "--processes", "2"]) == 0
    return json.loads(capsys.readouterr().out)


def expected(plan: Plan, folder: Path) -> list[dict[str, Any]]:
    """The rows of work done here, one after the other."""
    with open_store(folder, plan) as store:
        for number, configuration in store.missing().items():
            store.add(number, work(configuration))
        return store.results()


def test_options_given_several_times_are_a_grid_over_what_the_file_says(tmp_path, capsys):
    (tmp_path / "plan.toml").write_text(PLAN)
    rows = swept(
        capsys, "--plan", str(tmp_path / "plan.toml"), "--rate-scale", "1", "--block-size", "32",
        "--block-size", "4", "--out", str(tmp_path / "out"),
    )["rows"]  # fmt: skip
    assert [(row["allocator"], row["block_size"], row["rate_scale"]) for row in rows] == [
        ("max", 32, 1), ("max", 4, 1), ("paged", 32, 1), ("paged", 4, 1), ("grow", None, 1),
    ]  # fmt: skip
    assert all(row["status"] == "done" and row["finished"] == 60 for row in rows)


def test_killed_at_any_moment_and_started_again_it_goes_on_and_no_row_is_lost_or_doubled(tmp_path):
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    plan.write_text(PLAN)
    command = [
        sys.executable,
        "-m",
        "app",
        "sweep",
        "--plan",
        str(plan),
        "--out",
        str(out),
        "--processes",
        "2",
    ]
    wanted = Plan.make(DEMO, GRID, [{"allocator": "grow", "growth": "64"}])
    num_kills = 0
    num_rows = [0]
    while num_rows[-1] < len(wanted.configurations) and num_kills < 3:
        process = psutil.Popen(command, cwd=ROOT)
        wait_for(lambda process=process: rows_in(out) > num_rows[-1] or process.poll() is not None)
        helpers = process.children(recursive=True)
        time.sleep(random.uniform(0, 0.1))
        process.kill()  # SIGKILL: nobody can prepare for it
        process.wait()
        num_kills += 1
        num_rows.append(rows_in(out))
        wait_for(lambda helpers=helpers: not any(map(is_alive, helpers)), seconds=5)  # nobody is left behind
    assert num_kills >= 2
    assert num_rows == sorted(num_rows)
    assert (
        subprocess.run(command, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode
        == 0
    )
    with open_store(out, wanted) as store:
        assert store.results() == expected(wanted, tmp_path / "expected")


def rows_in(folder: Path) -> int:
    """How many rows a reader finds there at this moment."""
    path = folder / "sweep.sqlite"
    if not path.exists():
        return 0
    database = sqlite3.connect(path)
    try:
        return database.execute("SELECT count(*) FROM rows").fetchone()[0]
    except sqlite3.OperationalError:  # not begun
        return 0
    finally:
        database.close()


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_ctrl_c_says_how_to_go_on_and_stops_at_once(tmp_path):
    command = [
        sys.executable, "-m", "app", "sweep", "sharegpt-like", "--prefix-cache", "hash", "--seed", "1",
        "--seed", "2", "--processes", "2", "--out", str(tmp_path),
    ]  # fmt: skip
    process = psutil.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, preexec_fn=as_in_a_terminal)
    working = wait_for(lambda: [child for one in nurseries(process) for child in one.children()])
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert said.splitlines()[-1].startswith("pagelab: interrupted: 0 of 2 rows are in")
    assert "Traceback" not in said
    wait_for(lambda: not any(map(is_alive, working)), seconds=2)


MANY = 120  # configurations of some milliseconds: at any moment some nursery is answering


def many_short(out: Path) -> list[str]:
    seeds = [part for seed in range(MANY) for part in ("--seed", str(seed))]
    return [sys.executable, "-m", "app", "sweep", *SMALL, *seeds, "--processes", "3", "--out", str(out)]


def as_in_a_terminal() -> None:
    """In the child: a background job would ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_ctrl_c_amid_many_short_ones_is_one_line(tmp_path):
    """A nursery whose worker went while it answered once printed a traceback of a broken pipe."""
    command = many_short(tmp_path)
    with psutil.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, text=True, preexec_fn=as_in_a_terminal
    ) as process:
        wait_for(lambda: rows_in(tmp_path) > 10)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()  # ends when the last who holds it has gone, nurseries too
    assert process.returncode == 130
    (line,) = (line for line in said.splitlines() if not line.startswith("sweep: "))
    found = re.match(rf"pagelab: interrupted: (\d+) of {MANY} rows are in", line)
    assert found and int(found[1]) == rows_in(tmp_path)


def test_a_disk_that_fills_amid_many_short_ones_is_one_line_and_keeps_the_rows(tmp_path):
    command = many_short(tmp_path)
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, preexec_fn=limited(100_000)
    )
    assert done.returncode == 2
    (line,) = (line for line in done.stderr.splitlines() if not line.startswith("sweep: "))
    assert line.startswith(f"pagelab: {tmp_path}/sweep.sqlite: ")
    assert "make room or choose another --out, then start again" in line
    before = rows_in(tmp_path)
    assert 0 < before < MANY
    assert subprocess.run([*command, "--quiet"], cwd=ROOT, check=False).returncode == 0
    assert rows_in(tmp_path) == MANY


def test_a_memory_hog_is_a_row_like_others(tmp_path, capsys):
    document = swept(
        capsys, "demo", "--max-len", "512", "--prefix-cache", "hash", "--block-size", "16",
        "--block-size", "8", "--pool-tokens", str(1 << 27), "--pool-tokens", "4096", "--memory-limit",
        "200MiB", "--out", str(tmp_path),
    )  # fmt: skip
    assert [row["status"] for row in document["rows"]] == ["out of memory", "done", "out of memory", "done"]
    assert document["counts"] == {"done": 2, "refused": 0, "out of memory": 2, "crashed": 0}


def test_a_second_sweep_into_the_same_folder_is_refused_in_one_line(tmp_path, capsys):
    (configuration,) = (plan := Plan.make(DEMO)).configurations
    with open_store(tmp_path, plan) as store:
        assert pagelab(["sweep", *SMALL, "--out", str(tmp_path)]) == 2
        store.add(1, work(configuration))
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "another sweep is writing there" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["sweep"], "a sweep needs a trace"),
        (["sweep", "demo", "--processes", "2", "--workers", "2"], "give one of them"),
        (["sweep", "demo", "--memory-limit", "lots"], "size 'lots'"),
        (["sweep", "--plan", "nowhere.toml"], "nowhere.toml: No such file"),
        (["sweep", "demo", "--scheduler", "nowhere"], "--scheduler nowhere"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(options, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("app.cluster.WAIT_S", 1)
    assert pagelab(options) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[fixed\n", "is not TOML"),
        ("[fixd]\n", "unknown part 'fixd'"),
        ("grid = 3\n", "write [fixed], [grid] and [[list]]"),
        ("[[grid]]\n", "write [fixed], [grid] and [[list]]"),
        ('list = ["a"]\n', "write [fixed], [grid] and [[list]]"),
        ('[fixed]\ntrace = "demo"\nblock = 3\n', "unknown dial 'block'"),
        ('[fixed]\ntrace = "demo"\n[grid]\nblock_size = 3\n', "must be a list of values"),
    ],
)
def test_a_plan_that_cannot_be_read_is_refused_in_one_line(text, said, capsys, tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(text)
    assert pagelab(["sweep", "--plan", str(path), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not os.path.exists(tmp_path / "out")
