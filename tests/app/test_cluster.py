"""The README's way to more than one machine, followed as it is written: a scheduler and two workers."""

import json
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sim.sweep import Plan
from tests.app.test_sweep import expected, rows_in
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
