"""`pagelab capacity`: the highest request rate that meets a latency target, for each policy and memory."""

import sys
from contextlib import ExitStack
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import click
import orjson
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from app.files import only_writer
from app.help import SectionedCommand
from app.interrupt import listening
from app.options import config_options, make_configs, take_trace, trace_options
from app.waiting import waiting
from sim import Config, InputError
from sim.alloc import ALLOCATORS
from sim.capacity import PRECISION, Capacity, Point, Target, efficient, find_capacity
from sim.costs import FORMULAS, Costs
from sim.files import new_file
from sim.report import describe_trace

USUAL_TRIES = 10  # rates that a bisection looks at, for the estimate


@click.command(cls=SectionedCommand)
@trace_options
@click.option(
    "--target", "targets", multiple=True, required=True, help="such as ttft-p95=0.5; all must be met"
)
@click.option(
    "--allocator", "allocators", multiple=True, help=f"{' | '.join(ALLOCATORS)}; repeat it to compare"
)
@click.option(
    "--memory", "memories", multiple=True, help="device memory, such as 40GiB; repeat it to compare"
)
@config_options(skip=("allocator", "memory"))
@click.option("--price-per-hour", type=float, help="of one device, in any currency: for the cost of tokens")
@click.option("--power", "power_w", type=float, help="of one device while it serves [W]: for their energy")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output, nothing else")
@click.option("--out", type=click.Path(file_okay=False), help="folder for capacity.json and capacity.png")
@click.option("--quiet", is_flag=True, help="no progress, no table")
def capacity(
    targets: tuple[str, ...],
    allocators: tuple[str, ...],
    memories: tuple[str, ...],
    price_per_hour: float | None,
    power_w: float | None,
    as_json: bool,
    out: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Play TRACE faster and faster under each policy until it misses a target, by bisection.

    A target is ttft, tpot, e2e or normalized latency at mean, p50, p95 or p99, in seconds.

    Ctrl-C ends the search; what was found until then is reported, and each search that was cut short says so.
    """
    wanted = [Target.parse(text) for text in targets]
    costs = Costs(price_per_hour=price_per_hour, power_w=power_w)
    trace = take_trace(options)
    configs = with_memories(make_configs(allocators or ("paged",), options), memories)
    if out:
        click.get_current_context().with_resource(only_writer(Path(out)))
    found: list[Capacity] = []
    total = USUAL_TRIES * len(configs)
    with listening() as interrupt, waiting("rates", total, shown=not quiet) as advance:
        for config in configs:
            found.append(find_capacity(trace, config, wanted, lambda _: advance(), interrupt))
            if interrupt.came:
                break
    document: dict[str, Any] = {
        "trace": describe_trace(trace),
        "targets": [str(target) for target in wanted],
        "precision": PRECISION,
        "price_per_hour": price_per_hour,
        "power_w": power_w,
        "formulas": FORMULAS,
        "capacities": [describe(one, wanted, costs) for one in found],
        "frontier": frontier(found, wanted[0]),
    }
    if as_json:
        click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2))
    elif not quiet:
        show(document)
    if out:
        write(Path(out), document, to_stderr=as_json)
    interrupt.end("the report says what was found")


def with_memories(configs: list[Config], memories: tuple[str, ...]) -> list[Config]:
    """Each config with each memory. Raises InputError where a pool is given beside it."""
    if not memories:
        return configs
    for config in configs:
        if config.pool_tokens is not None or config.pool_blocks is not None:
            raise InputError("--memory with --pool-tokens or --pool-blocks: both size the pool; give one")
    return [replace(config, memory=memory) for config, memory in product(configs, memories)]


def describe(found: Capacity, targets: list[Target], costs: Costs) -> dict[str, Any]:
    """One entry of `capacities`."""
    config, best = found.config, found.best
    entry: dict[str, Any] = {
        "allocator": config.allocator,
        "memory": config.memory,
        "pool_slots": config.num_slots,
        "pool_bytes": config.pool_bytes,
        "devices": config.tensor_parallel,
        "rate": None,
        "is_bounded": found.is_bounded,
        "is_stopped": found.is_stopped,
        "config": config.as_json(),
        "points": [describe_point(point, targets) for point in found.points],
    }
    if best:
        entry |= describe_point(best, targets) | costs.of(best.report, config.tensor_parallel)
    return entry


def describe_point(point: Point, targets: list[Target]) -> dict[str, Any]:
    """What one rate came to."""
    report = point.report
    return {
        "rate": point.rate,
        "is_met": point.is_met,
        **{f"{target.latency}-{target.point}": target.value(report) for target in targets},
        "tokens_per_s": report["throughput"]["tokens_per_s"],
        "waste_percent": report["waste_percent"],
        "mean_batch": report["batch"]["mean"],
        "rejected": report["requests"]["rejected"],
        "preemptions": report["preemptions"],
    }


def frontier(found: list[Capacity], target: Target) -> list[dict[str, Any]]:
    """Every rate tried, by memory, rate and latency (that of the first target), and which nothing beats."""
    tried = [
        (one.config, point, value)
        for one in found
        for point in one.points
        if (value := target.value(point.report)) is not None
    ]
    best = efficient([(config.pool_bytes, point.rate, value) for config, point, value in tried])
    return [
        {
            "allocator": config.allocator,
            "pool_bytes": config.pool_bytes,
            "rate": point.rate,
            f"{target.latency}-{target.point}": value,
            "is_efficient": is_best,
        }
        for (config, point, value), is_best in zip(tried, best, strict=True)
    ]


def show(document: dict[str, Any]) -> None:
    """A table, and the formulas of what was asked for."""
    names = [text.partition("=")[0] for text in document["targets"]]
    table = Table(title=f"{document['trace']['name']}: highest rate with {' and '.join(document['targets'])}")
    table.box, table.title_justify = SIMPLE_HEAD, "left"
    asked = {"cost_per_million_tokens": "price_per_hour", "kwh_per_million_tokens": "power_w"}
    costs = [name for name, given in asked.items() if document[given] is not None]
    headings = ("allocator", "pool GB", "requests/s", *names, "tokens/s", "waste %", "batch")
    for heading in (*headings, *(name.replace("_", " ") for name in costs)):
        table.add_column(heading, justify="left" if heading == "allocator" else "right")
    for entry in document["capacities"]:
        table.add_row(*cells(entry, names, costs))
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    console.print(
        f"rates to within {100 * document['precision']:g} %; times are modelled; a pool of 1 GB is 10^9 bytes"
    )
    for name in costs:
        console.print(f"{name.replace('_', ' ')} = {document['formulas'][name]}", highlight=False)


def cells(entry: dict[str, Any], names: list[str], costs: list[str]) -> list[str]:
    """One row of the table."""
    head = [entry["allocator"], f"{entry['pool_bytes'] / 1e9:.2f}"]
    if entry["rate"] is None:
        return [*head, "interrupted" if entry["is_stopped"] else "missed at any rate"]
    rate = f"{entry['rate']:.4g}"
    if entry["is_stopped"]:
        rate = f"at least {rate}: interrupted"
    elif not entry["is_bounded"]:
        rate = f"over {rate}: trace too short"
    return [
        *head,
        rate,
        *(f"{entry[name]:.3g}" for name in names),
        f"{entry['tokens_per_s']:,.0f}",
        f"{entry['waste_percent']:.1f}",
        f"{entry['mean_batch']:.1f}",
        *(f"{entry[name]:.4g}" for name in costs),
    ]


def write(folder: Path, document: dict[str, Any], *, to_stderr: bool) -> None:
    """The document and its picture, both or neither."""
    from app.capacity_plot import draw  # matplotlib takes a while
    from app.plots import as_png

    text = orjson.dumps(document, option=orjson.OPT_INDENT_2)
    picture = as_png(draw(document))
    with ExitStack() as both:
        for name, content in (("capacity.json", text), ("capacity.png", picture)):
            file = both.enter_context(new_file(folder / name))
            file.write(content)
            file.flush()  # a full disk is met here, before either file has its name
    click.echo(f"plot: {folder / 'capacity.png'}", err=to_stderr)
