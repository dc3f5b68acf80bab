"""Pictures for the museum of bugs."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from lessons.pictures import Picture

WRONG, RIGHT = "#D55E00", "#0072B2"


def wrapped(blocks: NDArray[np.int32], stride: int) -> Picture:
    """Where each block begins, in elements: in 64 bits, and as 32 bits have it."""
    right = blocks.astype(np.int64) * stride
    wrong = right.astype(np.int32)
    figure = Figure(figsize=(8, 2.6), layout="constrained")
    axes: Any = figure.subplots()
    axes.plot(blocks, right / 2**30, "o", markersize=3, color=RIGHT, label="64 bits")
    axes.plot(blocks, wrong / 2**30, "x", markersize=4, color=WRONG, label="32 bits")
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set_xlabel("block")
    axes.set_ylabel("offset, 2^30 elements")
    axes.legend(frameon=False)
    first = int(blocks[np.argmax(wrong != right)])
    told = f"blocks {blocks[0]} to {blocks[-1]}: from block {first} on the offset in 32 bits is negative"
    return Picture.of(figure, told)
