"""How fast the simulator is: whole runs, report included, beside a bare counting loop on the same machine.

    python -m bench.simulator [--without-million]

Every case runs in a process of its own: `simulate(trace, config, record=False)` and `report()`, in seconds of
processor time (`cpu_s`), which neighbours on a shared machine disturb less than wall time (`wall_s`, beside
it). Making the trace is not part of it. The yardstick is a Python loop that counts to 2,560,000, once for
each token that the first case emits; it runs before and after each repetition, and `ratio` is the case over
the mean of the two. A case that is held against another is run by turns with it, in one process. Best and
median are over the repetitions in `raw`; targets are held against the best.
"""

import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from bench.machine import RESULTS, describe
from sim import Config, Request, Trace, simulate
from sim.errors import InputError

AZURE = Path(__file__).parents[2] / "shared" / "data" / "AzureLLMInferenceTrace_conv.csv.gz"
NUM_COUNTED = 10_000 * 256


@dataclass(frozen=True, kw_only=True)
class Case:
    """`trace` is a function's name and its arguments, so that a case can be sent to another process."""

    name: str
    trace: tuple[str, int, int]
    dials: dict[str, Any]
    repeat: int = 7
    target_s: float | None = None
    target_bytes: int | None = None
    beside: str | None = None  # the case that this one is compared with ...
    target_times: float | None = None  # ... and at most how many times as long it may take
    raw: list[dict[str, float]] = field(default_factory=list)


def equal(num_requests: int, output: int) -> Trace:
    """Requests of 512 prompt tokens, 1000 a second."""
    return Trace(
        f"{num_requests} x 512/{output}",
        tuple(
            Request(id=f"r{i}", arrival_s=i / 1000, prompt=512, output=output, max_tokens=output)
            for i in range(num_requests)
        ),
    )


def azure(num_requests: int, _: int) -> Trace:
    """The conversation trace of 2023, again and again until there are enough requests."""
    once = Trace.read(AZURE)
    if num_requests <= len(once):
        return once.first(num_requests)
    span_s = once.requests[-1].arrival_s + 1.0
    return Trace(
        f"{num_requests} from {once.name}",
        tuple(
            replace(once.requests[i % len(once)], id=f"r{i}", arrival_s=once.requests[i % len(once)].arrival_s
                    + i // len(once) * span_s)
            for i in range(num_requests)
        ),
    )  # fmt: skip


TRACES: dict[str, Callable[[int, int], Trace]] = {"equal": equal, "azure": azure}
POOL = {"pool_blocks": 7424, "max_seqs": 256}
AMPLE = {"pool_blocks": 200_000, "max_len": 4096}  # no shortage: only the dial in question changes
LONG = {"max_len": 16_384}

CASES = [
    Case(name="10,000 of 512/256", trace=("equal", 10_000, 256), dials=POOL, target_s=0.25),
    Case(name="Azure, 7,424 blocks", trace=("azure", 19_366, 0), dials={**POOL, **LONG}, target_s=1.0),
    Case(name="Azure, 983 blocks", trace=("azure", 19_366, 0), dials=LONG, target_s=1.0),
    Case(
        name="Azure, never full (H100)",
        trace=("azure", 19_366, 0),
        dials={**POOL, **LONG, "hardware": "h100"},
        target_s=1.0,
    ),
    Case(name="no shortage, 512/256", trace=("equal", 10_000, 256), dials=AMPLE),
    Case(
        name="no shortage, 512/2560",
        trace=("equal", 10_000, 2560),
        dials=AMPLE,
        beside="no shortage, 512/256",
        target_times=1.3,
    ),
    *(
        Case(
            name=f"no shortage, batch {max_seqs:,}",
            trace=("equal", 10_000, 256),
            dials={**AMPLE, "max_seqs": max_seqs},
            beside="no shortage, 512/256",
            target_times=1.3,
        )
        for max_seqs in (1024, 4096)
    ),
    Case(
        name="one million from Azure",
        trace=("azure", 1_000_000, 0),
        dials={**POOL, **LONG},
        repeat=1,
        target_s=60.0,
        target_bytes=1_500_000_000,
    ),
]


def count() -> float:
    """Seconds of the yardstick."""
    start = time.process_time()
    total = 0
    for _ in range(NUM_COUNTED):
        total += 1  # noqa: SIM113
    return time.process_time() - start


def measure(case: Case, base: Case | None) -> dict[str, Any]:
    """Runs in a process of its own. `base` is the case beside it: both are run by turns."""
    trace, config = TRACES[case.trace[0]](*case.trace[1:]), Config(**case.dials)
    other = (TRACES[base.trace[0]](*base.trace[1:]), Config(**base.dials)) if base else None
    simulate(trace.first(50), config, record=False).report()  # imports and caches
    trace_bytes = peak_bytes()
    raw: list[dict[str, float]] = []
    facts: dict[str, Any] = {}
    for _ in range(case.repeat):
        before = count()
        cpu_s, wall_s, report = timed(trace, config)
        raw.append({"cpu_s": cpu_s, "wall_s": wall_s, "ratio": cpu_s / ((before + count()) / 2)})
        facts = {name: report[name] for name in ("steps", "preemptions", "time_s", "waste_percent")}
        facts.update(requests=report["requests"], mean_batch=report["batch"]["mean"])
        del report
        if other:
            raw[-1]["beside_cpu_s"] = timed(*other)[0]
    best, median = (
        {name: pick(one[name] for one in raw) for name in raw[0]} for pick in (min, statistics.median)
    )
    return {
        **asdict(case),
        "best": best,
        "median": median,
        "raw": raw,
        "trace_bytes": trace_bytes,
        "peak_bytes": peak_bytes(),
        **facts,
    }


def timed(trace: Trace, config: Config) -> tuple[float, float, dict[str, Any]]:
    """Processor and wall seconds of a whole run, and its report."""
    wall, start = time.perf_counter(), time.process_time()
    report = simulate(trace, config, record=False).report()
    return time.process_time() - start, time.perf_counter() - wall, report


def peak_bytes() -> int:
    """The most memory that this process has held so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def verdicts(rows: list[dict[str, Any]]) -> None:
    """Adds to each row whether it meets its targets, by its best repetition."""
    for row in rows:
        met: list[bool] = []
        if row["target_s"] is not None:
            met.append(row["best"]["cpu_s"] <= row["target_s"])
        if row["target_bytes"] is not None:
            met.append(row["peak_bytes"] <= row["target_bytes"])
        if row["beside"] is not None:
            row["times"] = row["best"]["cpu_s"] / row["best"]["beside_cpu_s"]
            met.append(row["times"] <= row["target_times"])
        row["meets_target"] = all(met) if met else None


def target_of(row: dict[str, Any]) -> str:
    parts = [f"{row['target_s']:g} s"] if row["target_s"] is not None else []
    if row["target_bytes"] is not None:
        parts.append(f"{row['target_bytes'] / 1e9:g} GB")
    if row["beside"] is not None:
        parts.append(f"{row['target_times']:g}x, is {row['times']:.2f}x")
    return ", ".join(parts)


def show(rows: list[dict[str, Any]]) -> None:
    table = Table(
        "case",
        "steps",
        "preempted",
        "batch",
        "best s",
        "median s",
        "us/request",
        "x loop",
        "peak GB",
        "target",
    )
    for row in rows:
        table.add_row(
            row["name"],
            f"{row['steps']:,}",
            f"{row['preemptions']:,}",
            f"{row['mean_batch']:.0f}",
            f"{row['best']['cpu_s']:.3f}",
            f"{row['median']['cpu_s']:.3f}",
            f"{1e6 * row['best']['cpu_s'] / row['requests']['arrived']:.1f}",
            f"{row['best']['ratio']:.2f}",
            f"{row['peak_bytes'] / 1e9:.2f}",
            {True: "[green]met[/] ", False: "[red]missed[/] ", None: ""}[row["meets_target"]]
            + target_of(row),
        )
    Console(width=None if sys.stdout.isatty() else 150).print(table)


def main(arguments: list[str]) -> int:
    if set(arguments) - {"--without-million"}:
        raise InputError("usage: python -m bench.simulator [--without-million]")
    cases = [case for case in CASES if not arguments or case.trace[1] < 1_000_000]
    if not AZURE.exists():
        print(f"{AZURE} is missing (Azure's public trace of 2023): its cases are left out", file=sys.stderr)
        cases = [case for case in cases if case.trace[0] != "azure"]
    by_name = {case.name: case for case in CASES}
    rows: list[dict[str, Any]] = []
    for case in cases:  # one after the other: they must not disturb each other
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            base = by_name[case.beside] if case.beside else None
            rows.append(process.submit(measure, case, base).result())
    verdicts(rows)
    show(rows)
    document = {
        "command": "python -m bench.simulator",
        "machine": {
            **describe("numpy"),
            "load_average": os.getloadavg() if hasattr(os, "getloadavg") else None,
        },
        "yardstick": f"a Python loop that counts to {NUM_COUNTED}",
        "yardstick_s": min(count() for _ in range(5)),
        "rows": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "simulator.json").write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
    return 0 if all(row["meets_target"] is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
