"""`pagelab generate`: real text from a real model, over paged memory or any other allocator."""

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import orjson

from app.answers import document, show
from app.commands.measure import engine_options
from app.options import config_options, make_config
from app.output import each_step, progress
from app.rejections import first_rejection
from engine.checkpoint import TextSide, text_side
from engine.checkpoint.named import need_model
from engine.exhausted import memory_told
from engine.generate import Decoding, generate, warm_up
from engine.graphs import make_graphs
from engine.setup import make_model, make_pool, pick_device, refuse_backend, refuse_impossible
from sim import Config, InputError
from sim.models import get_model

USUAL = {"model": "smollm2-135m", "kv_dtype": "fp32"}  # where help must not say what other commands take
MOST_USUAL_SLOTS = 8192  # of a pool whose size is not given
DIALS = (
    "allocator", "placement", "pool_tokens", "pool_blocks", "block_size", "growth", "size_classes",
    "page_size", "max_len", "model", "kv_dtype", "batching", "step_rule", "max_seqs", "max_batch_tokens",
    "chunked_prefill", "watermark", "preempt", "swap_blocks", "victim", "prefix_cache", "eviction",
    "speculate",
)  # fmt: skip


def decoding_options(command: Any) -> Any:
    """Adds how answers are made; an option that is not given is passed as None."""
    for option in reversed(
        (
            click.option("--max-tokens", type=int, help="longest answer (default 64)"),
            click.option("--temperature", type=float, help="0 is greedy (default 0)"),
            click.option("--top-k", type=int, help="draw from the K likeliest tokens"),
            click.option("--top-p", type=float, help="draw from the likeliest tokens that sum to P"),
            click.option("--n", type=int, help="answers to each prompt, drawn independently (default 1)"),
            click.option("--beam", type=int, help="beam search of so many beams (default 1: none)"),
            click.option("--length-penalty", type=float, help="beams rank by log-prob. / length ** L (1)"),
            click.option("--seed", type=int, help="seed of the draws (default 0)"),
            click.option("--draft", help="what drafts for --speculate: ngram | early-exit (default ngram)"),
            click.option("--draft-layers", type=int, help="of early-exit, its first N layers (default half)"),
        )
    ):
        command = option(command)
    return command


@click.command("generate")
@click.argument("prompts", nargs=-1, metavar="[PROMPT]...")
@click.option(
    "--prompts", "file", type=click.Path(), help="a file with a prompt on each line; - is standard input"
)
@click.option("--plain", is_flag=True, help="go on with the prompt itself, without the model's chat template")
@click.option("--system", default=None, help="what the chat's system message says")
@decoding_options
@config_options(only=DIALS, usual=USUAL)
@engine_options
@click.option(
    "--graphs", default="auto", show_default=True, help="CUDA graphs of decode steps: auto | on | off"
)
@click.option(
    "--check", is_flag=True, help="hold books, block tables and memory against each other at every step"
)
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output, nothing else")
@click.option("--quiet", is_flag=True, help="the answers alone: no progress, no figures")
def generate_command(
    prompts: tuple[str, ...],
    file: str | None,
    plain: bool,
    system: str | None,
    device: str,
    backend: str,
    graphs: str,
    check: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Let a real model answer each PROMPT, all served together with continuous batching.

    The model is smollm2-135m if not given (`pagelab model get smollm2` fetches it), or the PATH of a folder
    with safetensors or of a .gguf file. Keys and values are float32, and the pool is as large as the prompts
    can need, up to 8192 slots, if not given. Exit code 1 when --check finds memory other than the log says.
    """
    texts = [*prompts, *(_read_prompts(file) if file else ())]
    if not texts:
        raise InputError('no prompt: give one, such as "What is a page table?", or --prompts FILE')
    decoding = Decoding(**_take(options, {item.name for item in fields(Decoding)}))
    where = pick_device(device)
    refuse_backend(backend, where)
    text = text_side(need_model(options["model"] or USUAL["model"]))
    ids = [_encode(text, prompt, plain=plain, system=system) for prompt in texts]
    config = _config(options, ids, decoding)
    refuse_impossible(config, where)
    with memory_told():
        model, pool = make_model(config, where), make_pool(config, where, is_marked=check)
    recorded = make_graphs(graphs, model, backend)
    warm_up(config, model, pool, backend)
    shown = not quiet and len(ids) > 1
    with memory_told(), progress("generate", len(ids), shown=shown) as on_progress:
        made = generate(
            ids,
            config,
            decoding,
            model,
            pool,
            end_ids=text.end_ids,
            backend=backend,
            graphs=recorded,
            check=check,
            on_step=each_step(on_progress),
        )
    if all(answer.reject_reason for answer in made.answers):
        reasons = ((answer.id, answer.reject_reason or "") for answer in made.answers)
        raise InputError(f"no prompt can be answered: {first_rejection(reasons)}")
    if as_json:
        click.echo(orjson.dumps(document(made, texts, text, config), option=orjson.OPT_INDENT_2))
    else:
        show(made, texts, text, quiet=quiet)
    return 1 if made.agreement and made.agreement["first_difference"] else 0


def _encode(text: TextSide, prompt: str, *, plain: bool, system: str | None) -> list[int]:
    if plain and system is not None:
        raise InputError("--system with --plain: a plain text has no system message; drop one of them")
    if plain or text.chat_template is None:
        return text.encode(prompt)
    return text.encode_chat(prompt, system)


def _config(options: dict[str, Any], ids: list[list[int]], decoding: Decoding) -> Config:
    """The pool holds all prompts at once, up to a limit, where its size was not given."""
    name = options["model"] or USUAL["model"]
    longest = options["max_len"] or min(2048, get_model(name).max_positions)
    defaults: dict[str, Any] = {**USUAL, "hardware": "laptop", "max_len": longest}
    if options["pool_tokens"] is None and options["pool_blocks"] is None:
        size = options["block_size"] or 16
        width = max(decoding.n, decoding.beam)
        worst = [min(longest, len(prompt) + decoding.max_tokens) for prompt in ids]
        needed = sum(width * (-(-slots // size) + 1) * size for slots in worst)
        is_paged = options["allocator"] in (None, "paged")
        defaults["pool_tokens"] = min(MOST_USUAL_SLOTS, needed) if is_paged else MOST_USUAL_SLOTS
    return make_config(options, **defaults)


def _take(options: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Removes `names` from `options`; returns those that were given."""
    taken = {name: options.pop(name) for name in sorted(names)}
    return {name: value for name, value in taken.items() if value is not None}


def _read_prompts(file: str) -> list[str]:
    try:
        lines = sys.stdin if file == "-" else Path(file).read_text(encoding="utf-8").splitlines()
        return [line.strip() for line in lines if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--prompts {file}: cannot be read ({error})") from None
