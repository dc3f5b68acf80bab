"""`pagelab class`: what a teacher does with a class's results."""

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from app.class_chart import draw_class
from app.classroom import HEADER, Result, collect
from app.files import write_text
from sim.words import counted


@click.group("class")
def classroom() -> None:
    """Gather what students ran on their own machines; no accounts, no network."""


@classroom.command("collect")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="folder for class.csv and class.svg"
)
def collect_command(folder: Path, out: Path | None) -> None:
    """Read every result of `pagelab compare` below FOLDER into one table and one chart."""
    results, skipped = collect(folder)
    show(results)
    for line in skipped:
        click.echo(f"skipped: {line}", err=True)
    if out:
        write_text(out / "class.csv", "\n".join([HEADER, *(result.row for result in results)]) + "\n")
        write_text(out / "class.svg", draw_class(results))
        click.echo(f"{out / 'class.csv'}\n{out / 'class.svg'}")


def show(results: list[Result]) -> None:
    """A row for each student and allocator."""
    table = Table("student", "allocator", "simulated", "measured", "steps", "block tables")
    for result in results:
        verdict = "identical" if result.is_identical else "different"
        table.add_row(
            result.student, result.allocator, f"{result.simulated:.1f} %", f"{result.measured:.1f} %",
            str(result.steps), verdict,
        )  # fmt: skip
    Console().print(table)
    students = len({result.student for result in results})
    same = sum(result.is_identical for result in results)
    told = f"{counted(students, 'students')}, {counted(len(results), 'runs')}"
    click.echo(f"{told}, {same} of them identical at every step")
