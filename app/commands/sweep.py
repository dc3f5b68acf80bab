"""`pagelab sweep`: many configurations on all cores or on a cluster, one durable row each."""

import os
import sys
import tomllib
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import click
import orjson
from rich.console import Console

from app.cluster import dask_cluster
from app.help import SectionedCommand
from app.options import config_options
from app.sweep_table import failures, results_table
from app.waiting import waiting
from sim import InputError
from sim.models import parse_bytes
from sim.sweep import Plan, ProcessPool, Store, SweepStopped, open_store, run_sweep
from sim.trace import TraceChoice

MAX_SHOWN = 50  # rows; more are for a program to read
PARTS = ("fixed", "grid", "list")


@click.command(cls=SectionedCommand)
@click.argument("traces", metavar="[TRACE]...", nargs=-1)
@config_options(of=TraceChoice, skip=("trace",), repeatable=True)
@config_options(repeatable=True)
@click.option(
    "--plan", type=click.Path(dir_okay=False), help="TOML file with [fixed] dials, a [grid], and a [[list]]"
)
@click.option("--out", default="out/sweep", show_default=True, help="folder for sweep.sqlite; goes on there")
@click.option("--memory-limit", metavar="2GiB", help="memory of one configuration, beyond Python's own")
@click.option("--processes", type=click.IntRange(1), help="on this machine; if not given, one for each core")
@click.option("--workers", type=click.IntRange(1), help="start a local Dask cluster of so many workers")
@click.option("--scheduler", metavar="tcp://HOST:8786", help="hand the work to this Dask cluster")
@click.option("--retry", is_flag=True, help="run again what crashed or ran out of memory")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output, nothing else")
@click.option("--quiet", is_flag=True, help="no progress, no table")
def sweep(
    traces: tuple[str, ...],
    plan: str | None,
    out: str,
    memory_limit: str | None,
    retry: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Simulate every combination of the values given, and write one row each to a SQLite file.

    Give TRACE and any dial several times to sweep over its values, or write them into a file for --plan. The
    same command, started again after a crash or a kill, goes on where it was. Exit code 2 when no row has
    figures.
    """
    workers = {name: options.pop(name) for name in ("processes", "workers", "scheduler")}
    limit_bytes = take_limit(memory_limit)
    wanted = make_plan(plan, {"trace": traces, **options})
    folder = Path(out)
    with open_store(folder, wanted) as store:
        if retry:
            store.forget_failures()
        with executors(**workers) as make_executor:
            run_all(store, make_executor, limit_bytes, shown=not quiet)
        show(store, wanted, as_json=as_json, quiet=quiet)
        return 0 if store.counts()["done"] else 2


def run_all(
    store: Store, make_executor: Callable[[], Executor], limit_bytes: int | None, *, shown: bool
) -> None:
    """All rows that are missing, with progress; what ends it early says how to go on."""
    total, to_do = store.num_planned, len(store.missing())
    with waiting("sweep", total, already=total - to_do, shown=shown) as advance:
        try:
            run_sweep(store, make_executor, limit_bytes=limit_bytes, on_row=lambda _, __: advance())
        except (KeyboardInterrupt, SweepStopped) as error:
            what = str(error) or "interrupted"
            done = total - len(store.missing())
            line = f"{what}: {done} of {total} rows are in {store.path}; the same command goes on from there"
            raise (click.Abort if isinstance(error, KeyboardInterrupt) else InputError)(line) from None


@contextmanager
def executors(
    *, processes: int | None, workers: int | None, scheduler: str | None
) -> Generator[Callable[[], Executor]]:
    """What gives executors: a process pool, or a Dask cluster where that is asked for."""
    given = {"--processes": processes, "--workers": workers, "--scheduler": scheduler}
    asked = [f"{name} {value}" for name, value in given.items() if value is not None]
    if len(asked) > 1:
        raise InputError(f"{' with '.join(asked)}: each says who does the work; give one of them")
    if processes is not None or not asked:
        yield lambda: ProcessPool(processes or len(os.sched_getaffinity(0)))
        return
    with dask_cluster(scheduler, workers) as make_executor:
        yield make_executor


def take_limit(text: str | None) -> int | None:
    """Bytes that one configuration may use. Raises InputError where the system would not see to it."""
    if text is None:
        return None
    if not Path("/proc/self/statm").exists():
        raise InputError(f"--memory-limit {text}: only Linux holds a process to its limit; drop it")
    return parse_bytes(text)


def make_plan(path: str | None, options: dict[str, Any]) -> Plan:
    """What the file says, and over it what the options say."""
    parts = read_plan(path) if path else {}
    given = {name: _all_values(value) for name, value in options.items() if value not in (None, ())}
    fixed = {name: value for name, value in parts.get("fixed", {}).items() if name not in given}
    grid = {name: value for name, value in parts.get("grid", {}).items() if name not in given}
    fixed |= {name: values[0] for name, values in given.items() if len(values) == 1}
    grid |= {name: values for name, values in given.items() if len(values) > 1}
    return Plan.make(fixed, grid, parts.get("list", ()))


def _all_values(value: Any) -> list[Any]:
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else [value]


def read_plan(path: str) -> dict[str, Any]:
    """`[fixed]`, `[grid]` and `[[list]]` of a TOML file. Raises InputError for anything else."""
    try:
        parts = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; --plan names a TOML file") from None
    except ValueError as error:  # also what is no UTF-8, and integers of thousands of digits
        raise InputError(f"{path}: is not TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{path}: is nested too deeply") from None
    for name, part in parts.items():
        if name not in PARTS:
            raise InputError(f"{path}: unknown part {name!r}: write dials under [fixed], [grid] or [[list]]")
        is_right = isinstance(part, dict)
        if name == "list":
            is_right = isinstance(part, list) and all(
                isinstance(item, dict) for item in cast("list[object]", part)
            )
        if not is_right:
            raise InputError(f"{path}: {name}: write [fixed], [grid] and [[list]], with dials below them")
    return parts


def show(store: Store, plan: Plan, *, as_json: bool, quiet: bool) -> None:
    """The rows, or where they are if they are many."""
    counts = store.counts()
    if as_json:
        document = {"file": str(store.path), "counts": counts, "rows": store.results()}
        click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2))
        return
    if quiet:
        return
    if store.num_planned <= MAX_SHOWN:
        rows = store.results()
        Console(width=None if sys.stdout.isatty() else 150).print(results_table(rows, plan.varying))
        for line in failures(rows):
            click.echo(line)
    said = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    click.echo(f"{said}; rows: {store.path}")
    click.echo(f'pandas.read_sql("SELECT * FROM results", sqlite3.connect("{store.path}"))')
