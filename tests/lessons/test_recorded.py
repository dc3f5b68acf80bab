"""A lesson shows what a GPU did where that is recorded, and nothing where it is not."""

import json
from pathlib import Path
from typing import Any

from lessons.recorded import block_sizes


def written(path: Path, *, smoke: bool = False, **sections: Any) -> Path:
    path.write_text(json.dumps({"machine": {"gpu": "a GPU"}, "smoke": smoke, "sections": sections}))
    return path


ROWS = {"contiguous": {"seconds": 1.0}, "16": {"slower_than_contiguous": 0.02}}


def test_what_was_recorded_is_told_with_the_gpu(tmp_path: Path):
    found = block_sizes(written(tmp_path / "gpu.json", block_sizes={"result": ROWS}))
    assert str(found) == "recorded on a GPU, time beside one range: blocks of 16: +2.0 %"


def test_no_file_a_failed_section_and_a_run_without_a_gpu_tell_nothing(tmp_path: Path):
    assert block_sizes(tmp_path / "gpu.json") is None
    assert block_sizes(written(tmp_path / "gpu.json", block_sizes={"error": "no memory"})) is None
    assert block_sizes(written(tmp_path / "gpu.json", smoke=True, block_sizes={"result": ROWS})) is None
