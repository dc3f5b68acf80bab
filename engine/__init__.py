"""The real thing: a Llama decoder on the simulator's schedule, with real kernels and real memory."""

from engine.attention import copy_blocks, paged_attention, paged_prefill, swap_blocks, write_kv
from engine.measure import EngineFault, MeasuredRun, measure

__all__ = [
    "EngineFault",
    "MeasuredRun",
    "copy_blocks",
    "measure",
    "paged_attention",
    "paged_prefill",
    "swap_blocks",
    "write_kv",
]
