"""Attention over a KV cache in pages, or in one piece, and what writes and moves its blocks.

- api: the functions below; kv, features and checks hold their nouns and their input checks
- reference: backend `torch`, the oracle
- cpu_*: backend `cpu`, compiled loops
- triton_*: backend `triton`, for a CUDA device or Triton's interpreter
- write: new tokens into slots; copy: blocks over blocks; both in torch, and in triton_write, _copy, _swap
"""

from engine.attention.api import contiguous_attention, contiguous_prefill, paged_attention, paged_prefill
from engine.attention.copy import copy_blocks, swap_blocks
from engine.attention.write import write_kv

__all__ = [
    "contiguous_attention",
    "contiguous_prefill",
    "copy_blocks",
    "paged_attention",
    "paged_prefill",
    "swap_blocks",
    "write_kv",
]
