"""The README's way to more than one machine, followed as it is written: a scheduler and two workers.

And what may happen on it: a worker dies, the scheduler dies, somebody presses Ctrl-C.
"""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sim.sweep import Plan
from tests.app.test_sweep import SMALL, as_in_a_terminal, expected, rows_in
from tests.waiting import wait_for

pytest.importorskip("distributed", reason="the Dask cluster needs: pip install 'pagelab[dask]'")

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def commands() -> list[list[str]]:
    """The shell commands in the README's part, those that run for ever first."""
    part = (ROOT / "README.md").read_text().split("## Beyond one machine")[1].split("\n## ")[0]
    block = re.search(r"<!-- cluster: begin -->\n```sh\n(.*?)```\n<!-- cluster: end -->", part, re.S)
    assert block
    return [shlex.split(line, comments=True) for line in block[1].replace("\\\n", " ").splitlines()]


@pytest.fixture
def home(tmp_path):
    """An empty folder; what was started in it is stopped, and nothing else."""
    started: list[psutil.Popen] = []
    yield tmp_path, started
    for process in started:
        with suppress(psutil.NoSuchProcess):
            for one in (*process.children(recursive=True), process):
                with suppress(psutil.NoSuchProcess):
                    one.kill()
        process.wait()


def test_the_readme_way_works_also_when_a_worker_is_killed(home):
    folder, started = home
    address = "tcp://127.0.0.1:18786"  # the README's is another machine's
    scheduler, worker, sweep = (
        [part.replace("tcp://HOST:8786", address) for part in command if part != "pagelab[dask]"]
        for command in commands()[1:]
    )
    for command in ([*scheduler, "--port", "18786"], worker, worker):
        program = [str(BIN / command[0]), *command[1:]]
        log = (folder / f"{len(started)}.log").open("w")
        started.append(psutil.Popen(program, cwd=ROOT, stdout=log, stderr=log))
    assert sweep[0] == "pagelab"
    out = folder / "out"
    sweep = [*sweep[1 : sweep.index("--out")], "--out", str(out), "--json"]
    process = psutil.Popen([sys.executable, "-m", "app", *sweep], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    wait_for(lambda: rows_in(out), seconds=60)
    nanny = started[1]
    for one in nanny.children():
        one.kill()
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    document = json.loads(said)
    grid = {"rate_scale": [1, 2, 4], "allocator": ["max", "paged"], "block_size": [8, 16, 32]}
    plan = Plan.make({"trace": "sharegpt-like"}, grid)
    assert document["rows"] == expected(plan, folder / "expected")


def sweeping(started: list[psutil.Popen], *options: str) -> psutil.Popen:
    """A sweep with a terminal's signals, in a process group of its own; what it says is kept."""
    process = psutil.Popen(
        [sys.executable, "-m", "app", "sweep", *options],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0,
        preexec_fn=as_in_a_terminal,
    )  # fmt: skip
    started.append(process)
    return process


def said_by(process: psutil.Popen) -> tuple[str, list[str]]:
    """Standard output, and the lines of standard error that are no progress."""
    out, said = process.communicate(timeout=60)
    return out, [line for line in said.splitlines() if not line.startswith("sweep: ")]


def test_a_scheduler_that_dies_ends_the_sweep_in_one_line_and_another_goes_on(home):
    folder, started = home
    seeds = [part for seed in range(120) for part in ("--seed", str(seed))]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    address, out = f"tcp://127.0.0.1:{port}", folder / "out"
    for command in (["scheduler", "--host", "127.0.0.1", "--port", port], ["worker", address]):
        log = (folder / f"{command[0]}.log").open("w")
        started.append(psutil.Popen([str(BIN / "dask"), *command], cwd=ROOT, stdout=log, stderr=log))
    scheduler = started[0]
    sweep = sweeping(started, *SMALL, *seeds, "--scheduler", address, "--out", str(out))
    wait_for(lambda: rows_in(out) > 3, seconds=60)
    scheduler.kill()
    _, (line, *others) = said_by(sweep)
    assert (sweep.returncode, others) == (2, [])
    found = re.match(r"pagelab: the Dask scheduler is gone: (\d+) of 120 rows are in ", line)
    assert found and line.endswith("; the same command goes on from there")
    assert int(found[1]) == rows_in(out) < 120
    again = sweeping(started, *SMALL, *seeds, "--out", str(out), "--quiet")
    assert said_by(again) == ("", [])
    assert rows_in(out) == 120


def test_loggers_with_a_level_of_their_own_are_silenced_too():
    """In one try of a few the scheduler dies while it answers, and then it is tornado that speaks."""
    names = ("tornado.application", "asyncio", "distributed.client")
    program = (
        f"import logging, distributed, app.cluster; loggers = [logging.getLogger(name) for name in {names}];"
        "[logger.setLevel(logging.ERROR) for logger in loggers]; app.cluster._silence();"
        "[logger.error('heard') for logger in loggers]"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_local_cluster_gives_the_rows_of_the_same_work_done_here(home):
    folder, started = home
    options = ["--allocator", "max", "--allocator", "paged", "--rate-scale", "1", "--rate-scale", "2"]
    out = folder / "out"
    sweep = sweeping(started, *SMALL, *options, "--workers", "2", "--out", str(out), "--json")
    text, others = said_by(sweep)
    assert (sweep.returncode, others) == (0, [])
    grid = {"rate_scale": [1.0, 2.0], "allocator": ["max", "paged"]}
    plan = Plan.make({"trace": "demo", "pool_tokens": 4096, "max_len": 512}, grid)
    assert json.loads(text)["rows"] == expected(plan, folder / "expected")


def test_a_ctrl_c_on_a_local_cluster_is_one_line_and_leaves_nobody_behind(home):
    folder, started = home
    out = folder / "out"
    seeds = [part for seed in range(500) for part in ("--seed", str(seed))]
    sweep = sweeping(started, *SMALL, *seeds, "--workers", "1", "--out", str(out))
    wait_for(lambda: rows_in(out) > 3, seconds=60)
    helpers = sweep.children(recursive=True)
    os.killpg(sweep.pid, signal.SIGINT)  # as a terminal does: to the workers too
    _, (line, *others) = said_by(sweep)
    assert (sweep.returncode, others) == (130, [])
    assert re.match(r"pagelab: interrupted: \d+ of 500 rows are in ", line)
    wait_for(lambda: not any(one.is_running() for one in helpers), seconds=5)
