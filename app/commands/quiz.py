"""`pagelab quiz`: a sheet of questions about a small run, the same for everyone who names its seed."""

from pathlib import Path

import click
import orjson

from app.files import write_text
from app.payload import quiz_payload
from app.player import standalone_html
from app.quiz import BLOCK, COUNT, NUM_BLOCKS, sheet
from sim import InputError


@click.command()
@click.option("--seed", type=int, default=0, show_default=True, help="which sheet: a seed for each student")
@click.option("--count", type=int, default=COUNT, show_default=True, help="number of questions")
@click.option("--answers", is_flag=True, help="print the answers and why")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output, nothing else")
@click.option("--html", type=click.Path(path_type=Path), help="write a page that plays the run and asks")
def quiz(seed: int, count: int, answers: bool, as_json: bool, html: Path | None) -> None:
    """Ask what happens next in a run of a paged server, and how much."""
    if count < 1:
        raise InputError(f"--count {count}: must be at least 1")
    questions = sheet(seed, count)
    if html:
        write_text(html, standalone_html(quiz_payload(seed, count)))
        address = f"{html.resolve().as_uri()}#step=0&predict"
        click.echo(f"quiz: {html}\nit asks from the start at {address}", err=as_json)
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
