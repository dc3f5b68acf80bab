"""What Python does in a step depends on what changes in it, not on how much is held."""

import gc
import sys
from types import FrameType
from typing import Any

import pytest
import torch

from engine.generate import Decoding, generate
from engine.setup import make_model, make_pool
from tests.engine.running import tiny

CPU = torch.device("cpu")
BLOCK = 16
EARLY, LATE = 40, 40 + 16 * BLOCK  # steps at the same place in a block; contexts of 50 and of 300 tokens


class Counter:
    """Bytecodes that the interpreter runs in some steps: every pass of a loop counts."""

    def __init__(self, steps: tuple[int, ...]) -> None:
        self.counts = dict.fromkeys(steps, 0)
        self.step = 1

    def heard(self, *_: Any) -> None:
        """Called at the end of each step."""
        self.step += 1
        sys.settrace(self.enter if self.step in self.counts else None)

    def enter(self, frame: FrameType, kind: str, _: Any) -> Any:
        if frame.f_code is Counter.heard.__code__:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self.count

    def count(self, frame: FrameType, kind: str, _: Any) -> Any:
        self.counts[self.step] += kind == "opcode"
        return self.count


def bytecodes(dials: dict[str, Any]) -> list[int]:
    """Of one step early and one late in the life of three sequences.

    The garbage collector rests meanwhile: a library may listen to it in Python (Hypothesis does, 38 bytecodes
    each time), and when it runs is no matter of the step.
    """
    config = tiny(max_len=1024, **dials)
    counter, prompts = Counter((EARLY, LATE)), [[5, 6, 7], [9] * 11, [1, 2]]
    old = sys.gettrace()
    gc.collect()
    gc.disable()
    try:
        generate(
            prompts, config, Decoding(max_tokens=LATE + 3), make_model(config, CPU), make_pool(config, CPU),
            backend="cpu", on_step=counter.heard,
        )  # fmt: skip
    finally:
        sys.settrace(old)
        gc.enable()
    return list(counter.counts.values())


POOL: dict[str, Any] = {"pool_tokens": 4096, "block_size": BLOCK}
POOLS = {
    "paged": POOL,
    "codes": {**POOL, "kv_dtype": "int8"},
    "contiguous": {"pool_tokens": 4096, "allocator": "max"},
}


@pytest.mark.parametrize("dials", POOLS.values(), ids=POOLS)
def test_a_step_with_a_long_context_runs_as_much_python_as_one_with_a_short_one(
    dials: dict[str, Any],
) -> None:
    early, late = bytecodes(dials)
    assert 500 < early == late


def test_what_heavy_hitters_drop_costs_by_the_token_that_is_dropped() -> None:
    """Which block a step empties is drawn, so two steps differ by a little."""
    early, late = bytecodes({**POOL, "keep_recent": 8, "keep_heavy": 8})
    assert late == pytest.approx(early, rel=0.02)
