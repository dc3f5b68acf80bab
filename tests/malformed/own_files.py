"""Files to spoil that PageLab itself wrote, or that tell it what to do."""

import json
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from app.classroom import read_result
from app.commands.sweep import read_plan
from app.payload import replay_payload
from app.stored import read_runs
from sim import Config, Request, Trace, simulate
from sim.additive_timing import AdditiveTiming
from sim.sweep import Plan, Store, open_store, work
from tests.malformed.judging import Target
from tests.malformed.mutations import BINARY, JSON, TEXT

TIMING = (
    json.dumps(
        {"seconds": {"step": 0.01, "token": 0}, "curve": [[1, 0.1], [64, 0.2]], "config": {"model": "tiny"}}
    ).encode(),
    json.dumps({"seconds": {"step": 0.01, "token": 1e-5, "context_token": 1e-7, "copied_token": 0}}).encode(),
)
RESULT = (
    json.dumps(
        {
            "pagelab": "1",
            "runs": [
                {"allocator": "max", "source": "simulated", "waste_percent": 80.0},
                {"allocator": "max", "source": "measured", "waste_percent": 80},
            ],
            "agreement": [{"allocator": "max", "steps_compared": 12, "block_tables_identical": True}],
        }
    ).encode(),
)
PLANS = (
    b'[fixed]\ntrace = "demo"\npool_tokens = 4096\nmax_len = 512\n\n[grid]\nallocator = ["max", "paged"]\nblock_size = [8, 16]\n',
    b'[fixed]\ntrace = "demo"\nfirst = 8\n\n[[list]]\nallocator = "grow"\ngrowth = "64"\n\n[[list]]\nmodel = "opt-13b"\nmemory = "40GiB"\n',
)  # fmt: skip
PLAN = Plan.make({"trace": "demo", "first": 2, "pool_tokens": 4096, "max_len": 512}, {"block_size": [8, 16]})
TWO = Trace(
    "two",
    (
        Request(id="a", arrival_s=0.0, prompt=3, output=4, max_tokens=6),
        Request(id="b", arrival_s=0.0, prompt=5, output=2, max_tokens=6),
    ),
)


def plan_of(path: Path) -> None:
    parts = read_plan(str(path))
    plan = Plan.make(parts.get("fixed", {}), parts.get("grid", {}), parts.get("list", []))
    with stored(plan, path.parent):
        pass


@contextmanager
def stored(plan: Plan, folder: Path) -> Generator[Store]:
    """A store of its own for the plan, which will hand out what was planned and nothing else."""
    with tempfile.TemporaryDirectory(dir=folder) as name, open_store(Path(name), plan) as store:
        handed_out = list(store.missing().values())
        assert handed_out == json.loads(json.dumps(plan.configurations)), "a value was changed on its way"
        yield store


def database_seeds(folder: Path) -> list[bytes]:
    """Half done: one of two rows."""
    with open_store(folder / "made", PLAN) as store:
        store.add(1, work(store.missing()[1]))
    return [(folder / "made" / "sweep.sqlite").read_bytes()]


def go_on(path: Path) -> None:
    with open_store(path.parent, PLAN) as store:
        store.counts()
        store.missing()
        store.results()


def log_seeds(folder: Path) -> list[bytes]:
    from app.rows import write_events

    path = folder / "seed.jsonl"
    seeds: list[bytes] = []
    for allocator in ("paged", "max"):
        write_events(
            simulate(TWO, Config(allocator=allocator, pool_tokens=64, max_len=16, block_size=4)), path
        )
        seeds.append(path.read_bytes())
    return seeds


OWN_FILES = {
    "timing": Target(seeds=lambda _: TIMING, mutations=JSON, read=AdditiveTiming.read),
    "result of a student": Target(
        seeds=lambda _: RESULT, mutations=JSON, read=lambda path: list(read_result(path))
    ),
    "plan of a sweep": Target(seeds=lambda _: PLANS, mutations=TEXT, read=plan_of, file="plan.toml"),
    "rows of a sweep": Target(
        seeds=database_seeds, mutations=BINARY, read=go_on, file="sweep.sqlite", wanted=200
    ),
    "event log": Target(
        seeds=log_seeds,
        mutations=JSON,
        read=lambda path: replay_payload(read_runs([path])),
        file="events.jsonl",
    ),
}
