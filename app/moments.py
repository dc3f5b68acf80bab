"""One clock for the sides of a replay, and where on it to begin."""

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any


def merge_clocks(times: Sequence[list[float]]) -> tuple[list[float], list[list[int]]]:
    """One clock for several lists of frames: its moments, and the frame each list shows at each moment.

    Frames of one list may share a time (a step's picture, then the empty pool): each gets its moment. The
    first moment shows frame 0 of every list, though one may start later.
    """
    arrivals: list[tuple[float, int, int]] = []  # (time, how many of this list came before at it, list)
    for side, own in enumerate(times):
        rank = 0
        for before, time in pairwise(own):
            rank = rank + 1 if time == before else 0
            arrivals.append((time, rank, side))
    moments = [min(own[0] for own in times)]
    frames = [[0] for _ in times]
    for _, group in groupby(sorted(arrivals), key=lambda arrival: arrival[:2]):
        together = list(group)
        moments.append(together[0][0])
        for shown in frames:
            shown.append(shown[-1])
        for _, _, side in together:
            frames[side][-1] += 1
    return moments, frames


def opening_moment(sides: Sequence[dict[str, Any]], frames: list[list[int]]) -> int:
    """The first moment at which the sides, all at work, differ most: in live memory, else in free memory.

    Of a single side the first moment at which it is fullest.
    """

    def column(name: str) -> list[tuple[int, ...]]:
        own = [side["columns"].get(name, [0] * len(side["deltas"])) for side in sides]
        return list(
            zip(
                *([one[frame] for frame in shown] for one, shown in zip(own, frames, strict=True)),
                strict=True,
            )
        )

    is_busy = [all(running) for running in column("running")]
    for name in ("live", "free"):
        gaps = [
            busy * (max(values) - (min(values) if len(values) > 1 else 0))
            for busy, values in zip(is_busy, column(name), strict=True)
        ]
        if max(gaps) > sides[0]["pool"] // 20:
            return gaps.index(max(gaps))
    return 0
