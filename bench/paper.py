"""The paper's figures, and how long they take: `pagelab paper` with the seconds and the kind of machine.

    python -m bench.paper [--out FILE]        # writes bench/results/paper.json

What a run gives is the same anywhere; the seconds are of one process on one core.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import orjson

from app.commands.paper import summary
from app.paper import FIGURES, reproduce
from bench.machine import RESULTS, describe


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.paper")
    parser.add_argument("--out", type=Path, default=RESULTS / "paper.json")
    options = parser.parse_args()
    seconds: dict[str, float] = {}
    entries: list[dict[str, Any]] = []
    for name in FIGURES:
        start = time.perf_counter()
        entries += [point.as_json() for point in reproduce([name])]
        seconds[name] = round(time.perf_counter() - start, 2)
    document = {
        "command": "python -m bench.paper",
        "machine": describe("numpy"),
        "seconds": seconds,
        "figures": entries,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
    print(summary(entries))
    print(f"{sum(seconds.values()):.0f} s")


if __name__ == "__main__":
    main()
