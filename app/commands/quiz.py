"""`pagelab quiz`: a sheet of questions about a small run, the same for everyone who names its seed."""

import click
import orjson

from app.quiz import BLOCK, COUNT, NUM_BLOCKS, sheet
from sim import InputError


@click.command(short_help="print questions about a run, for a class")
@click.option("--seed", type=int, default=0, show_default=True, help="which sheet: a seed for each student")
@click.option("--count", type=int, default=COUNT, show_default=True, help="number of questions")
@click.option("--answers", is_flag=True, help="print the answers and why")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output, nothing else")
def quiz(seed: int, count: int, answers: bool, as_json: bool) -> None:
    """Ask what happens next in a run of a paged server, and how much."""
    if count < 1:
        raise InputError(f"--count {count}: must be at least 1")
    questions = sheet(seed, count)
    if as_json:
        names = ("step", "text", "answer", "why") if answers else ("step", "text")
        kept = [{name: getattr(question, name) for name in names} for question in questions]
        click.echo(orjson.dumps({"seed": seed, "questions": kept}, option=orjson.OPT_INDENT_2))
        return
    click.echo(
        f"Seed {seed}. A paged server: {NUM_BLOCKS} blocks of {BLOCK} slots; the youngest is preempted.\n"
    )
    for number, question in enumerate(questions, start=1):
        click.echo(f"{number}. Step {question.step}. {question.text}")
        if answers:
            click.echo(f"   {question.answer}  ({question.why})")
        click.echo("")
