"""What `pagelab generate` says: answers and figures, as a text or as one JSON document."""

from typing import Any

import click

from engine.checkpoint import TextSide
from engine.generate import Answer, Generated
from sim import Config, __version__
from sim.report import speculation
from sim.work import Work


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
