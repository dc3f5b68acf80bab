"""`pagelab trace`: list built-ins, look into a trace, convert it."""

from typing import Any

import click
import orjson
from rich.console import Console
from rich.table import Table

from app.options import config_options, take_trace, trace_options
from sim.trace import list_builtins


@click.group(short_help="list, inspect and convert request traces")
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
