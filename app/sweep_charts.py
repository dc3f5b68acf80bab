"""The small multiples of the Sweeps page: ours as lines or bars, the paper's points as diamonds over them."""

# altair types its own functions only in part
# pyright: basic

from collections.abc import Sequence
from typing import Any

import altair as alt

HEIGHT = 260
OURS, PAPER = "simulated here", "printed in the paper"
# Okabe and Ito's colours by policy; the same policy has the same colour in every chart.
COLOURS = {
    "max": "#D55E00",
    "pow2": "#E69F00",
    "oracle": "#0072B2",
    "grow": "#CC79A7",
    "slab": "#56B4E9",
    "paged": "#009E73",
    "mixed": "#8c8c8c",
    "virtual": "#b5a800",
}
Rows = Sequence[dict[str, Any]]


def chart(ours: Rows, paper: Rows, *, measure: str, x: str, y: str) -> Any:
    """One measure against one dial; a dial of names gives bars."""
    policies = list(dict.fromkeys(row["policy"] for row in [*ours, *paper]))
    is_named = any(isinstance(row["x"], str) for row in ours)
    scale = alt.Scale(domain=policies, range=[COLOURS[name] for name in policies])
    legend = None if is_named else alt.Legend(title=None, orient="top", columns=4)
    colour = alt.Color("policy:N", scale=scale, legend=legend)
    across = alt.X("x:N", title=None, sort=policies, axis=alt.Axis(labelAngle=0))
    if not is_named:
        axis = alt.Axis(values=ticks(ours, paper))
        across = alt.X("x:Q", title=x, scale=alt.Scale(type="log", nice=False), axis=axis)
    kind = "log" if is_wide(ours, paper, measure) else "linear"
    up = alt.Y(f"{measure}:Q", title=y, scale=alt.Scale(type=kind), axis=alt.Axis(tickCount=4))
    tips = [
        alt.Tooltip("policy:N"),
        alt.Tooltip("x:N" if is_named else "x:Q", title=x),
        alt.Tooltip(f"{measure}:Q", format=".4~g"),
    ]
    tips.append(alt.Tooltip("source:N", title="source"))
    base = alt.Chart(alt.Data(values=kept(ours, measure, OURS))).encode(across, up, colour, tooltip=tips)
    marks = [base.mark_bar(opacity=0.55)] if is_named else [base.mark_line(point=True)]
    if paper:
        points = alt.Chart(alt.Data(values=kept(paper, measure, PAPER))).encode(
            across, up, colour, tooltip=tips
        )
        ink = {"stroke": "#808080", "strokeWidth": 1.5}
        marks.append(points.mark_point(shape="diamond", size=130, filled=True, opacity=1, **ink))
    return alt.layer(*marks).properties(height=HEIGHT)


def kept(rows: Rows, measure: str, source: str) -> list[dict[str, Any]]:
    """What a chart needs of the rows that have the measure."""
    return [
        {"policy": row["policy"], "x": row["x"], measure: row[measure], "source": source}
        for row in rows
        if row.get(measure) is not None
    ]


def is_wide(ours: Rows, paper: Rows, measure: str) -> bool:
    """Whether the values span so much that the small ones would lie on the axis."""
    values = [row[measure] for row in [*ours, *paper] if row.get(measure)]
    return measure == "latency" and bool(values) and max(values) > 12 * min(values)


def ticks(ours: Rows, paper: Rows) -> list[float]:
    """The values of the dial that were simulated, thinned to at most nine."""
    values = sorted({row["x"] for row in ours})
    return values[:: max(1, -(-len(values) // 9))]


def alternative(ours: Rows, paper: Rows, *, measure: str, y: str) -> str:
    """The chart in words: each policy's first and last value."""
    parts = []
    for policy in dict.fromkeys(row["policy"] for row in ours):
        mine = [row for row in ours if row["policy"] == policy and row.get(measure) is not None]
        if mine:
            first, last = mine[0], mine[-1]
            span = f"{first[measure]:.3g}" + (f" to {last[measure]:.3g}" if last is not first else "")
            parts.append(f"{policy} {span}")
    printed = f"; {len(paper)} points printed in the paper" if paper else ""
    return f"{y}: {', '.join(parts)}{printed}"
