"""`pagelab calc`: from a model to bytes, blocks and slots, with the formula."""

import click
import orjson

from app.options import config_options, make_config
from sim import Config
from sim.models import QUANTIZED_DTYPES, SCALE_BYTES, ModelSpec, element_bytes, parse_bytes
from sim.parallel import kv_copies


@click.command()
@config_options(only=("model", "kv_dtype", "block_size", "memory", "tensor_parallel"))
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
    """All figures in bytes and slots; `max_slots` and `max_blocks` only where memory is given.

    What one rank holds is told apart where there are several; memory is then the memory of one.
    """
    spec, rank = config.spec, config.rank_spec
    numbers: dict[str, int | str] = {
        "model": spec.name,
        "kv_dtype": config.kv_dtype,
        "block_size": config.block_size,
        "kv_bytes_per_token": spec.kv_bytes_per_token(config.kv_dtype),
        "kv_bytes_per_block": spec.kv_bytes_per_block(config.block_size, config.kv_dtype),
        "weights_bytes": spec.weights_bytes(),
    }
    if config.tensor_parallel > 1:
        numbers |= {
            "tensor_parallel": config.tensor_parallel,
            "kv_heads_per_rank": rank.num_kv_heads,
            "kv_head_copies": kv_copies(spec, config.tensor_parallel),
            "kv_bytes_per_token_per_rank": rank.kv_bytes_per_token(config.kv_dtype),
            "kv_bytes_per_block_per_rank": rank.kv_bytes_per_block(config.block_size, config.kv_dtype),
            "weights_bytes_per_rank": rank.weights_bytes(),
        }
    if config.memory is not None:
        numbers["memory_bytes"] = parse_bytes(config.memory)
        numbers["max_slots"] = config.num_pool_tokens
        numbers["max_blocks"] = config.num_pool_blocks
    return numbers


def explain(spec: ModelSpec, config: Config, numbers: dict[str, int | str]) -> str:
    """The same figures in sentences, with how they come about."""
    scales = f" + {SCALE_BYTES} B of scale each" if config.kv_dtype in QUANTIZED_DTYPES else ""
    lines = [
        f"{spec.name}, keys and values in {config.kv_dtype}",
        f"  KV per token  2 x {spec.num_layers} layers x {spec.num_kv_heads} kv heads x "
        f"{spec.head_dim} dims x {element_bytes(config.kv_dtype)} B{scales} "
        f"= {numbers['kv_bytes_per_token']:,} B",
        f"  KV per block  {config.block_size} tokens = {numbers['kv_bytes_per_block']:,} B",
        f"  weights       {spec.num_parameters:,} parameters x 2 B = {numbers['weights_bytes']:,} B",
    ]
    if config.tensor_parallel > 1:
        copies = f", each on {numbers['kv_head_copies']} ranks" if numbers["kv_head_copies"] != 1 else ""
        lines.append(
            f"  on each of {config.tensor_parallel} ranks: {numbers['kv_heads_per_rank']} kv heads{copies}, "
            f"{numbers['kv_bytes_per_token_per_rank']:,} B per token, "
            f"{numbers['kv_bytes_per_block_per_rank']:,} B per block, "
            f"{numbers['weights_bytes_per_rank']:,} B of weights"
        )
    if "max_slots" in numbers:
        where = " of each rank" if config.tensor_parallel > 1 else ""
        lines.append(
            f"  in {numbers['memory_bytes']:,} B{where}  {numbers['max_slots']:,} slots beside the weights "
            f"= {numbers['max_blocks']:,} blocks"
        )
    return "\n".join(lines)
