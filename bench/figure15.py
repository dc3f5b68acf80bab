"""Figure 15 of the PagedAttention paper, by simulation: blocks that parallel sampling and beam search save.

    python -m bench.figure15

Memory saving as in the paper's section 6.3, time-weighted: blocks saved by sharing / blocks without sharing
(`sharing.saved_percent` of a report). OPT-13B on an A100-40GB, 983 blocks of 16, lengths drawn from the
paper's published distributions with the authors' filter, Poisson arrivals at a rate that the server keeps
up with. The paper gives ShareGPT as ranges over n (or width) 2 to 6, in the text only.

What decides the result, and cannot be had from the paper: that prompt and output are drawn independently
(real ones pair long with long), and which beams survive (here by `sim.beam`'s scores).
"""

from dataclasses import replace
from typing import Any

import orjson

from bench.machine import RESULTS, describe
from sim import Config, Trace, simulate
from sim.trace import LENGTHS, PAPER_FILTER, generate
from sim.trace.arrivals import Poisson

# %, by number of samples or beam width
FIGURE_15 = {
    ("alpaca", "n"): {2: 6.09, 4: 8.53, 6: 9.79},
    ("alpaca", "beam"): {2: 37.56, 4: 53.13, 6: 55.16},
}
TEXT_6_3 = {("sharegpt", "n"): (16.2, 30.5), ("sharegpt", "beam"): (44.3, 66.3)}
WIDTHS = (2, 4, 6)
NUM_REQUESTS = {"alpaca": 300, "sharegpt": 150}
RATES = {"alpaca": 3.0, "sharegpt": 0.5}  # requests per second


def with_width(trace: Trace, kind: str, width: int) -> Trace:
    """The same requests, each with so many samples (`n`) or beams (`beam`)."""
    widths = {"n": width} if kind == "n" else {"beam": width}
    return replace(trace, requests=tuple(replace(request, **widths) for request in trace.requests))


def saving(lengths: str, kind: str, width: int, *, num_requests: int | None = None, seed: int = 1) -> float:
    """Ours, in %."""
    trace = generate(
        name=lengths,
        seed=seed,
        num_requests=num_requests or NUM_REQUESTS[lengths],
        keep=PAPER_FILTER,
        arrivals=Poisson(RATES[lengths]),
        lengths=LENGTHS[lengths],
    )
    config = Config(seed=seed, max_batch_tokens=16_384)
    run = simulate(with_width(trace, kind, width), config, record=False)
    return run.report()["sharing"]["saved_percent"]


def main() -> None:
    rows: list[dict[str, Any]] = []
    print(f"{'lengths':<10}{'kind':<6}{'width':>5}{'ours %':>9}{'paper %':>14}")
    for lengths, kind in [*FIGURE_15, *TEXT_6_3]:
        for width in WIDTHS:
            ours = saving(lengths, kind, width)
            paper = FIGURE_15.get((lengths, kind), {}).get(width)
            span = TEXT_6_3.get((lengths, kind))
            shown = f"{paper:.2f}" if paper else "{} to {}".format(*span or ())
            rows.append(
                {"lengths": lengths, "kind": kind, "width": width, "ours_percent": ours,
                 "paper_percent": paper, "paper_range_percent": span}
            )  # fmt: skip
            print(f"{lengths:<10}{kind:<6}{width:>5}{ours:>9.2f}{shown:>14}")
    RESULTS.mkdir(exist_ok=True)
    document = {"command": "python -m bench.figure15", "machine": describe("numpy"), "rows": rows}
    (RESULTS / "figure15.json").write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))


if __name__ == "__main__":
    main()
