"""What `python -m bench.gpu` measured on a GPU, for a lesson that runs on a machine without one."""

import json
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).parents[1] / "bench" / "results" / "gpu.json"


class BlockSizes(NamedTuple):
    """By block size, how much longer decode attention takes than over one range of the same tokens, in %."""

    gpu: str
    slower_percent: dict[int, float]

    def __str__(self) -> str:
        rows = (f"blocks of {size}: {percent:+.1f} %" for size, percent in self.slower_percent.items())
        return f"recorded on {self.gpu}, time beside one range: " + ", ".join(rows)


def block_sizes(path: Path = RESULTS) -> BlockSizes | None:
    """None where no GPU's result lies: no file, one of `--smoke`, or one without this section."""
    if not path.exists():
        return None
    document = json.loads(path.read_text(encoding="utf-8"))
    rows = document["sections"].get("block_sizes", {}).get("result", {})
    slower = {
        int(size): 100 * row["slower_than_contiguous"] for size, row in rows.items() if size != "contiguous"
    }
    return BlockSizes(document["machine"]["gpu"], slower) if slower and not document["smoke"] else None
