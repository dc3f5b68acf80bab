"""Pictures of prompts cut into blocks, and of what a cache finds of them."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from app.colours import COLOURS
from lessons.pictures import Picture
from sim.hits import replay_hits
from sim.prompts import PromptBlocks

POLICY_STYLES = {
    "fifo": ("s--", COLOURS["internal"]),
    "lru": ("o-", COLOURS["live"]),
    "optimal": ("^:", "black"),
}


def prompts(rows: Mapping[str, tuple[Sequence[str], Any]], found: Mapping[str, int] | None = None) -> Picture:
    """A row of blocks for each prompt: `{label: (texts, names)}`; equal names have equal colours.

    `found[label]` blocks at the start have a thick edge: they were in the cache.
    """
    figure = Figure(figsize=(8, 0.3 + 0.42 * len(rows)), layout="constrained")
    axes: Any = figure.subplots()
    colours: dict[Hashable, int] = {}
    for row, (label, (texts, names)) in enumerate(rows.items()):
        for place, text in enumerate(texts):
            name = names[place] if isinstance(names, (list, tuple)) and place < len(names) else None
            index = colours.setdefault(name, len(colours)) if isinstance(name, Hashable) else 0
            shade = "white" if name is None else (*colormaps["tab20"](index % 20)[:3], 0.6)
            thick = place < (found or {}).get(label, 0)
            axes.add_patch(
                Rectangle(
                    (place + 0.04, row - 0.34), 0.92, 0.68, facecolor=shade,
                    edgecolor="black" if thick else "grey", linewidth=3 if thick else 0.6,
                )
            )  # fmt: skip
            axes.text(place + 0.5, row, text, ha="center", va="center", fontsize=8, family="monospace")
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_xlim(0, max([4, *(len(texts) for texts, _ in rows.values())]))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks([])
    for side in axes.spines.values():
        side.set_visible(False)
    text = (
        f"{label}: {'|'.join(texts)}" + (f", {found.get(label, 0)} blocks found" if found else "")
        for label, (texts, _) in rows.items()
    )
    return Picture.of(figure, "; ".join(text))


def hit_rates(blocks: PromptBlocks, sizes: Sequence[int]) -> Picture:
    """Tokens found / prompt tokens over the last half of the prompts, by cache size and policy."""
    figure = Figure(figsize=(8, 3), layout="constrained")
    axes: Any = figure.subplots()
    parts: list[str] = []
    for policy, (style, colour) in POLICY_STYLES.items():
        rates = [100 * replay_hits(blocks, size, policy).hit_rate for size in sizes]
        axes.plot(sizes, rates, style, color=colour, label=policy, markersize=4)
        parts.append(f"{policy}: " + ", ".join(f"{rate:.1f} %" for rate in rates))
    axes.set(xlabel="blocks in the cache", ylabel="hit rate, %", ylim=(0, 100))
    axes.legend(frameon=False)
    return Picture.of(figure, f"hit rates with {', '.join(map(str, sizes))} blocks: " + "; ".join(parts))


def found_by(yours: Any, right: Sequence[int]) -> Picture:
    """Blocks found by each prompt, in order."""
    figure = Figure(figsize=(8, 2.2), layout="constrained")
    axes: Any = figure.subplots()
    places = range(len(right))
    axes.bar([place - 0.2 for place in places], right, 0.4, color=COLOURS["live"], label="right")
    said = yours if isinstance(yours, list) and len(yours) == len(right) else [0] * len(right)
    axes.bar([place + 0.2 for place in places], said, 0.4, color=COLOURS["internal"], label="yours")
    axes.set(xlabel="prompt", ylabel="blocks found")
    axes.legend(frameon=False, ncols=2)
    return Picture.of(figure, f"blocks found: yours {yours!r}, right {list(right)}")
