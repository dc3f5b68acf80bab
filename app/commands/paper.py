"""`pagelab paper`: the paper's figures by simulation, over what it printed."""

from pathlib import Path
from statistics import median
from typing import Any

import click
import orjson
from rich.console import Console
from rich.table import Table

from app.paper import FIGURES, Point, reproduce
from sim.files import new_file, refuse_place


@click.command()
@click.argument("figures", nargs=-1, metavar="[FIGURE]...")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output, nothing else")
@click.option("--out", type=click.Path(file_okay=False), help="folder for one picture a figure")
def paper(figures: tuple[str, ...], as_json: bool, out: str | None) -> None:
    """Simulate each FIGURE (all of them if none is named) and print how far ours is from the paper's.

    Figures 1, 2, 12, 13, 15, 16, 17, 18b and 19 (19b is its part b) of Kwon et al., SOSP 2023. Takes some
    minutes.
    """
    if out:
        refuse_place(Path(out) / "figure.svg")
    points = list(reproduce(figures))
    if as_json:
        document = {"figures": [point.as_json() for point in points]}
        click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2))
    else:
        show(points)
    if out:
        from app.paper.draw import draw  # matplotlib takes a while

        folder = Path(out)
        for name in dict.fromkeys(point.figure for point in points):
            path = folder / f"figure_{name}.svg"
            with new_file(path) as file:
                file.write(draw([point for point in points if point.figure == name]))
            if not as_json:
                click.echo(f"{path}")


def show(points: list[Point]) -> None:
    """A table a figure, with what ours cannot say."""
    console = Console()
    for name in dict.fromkeys(point.figure for point in points):
        table = Table("point", "paper", "ours", "deviation", title=f"Figure {name}: {FIGURES[name].title}")
        for point in (point for point in points if point.figure == name):
            table.add_row(point.point, printed(point), f"{point.ours:.3g} {point.unit}", deviation(point))
        console.print(table)
        console.print(FIGURES[name].limits + "\n")
    console.print(summary([point.as_json() for point in points]))


def summary(entries: list[dict[str, Any]]) -> str:
    """How many points, and how far they are off, from the entries of `--json`: a line a figure.

    Two where a figure has ratios beside what they are ratios of: memory decides them, not the device.
    """
    lines = [f"{'figure':<12}{'points':>7}{'median deviation':>18}{'largest':>10}   at"]
    for name in dict.fromkeys(entry["figure"] for entry in entries):
        mine = [
            entry for entry in entries if entry["figure"] == name and entry["deviation_percent"] is not None
        ]
        ratios = [entry for entry in mine if entry["unit"] == "x"]
        others = [entry for entry in mine if entry["unit"] != "x"]
        if others and ratios:
            lines += [summary_line(name, others), summary_line(f"{name}, ratios", ratios)]
        else:
            lines.append(summary_line(name, mine))
    return "\n".join(lines)


def summary_line(name: str, entries: list[dict[str, Any]]) -> str:
    """One line of the summary."""
    worst = max(entries, key=lambda entry: abs(entry["deviation_percent"]))
    middle = median(abs(entry["deviation_percent"]) for entry in entries)
    largest = f"{worst['deviation_percent']:+.1f} %"
    return f"{name:<12}{len(entries):>7}{middle:>16.1f} %{largest:>10}   {worst['point']}"


def printed(point: Point) -> str:
    """The paper's value, or range."""
    values = point.paper if isinstance(point.paper, tuple) else (point.paper,)
    return f"{' to '.join(f'{value:.3g}' for value in values)} {point.unit}"


def deviation(point: Point) -> str:
    """With its sign; a dash where the paper's value is 0."""
    return "-" if point.deviation_percent is None else f"{point.deviation_percent:+.1f} %"
