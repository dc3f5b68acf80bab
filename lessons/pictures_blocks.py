"""Pictures of a pool of blocks and of the tables that point into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lessons.pictures import Picture, memory_map, sheet
from sim import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Tables = Mapping[str, list[int]]
BLOCKS_A_ROW = 8
EMPTY = 0.25  # how strongly a slot that is held and not written is coloured


def pool(
    tables: Tables,
    stored: Mapping[str, int],
    num_blocks: int,
    block_size: int,
    marks: Mapping[str, Any] | None = None,
) -> Picture:
    """Every slot with the position of the token in it; `marks` names slots to point at."""

    def draw() -> Figure:
        figure = sheet(_height(num_blocks))
        axes: Any = figure.subplots()
        _draw(axes, tables, stored, num_blocks, block_size)
        for name, slot in (marks or {}).items():
            if isinstance(slot, int) and 0 <= slot < num_blocks * block_size:
                _mark(axes, name, slot, block_size)
        return figure

    text = _words(tables)
    return Picture(draw, text + "".join(f"; {name}: slot {slot!r}" for name, slot in (marks or {}).items()))


def pools(versions: Mapping[str, tuple[Tables, Mapping[str, int]]], num_blocks: int, size: int) -> Picture:
    """Pools below each other: `{"yours": (tables, stored), "right": (tables, stored)}`."""

    def draw() -> Figure:
        figure = sheet(len(versions) * (_height(num_blocks) + 0.2))
        for place, (name, (tables, stored)) in enumerate(versions.items(), start=1):
            axes: Any = figure.add_subplot(len(versions), 1, place)
            _draw(axes, tables, stored, num_blocks, size)
            axes.set_title(f"{name}: {_words(tables)}", fontsize=9)
        return figure

    return Picture(draw, "; ".join(f"{name}: {_words(tables)}" for name, (tables, _) in versions.items()))


def pool_at(run: Run, step: int) -> Picture:
    """The pool of a simulated run after the writes of a step."""
    state = run.at(step)
    names = [name for request in run.trace.requests for name in state.names(request.id)]
    tables: dict[str, list[int]] = {}  # of all that ever run, so that each keeps its colour
    for name in names:
        table = state.block_tables.get(name, [])
        tables[name] = table if isinstance(table, list) else []
    picture = pool(tables, state.stored, run.config.num_pool_blocks, run.config.block_size)
    return replace(picture, text=f"step {step}: {picture.text}")


def crowd(run: Run, step: int, width: int = 128) -> Picture:
    """`memory_map` of more requests than anyone wants to see named."""
    picture = memory_map(run, step, width)
    title = f"step {step}: {len(run.at(step).block_tables)} requests; pale: held and empty; white: free"

    def draw() -> Figure:
        figure = picture.draw()
        figure.axes[0].set_title(title, fontsize=9)
        return figure

    return replace(picture, draw=draw)


def _words(tables: Tables) -> str:
    return ", ".join(f"{name} {table}" for name, table in tables.items() if table) or "no blocks held"


def _height(num_blocks: int) -> float:
    return 0.4 + 0.75 * -(-num_blocks // BLOCKS_A_ROW)


def _corner(block: int, block_size: int) -> tuple[float, float]:
    """Where the first slot of a block is drawn."""
    return block % BLOCKS_A_ROW * (block_size + 0.6), -3.2 * (block // BLOCKS_A_ROW)


def _mark(axes: Any, name: str, slot: int, block_size: int) -> None:
    """A frame around a slot, and its name above it."""
    from matplotlib.patches import Rectangle

    x, y = _corner(slot // block_size, block_size)
    x += slot % block_size
    axes.add_patch(Rectangle((x, y), 1, 1, fill=False, linewidth=2.5))
    axes.annotate(name, (x + 0.5, y + 1), (x + 0.5, y + 1.7), ha="center", fontsize=9, weight="bold")


def _draw(axes: Any, tables: Tables, stored: Mapping[str, int], num_blocks: int, size: int) -> None:
    """All blocks. One of several owners is coloured in layers, one for each."""
    for block in range(num_blocks):
        x, y = _corner(block, size)
        owners = [
            (index, name, place)
            for index, (name, table) in enumerate(tables.items())
            for place, held in enumerate(table)
            if held == block
        ]
        for offset in range(size):
            _draw_slot(axes, x + offset, y, [(i, stored.get(n, 0), p * size + offset) for i, n, p in owners])
        names = " ".join(name for _, name, _ in owners)
        axes.text(x, y - 0.1, f"{block}  {names}", va="top", fontsize=8)
    columns, rows = min(num_blocks, BLOCKS_A_ROW), -(-num_blocks // BLOCKS_A_ROW)
    axes.set_xlim(-0.3, columns * (size + 0.6))
    axes.set_ylim(-3.2 * (rows - 1) - 1.3, 2.3)
    axes.axis("off")


def _draw_slot(axes: Any, x: float, y: float, owners: list[tuple[int, int, int]]) -> None:
    """One slot of owners given as (colour, stored, position)."""
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    for layer, (colour, stored, position) in enumerate(owners):
        height = 1 / len(owners)
        shade = (*colormaps["tab10"](colour % 10)[:3], 0.85 if position < stored else EMPTY)
        axes.add_patch(Rectangle((x, y + layer * height), 1, height, facecolor=shade, edgecolor="none"))
    axes.add_patch(Rectangle((x, y), 1, 1, fill=False, edgecolor="grey", linewidth=0.6))
    written = {position for _, stored, position in owners if position < stored}
    if written:
        axes.text(x + 0.5, y + 0.5, "/".join(map(str, sorted(written))), ha="center", va="center", fontsize=7)
