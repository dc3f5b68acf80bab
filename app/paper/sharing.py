"""Figure 15: blocks that parallel sampling and beam search save."""

from collections.abc import Iterator

from app.paper.point import Point
from app.paper.published import FIGURE_15, SECTION_6_3
from app.paper.servers import SEED, loaded, with_width
from sim import Config, simulate

WIDTHS = (2, 4, 6)
NUM_REQUESTS = {"alpaca": 300, "sharegpt": 100}
RATES = {"alpaca": 3.0, "sharegpt": 0.5}  # requests a second that the server keeps up with
NAMES = {"n": "samples", "beam": "beams"}


def saving(lengths: str, kind: str, width: int, num_requests: int | None = None) -> float:
    """Blocks saved by sharing over blocks without sharing, time-weighted, in % (section 6.3)."""
    trace = loaded(lengths, RATES[lengths], num_requests or NUM_REQUESTS[lengths])
    config = Config(seed=SEED, max_batch_tokens=16_384)
    run = simulate(with_width(trace, kind, width), config, record=False)
    return run.report()["sharing"]["saved_percent"]


def figure_15() -> Iterator[Point]:
    """By number of samples and by beam width; of ShareGPT the text gives a range over 2 to 6."""
    for (lengths, kind), bars in FIGURE_15.items():
        for width, paper in bars.items():
            yield Point("15", f"{lengths}, {width} {NAMES[kind]}", "%", paper, saving(lengths, kind, width))
    for (lengths, kind), span in SECTION_6_3.items():
        for width in WIDTHS:
            yield Point("15", f"{lengths}, {width} {NAMES[kind]}", "%", span, saving(lengths, kind, width))
