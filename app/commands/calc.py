"""`pagelab calc`: from a model to bytes, blocks and slots, with the formula."""

import click
import orjson

from app.options import config_options, make_config
from sim import Config
from sim.models import ModelSpec, parse_bytes


@click.command(short_help="bytes, blocks and slots of a model's KV cache")
@config_options(only=("model", "kv_dtype", "block_size", "memory"))
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output, nothing else")
def calc(as_json: bool, **options: str | int | None) -> None:
    """Compute what a model's KV cache takes, and how many slots fit beside its weights."""
    config = make_config(options)
    numbers = calculate(config)
    if as_json:
        click.echo(orjson.dumps(numbers, option=orjson.OPT_INDENT_2))
        return
    click.echo(explain(config.spec, config, numbers))


def calculate(config: Config) -> dict[str, int | str]:
    """All figures in bytes and slots; `max_slots` and `max_blocks` only where memory is given."""
    spec = config.spec
    numbers: dict[str, int | str] = {
        "model": spec.name,
        "kv_dtype": config.kv_dtype,
        "block_size": config.block_size,
        "kv_bytes_per_token": spec.kv_bytes_per_token(config.kv_dtype),
        "kv_bytes_per_block": spec.kv_bytes_per_block(config.block_size, config.kv_dtype),
        "weights_bytes": spec.weights_bytes(),
    }
    if config.memory is not None:
        numbers["memory_bytes"] = parse_bytes(config.memory)
        numbers["max_slots"] = config.num_pool_tokens
        numbers["max_blocks"] = config.num_pool_blocks
    return numbers


def explain(spec: ModelSpec, config: Config, numbers: dict[str, int | str]) -> str:
    """The same figures in sentences, with how they come about."""
    lines = [
        f"{spec.name}, keys and values in {config.kv_dtype}",
        f"  KV per token  2 x {spec.num_layers} layers x {spec.num_kv_heads} kv heads x {spec.head_dim} dims "
        f"= {numbers['kv_bytes_per_token']:,} B",
        f"  KV per block  {config.block_size} tokens = {numbers['kv_bytes_per_block']:,} B",
        f"  weights       {spec.num_parameters:,} parameters x 2 B = {numbers['weights_bytes']:,} B",
    ]
    if "max_slots" in numbers:
        lines.append(
            f"  in {numbers['memory_bytes']:,} B  {numbers['max_slots']:,} slots beside the weights "
            f"= {numbers['max_blocks']:,} blocks"
        )
    return "\n".join(lines)
