"""Pictures of a pool as its memory says it is."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from lessons.pictures import Picture

WRITTEN, EMPTY, WRONG = "#0072B2", "#E8E8E8", "#D55E00"


def pool_map(
    written: NDArray[np.bool_],
    tables: Mapping[str, Sequence[int]],
    block_size: int,
    torn: NDArray[np.bool_] | None = None,
) -> Picture:
    """One box a block with its holder's name, one cell a slot: blue if it is written, orange if torn."""
    owner = {block: f"{name}[{place}]" for name, row in tables.items() for place, block in enumerate(row)}
    num_blocks = len(written) // block_size
    figure = Figure(figsize=(8, 1.4), layout="constrained")
    axes: Any = figure.subplots()
    for block in range(num_blocks):
        for offset in range(block_size):
            slot = block * block_size + offset
            colour = WRITTEN if written[slot] else EMPTY
            colour = colour if torn is None or not torn[slot] else WRONG
            axes.barh(0, 0.96 / block_size, left=block + offset / block_size, color=colour, align="edge")
        axes.text(
            block + 0.48,
            -0.1,
            owner.get(block, "free" if tables else f"block {block}"),
            ha="center",
            va="top",
            fontsize=8,
        )
    axes.set_axis_off()
    axes.set_ylim(-0.6, 0.9)
    axes.set_title(
        "blocks; blue: the slot is written" + (", orange: in part" if torn is not None else ""), fontsize=9
    )
    return Picture.of(figure, f"{int(written.sum())} of {len(written)} slots written; holders: {owner}")


def two_pools(
    expected: NDArray[np.bool_], measured: NDArray[np.bool_], title: str, width: int = 48
) -> Picture:
    """What the simulator says is written beside what memory says; orange where they differ."""
    figure = Figure(figsize=(8, 0.9 + 0.16 * -(-len(expected) // width)), layout="constrained")
    sides: Any = figure.subplots(1, 2)
    images = (expected.astype(int), np.where(expected == measured, measured.astype(int), 2))
    colours = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in (EMPTY, WRITTEN, WRONG)])
    for axes, image, name in zip(sides, images, ("simulated", "measured"), strict=True):
        padded = np.zeros(-(-len(image) // width) * width, int)
        padded[: len(image)] = image
        axes.imshow(colours[padded.reshape(-1, width)], aspect="auto", interpolation="nearest")
        axes.set_title(name, fontsize=9)
        axes.set_yticks([])
        axes.set_xlabel(f"{width} slots a row")
    figure.suptitle(f"{title} (blue: written, orange: they differ)", fontsize=9)
    told = f"{int(expected.sum())} slots written as simulated, {int(measured.sum())} as measured"
    return Picture.of(figure, f"{title}: {told}, {int((expected != measured).sum())} differ")
