"""`pagelab generate`: real text from a real model, over paged memory or any other allocator."""

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import orjson

from app.commands.measure import engine_options
from app.options import config_options, make_config
from app.output import each_step, progress
from app.rejections import first_rejection
from engine.checkpoint import TextSide, text_side
from engine.checkpoint.named import need_model
from engine.exhausted import memory_told
from engine.generate import Answer, Decoding, Generated, generate, warm_up
from engine.graphs import make_graphs
from engine.setup import make_model, make_pool, pick_device, refuse_backend, refuse_impossible
from sim import Config, InputError, __version__
from sim.models import get_model
from sim.report import speculation
from sim.work import Work

USUAL_MODEL = "smollm2-135m"
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
@config_options(only=DIALS, usual={"model": USUAL_MODEL, "kv_dtype": "fp32"})
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
    text = text_side(need_model(options["model"] or USUAL_MODEL))
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


def document(made: Generated, texts: list[str], text: TextSide, config: Config) -> dict[str, Any]:
    """What `--json` writes."""
    return {
        "pagelab": __version__,
        "model": config.model,
        "config": config.as_json(),
        "answers": [
            _as_json(answer, prompt, text) for answer, prompt in zip(made.answers, texts, strict=True)
        ],
        "run": figures(made),
    }


def figures(made: Generated) -> dict[str, Any]:
    """Of the run as a whole; times are measured."""
    run, config = made.run, made.run.config
    return {
        "clock": "measured",
        "seconds": made.seconds,
        "steps": run.num_steps,
        "output_tokens": made.num_tokens,
        "output_tokens_per_s": made.num_tokens / made.seconds,
        "preemptions": run.num_preemptions,
        "pool_slots": config.num_slots,
        "peak_slots": run.peak_slots,
        "kv_pool_bytes": config.pool_bytes,
        "kv_peak_bytes": run.peak_slots * config.spec.kv_bytes_per_token(config.kv_dtype),
        "speculation": speculation(run.work),
        "agreement": made.agreement,
    }


def show(made: Generated, texts: list[str], text: TextSide, *, quiet: bool) -> None:
    """Answers on standard output, figures on standard error."""
    for answer, prompt in zip(made.answers, texts, strict=True):
        if len(texts) > 1 and not quiet:
            click.echo(f">>> {prompt}")
        if answer.reject_reason is not None:
            click.echo(f"pagelab: prompt {answer.id} rejected: {answer.reject_reason}", err=True)
        for index, said in enumerate(answer.said):
            head = f"[{index}] " if len(answer.said) > 1 else ""
            click.echo(head + text.decode(said.tokens).strip())
        if len(texts) > 1:
            click.echo()
    if not quiet:
        run = figures(made)
        slots = f"{run['peak_slots']} of {run['pool_slots']} slots"
        click.echo(
            f"{run['output_tokens']} tokens in {run['seconds']:.1f} s, {run['output_tokens_per_s']:.1f} a "
            f"second (measured); {run['steps']} steps, at most {slots}, "
            f"{run['preemptions']} preemptions",
            err=True,
        )
        if made.run.config.speculate:
            click.echo(told(made.run.work), err=True)
    if made.agreement and (made.agreement["first_difference"] or not quiet):
        click.echo(told_of_memory(made.agreement), err=True)


def told(work: Work) -> str:
    """What drafts brought, as a sentence."""
    if not work.drafted:
        return "no draft was proposed: nothing was said twice"
    return (
        f"{work.accepted} of {work.drafted} drafts accepted, {work.accepted / work.drafted:.0%}; "
        f"{work.tokens_per_decode:.2f} tokens a decode step instead of 1"
    )


def told_of_memory(agreement: dict[str, Any]) -> str:
    """What was found in memory, as a sentence."""
    found = agreement["first_difference"]
    if found is None:
        return f"memory was as the log says in all {agreement['steps_compared']} steps"
    return f"pagelab: step {found['step']}: {found['what']} (the log is simulated, memory measured)"


def _as_json(answer: Answer, prompt: str, text: TextSide) -> dict[str, Any]:
    return {
        "id": answer.id,
        "prompt": prompt,
        "prompt_tokens": len(answer.prompt),
        "status": "rejected" if answer.reject_reason else "finished",
        "reason": answer.reject_reason,
        "hit_tokens": answer.hit_tokens,
        "preemptions": answer.preemptions,
        "said": [
            {
                "text": text.decode(said.tokens),
                "tokens": said.tokens,
                "end": "end-token" if said.has_ended else "max-tokens",
                "score": said.score,
            }
            for said in answer.said
        ],
    }


def _encode(text: TextSide, prompt: str, *, plain: bool, system: str | None) -> list[int]:
    if plain and system is not None:
        raise InputError("--system with --plain: a plain text has no system message; drop one of them")
    if plain or text.chat_template is None:
        return text.encode(prompt)
    return text.encode_chat(prompt, system)


def _config(options: dict[str, Any], ids: list[list[int]], decoding: Decoding) -> Config:
    """The pool holds all prompts at once, up to a limit, where its size was not given."""
    name = options["model"] or USUAL_MODEL
    longest = options["max_len"] or min(2048, get_model(name).max_positions)
    defaults: dict[str, Any] = {"model": name, "kv_dtype": "fp32", "hardware": "laptop", "max_len": longest}
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
