"""What all pages of the visualizer share in their looks: the head of a page, badges, bars of a ledger.

What is measured never looks like what is simulated: a filled badge and frame against dashed ones, here and
in the player.
"""

from collections.abc import Collection, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import streamlit as st

from app.unbroken import unbroken
from sim.ledger import CLASSES

STYLE = Path(__file__).with_name("look.css")
SOURCES = {"simulated": "simulated", "measured": "measured on a real engine"}


def put_style() -> None:
    """The style sheet; once on every page."""
    st.html(STYLE)


def page_head(title: str, lead: str) -> None:
    """Title, and the sentence that says what the page is for."""
    put_style()
    st.title(title, anchor=False)
    say(lead, kind="lead")


def say(text: str, kind: str = "say") -> None:
    """A sentence of the page's own: large ("say"), as a lead ("lead") or aside ("quiet")."""
    shown = unbroken(text) if kind == "say" else text  # only what is large soon fills a line
    show(f'<p class="{kind}">{escape(shown)}</p>')


def show(html: str) -> None:
    """HTML of our own making, in our own style."""
    st.html(f'<div class="pl">{html}</div>')


def badge(source: str) -> str:
    """The badge of a source, as HTML."""
    return f'<span class="badge {source}">{SOURCES[source]}</span>'


def show_ledgers(sides: Sequence[Mapping[str, Any]]) -> None:
    """One bar a side: `name`, `source`, `ledger` (slots by class, and `pool`), `waste_percent`."""
    bars = "".join(_bar(**side) for side in sides)
    shown = [name for name in CLASSES if any(side["ledger"][name] for side in sides)]
    key = "".join(f'<li><i class="{name}"></i>{name}</li>' for name in shown)
    show(f'<div class="bars">{bars}</div><ul class="key">{key}</ul>')


def show_table(headings: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[int] = ()) -> None:
    """A table whose rows are named by their first cell. `numeric` columns stand right.

    On a narrow screen each row of a table with headings becomes a card.
    """
    sides = [' class="number"' if place in numeric else "" for place in range(len(rows[0]))]
    head = "".join(
        f'<th scope="col"{side}>{escape(text)}</th>'
        for text, side in zip(headings, sides, strict=bool(headings))
    )
    body = "".join(_row(row, headings or [""] * len(row), sides) for row in rows)
    top = f"<thead><tr>{head}</tr></thead>" if head else ""
    kind = "cards" if head else "plain"
    show(f'<div class="{kind}"><table class="{kind}">{top}<tbody>{body}</tbody></table></div>')


def _row(row: Sequence[str], headings: Sequence[str], sides: Sequence[str]) -> str:
    cells = "".join(
        f'<td{side} data-label="{escape(heading)}">{escape(text)}</td>'
        for text, heading, side in list(zip(row, headings, sides, strict=True))[1:]
    )
    return f'<tr><th scope="row">{escape(row[0])}</th>{cells}</tr>'


def _bar(name: str, source: str, ledger: Mapping[str, float], waste_percent: float) -> str:
    pool = ledger["pool"] or 1
    shares = {kind: 100 * ledger[kind] / pool for kind in CLASSES if ledger[kind]}
    parts = "".join(
        f'<i class="{kind}" style="width:{share:.3f}%" title="{kind} {share:.1f} %"></i>'
        for kind, share in shares.items()
    )
    told = ", ".join(f"{kind} {share:.1f} %" for kind, share in shares.items())
    return (
        f"<span>{escape(name)} {badge(source)}</span>"
        f'<span class="bar {source}" role="img" aria-label="{escape(name)}, {source}: {told}">{parts}</span>'
        f"<span><b>{waste_percent:.1f} %</b> waste</span>"
    )
