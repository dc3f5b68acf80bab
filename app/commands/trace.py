"""`pagelab trace`: list built-ins, look into a trace, convert it, replay it through a cache."""

from typing import Any

import click
import orjson
from rich.console import Console
from rich.table import Table

from app.options import config_options, take_trace, trace_options
from sim.hits import POLICIES, HitRates, replay_hits
from sim.prompts import PromptBlocks
from sim.trace import list_builtins


@click.group()
def trace() -> None:
    """Work with request traces."""


@trace.command("list", short_help="the built-in traces")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output, nothing else")
def list_(as_json: bool) -> None:
    """List the built-in traces, each with its point."""
    builtins = dict(list_builtins())
    if as_json:
        click.echo(orjson.dumps(builtins, option=orjson.OPT_INDENT_2))
        return
    table = Table(show_header=False, box=None)
    for name, description in builtins.items():
        table.add_row(name, description)
    Console().print(table)


@trace.command(short_help="counts, span and length quantiles")
@trace_options
@config_options(only=("seed",))
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output, nothing else")
def info(as_json: bool, **options: Any) -> None:
    """Say what TRACE holds, and what of it was skipped and why."""
    described = take_trace(options).info()
    if as_json:
        click.echo(orjson.dumps(described, option=orjson.OPT_INDENT_2))
        return
    for key, value in described.items():
        click.echo(f"{key:<16}{_line(value)}")


def _line(value: Any) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{key} {_line(item)}" for key, item in value.items()) or "none"  # pyright: ignore
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


@trace.command(short_help="write a trace in the native format")
@trace_options
@click.argument("out", type=click.Path(dir_okay=False))
@config_options(only=("seed",))
def convert(out: str, **options: Any) -> None:
    """Read TRACE and write it to OUT as JSON Lines, without losing a field."""
    converted = take_trace(options)
    converted.write(out)
    skipped = sum(converted.skipped.values())
    click.echo(f"{converted.num_requests} requests written to {out}, {skipped} skipped", err=True)


def block_counts(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[int]:
    """Counts given one by one or as a list, such as `16,32`."""
    texts = [text.strip() for value in values for text in value.split(",")]
    try:
        return [int(text) for text in texts]
    except ValueError:
        raise click.BadParameter(f"{', '.join(texts)}: must be whole numbers, such as 16,32") from None


@trace.command(short_help="prefix hit rates of a cache of N blocks alone")
@trace_options
@click.option(
    "--cache-blocks",
    multiple=True,
    required=True,
    callback=block_counts,
    help="blocks that the cache holds; repeat it or give a list, such as 16,32",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    default=("lru",),
    show_default=True,
    help=f"which block leaves a full cache ({' | '.join(POLICIES)}); repeat it to compare",
)
@click.option(
    "--block-size", type=int, help="tokens in a block; if not given, the size in which TRACE names its blocks"
)
@config_options(only=("seed",))
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output, nothing else")
def hits(
    cache_blocks: list[int], policies: tuple[str, ...], block_size: int | None, as_json: bool, **options: Any
) -> None:
    """Replay TRACE through a prefix cache alone, in file order: nothing runs, nothing takes time.

    hit_rate is tokens found / prompt tokens over the last half of the requests, which find a warm cache;
    hit_rate_all is the same over all requests.
    """
    replayed = take_trace(options)
    prompts = PromptBlocks.of(replayed, block_size)
    points = [describe_hits(replay_hits(prompts, n, policy)) for policy in policies for n in cache_blocks]
    if as_json:
        head = {"trace": replayed.name, "requests": len(replayed), "block_size": prompts.block_size}
        single = points[0] if len(points) == 1 else {}
        click.echo(orjson.dumps({**head, **single, "points": points}, option=orjson.OPT_INDENT_2))
        return
    table = Table(box=None, title=f"{replayed.name}: blocks of {prompts.block_size} tokens", pad_edge=False)
    for heading in ("policy", "cache blocks", "hit rate", "of all requests"):
        table.add_column(heading, justify="left" if heading == "policy" else "right")
    for point in points:
        rates = (f"{100 * point[name]:.2f} %" for name in ("hit_rate", "hit_rate_all"))
        table.add_row(point["policy"], f"{point['cache_blocks']:,}", *rates)
    Console().print(table)


def describe_hits(rates: HitRates) -> dict[str, Any]:
    """One entry of `points`: the last half of the requests, and `_all` of them."""
    return {
        "policy": rates.policy,
        "cache_blocks": rates.cache_blocks,
        "hit_rate": rates.hit_rate,
        "hit_rate_all": rates.hit_rate_all,
        "hit_tokens": rates.hit_tokens,
        "prompt_tokens": rates.prompt_tokens,
        "hit_tokens_all": rates.hit_tokens_all,
        "prompt_tokens_all": rates.prompt_tokens_all,
    }
