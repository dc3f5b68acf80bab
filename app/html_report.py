"""The report as one self-contained HTML page, and the files beside it."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import orjson
from jinja2 import Environment, FileSystemLoader, select_autoescape
from markupsafe import escape

from app.files import write_file, write_text
from app.payload import replay_payload
from app.player import embed_html
from app.plots import as_png, as_svg, ledger_bars, ledger_timelines
from app.recording import path_for, write_events
from app.unbroken import unbroken
from sim import InputError, Run
from sim.ledger import CLASSES

MEANINGS = {
    "live": "hold keys and values that a running sequence will read",
    "reserved": "are held and empty; their owner will fill them",
    "internal": "are held to no use: never filled (over-reservation, the tail of a last block)",
    "rounding": "are held only because the placement rounds up",
    "cached": "hold finished keys and values that a prefix hit could use",
    "external": "are free, and enough in total for the next request, but not in one piece",
    "free": "are free otherwise",
}


def write_report(folder: Path, document: dict[str, Any], named: list[tuple[str, Run]]) -> Path:
    """Writes report.html, report.json, ledger.png and the event logs that were kept into `folder`; returns
    the page's path. `named` are the runs with names that tell them apart."""
    runs = [run for _, run in named]
    bars = ledger_bars(document)
    page = render(document, as_svg(bars), as_svg(ledger_timelines(runs)), player(runs))
    write_file(
        folder / "report.json", lambda out: _write(out, orjson.dumps(document, option=orjson.OPT_INDENT_2))
    )
    write_file(folder / "ledger.png", lambda out: _write(out, as_png(bars)))
    for name, run in named:
        if run.events:
            path = path_for(folder / "events.jsonl", name, [one for one, _ in named])
            write_file(path, lambda out, run=run: write_events(run, out))
    write_text(folder / "report.html", page)
    return folder / "report.html"


def player(runs: list[Run]) -> str:
    """The player, with the run that wastes most beside the one that wastes least; or why it is not there."""
    recorded = [run for run in runs if run.events and run.source == runs[0].source]
    ranked = sorted(recorded, key=lambda run: run.report()["waste_percent"], reverse=True)
    if not ranked:
        return "<p>The runs kept no events, so there is nothing to play.</p>"
    try:
        return embed_html(replay_payload(ranked[:: max(1, len(ranked) - 1)]))
    except InputError as error:
        return f"<p>{escape(str(error))}</p>"


def render(document: dict[str, Any], bars_svg: str, timelines_svg: str, player_html: str) -> str:
    """The page as text. Everything that comes from a trace is escaped."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=select_autoescape()
    )
    return environment.get_template("report.html.j2").render(
        document=document,
        classes=CLASSES,
        meanings=MEANINGS,
        verdict=unbroken(verdict(document["runs"])),
        settings=settings(document["runs"]),
        versions=versions(),
        bars_svg=bars_svg,
        timelines_svg=timelines_svg,
        player_html=player_html,
    )


def verdict(runs: list[dict[str, Any]]) -> str:
    """The one sentence to remember: the waste of each allocator that served anything, worst first."""
    sources = {run["source"] for run in runs}
    source = "measured" if "measured" in sources else "simulated"
    chosen = [run for run in runs if run["source"] == source and run["steps"]]
    if not chosen:
        return "No request could run, so nothing was wasted either."
    ranked = sorted(chosen, key=lambda run: run["waste_percent"], reverse=True)
    wastes = ", ".join(f"{run['allocator']} wastes {run['waste_percent']:.1f} %" for run in ranked)
    return f"Of the memory in use, {wastes} ({ranked[0]['source']})."


def settings(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The dials that all runs share; what differs between them (the allocator) is in the table."""
    first = runs[0]["config"]
    return {
        name: value for name, value in first.items() if all(run["config"].get(name) == value for run in runs)
    }


def versions() -> dict[str, str]:
    """What made the numbers: software and machine kind."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    found["processors"] = str(os.cpu_count())
    for package in ("pagelab", "numpy", "numba", "torch", "triton", "matplotlib"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _write(out: Any, data: bytes) -> None:
    out.write(data)
