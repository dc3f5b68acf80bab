"""A server's calls with every length, batch and pool size, counting what Triton would compile for them.

Run as a program, without TRITON_INTERPRET: prints one JSON object, kernel -> [compilations while warming up,
compilations after]. Nothing is really compiled: Triton makes the key under which it looks for a kernel.
"""

import json
from collections import Counter
from typing import Any

import torch
from triton.runtime.jit import JITFunction

from bench.pretend import pretend
from engine.attention import copy_blocks, paged_attention, paged_prefill, write_kv
from engine.quantized import layers_of, new_blocks

HEADS, KV_HEADS, HEAD_DIM, BLOCK_SIZE, LAYERS = 8, 2, 64, 16, 2


def step(num_decodes: int, chunk: int, num_blocks: int, max_blocks: int, window: int) -> None:
    """One step of an engine: some decodes, then a chunk of a prompt, in one flat batch."""
    storage = torch.empty(num_blocks, LAYERS, 2, BLOCK_SIZE, KV_HEADS, HEAD_DIM, dtype=torch.bfloat16)
    keys, values = storage[:, 1, 0], storage[:, 1, 1]
    num_tokens, n = num_decodes + chunk, num_decodes
    qkv = torch.zeros(num_tokens, HEADS + 2 * KV_HEADS, HEAD_DIM, dtype=torch.bfloat16)
    query, key, value = qkv.split([HEADS, KV_HEADS, KV_HEADS], dim=1)
    out = torch.empty(num_tokens, HEADS, HEAD_DIM, dtype=torch.bfloat16)
    tables = torch.zeros(n + 1, max_blocks, dtype=torch.int32)
    lens = torch.full((n + 1,), min(num_blocks, max_blocks) * BLOCK_SIZE, dtype=torch.int32)
    starts = torch.tensor([0, chunk], dtype=torch.int32)
    slots = torch.arange(num_tokens + 1)[1:] % (num_blocks * BLOCK_SIZE)
    options: Any = {"backend": "triton", "window": window}
    write_kv(key, value, keys, values, slots, backend="triton")
    paged_attention(query[:n], keys, values, tables[:n], lens[:n], out=out[:n], **options)
    most = 8 if chunk <= 8 else None
    ours: Any = {"out": out[n:], "max_query_len": most, **options}
    paged_prefill(query[n:], keys, values, tables[n:], lens[n:], starts, **ours)
    step_over_codes(query, key, value, num_blocks, (tables[:n], lens[:n]), slots)
    pairs = torch.tensor([[0, 1]] * 1 + [[0, 2]] * (chunk % 2))
    copy_blocks([storage], pairs, backend="triton")


def step_over_codes(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    num_blocks: int,
    place: Any,
    slots: torch.Tensor,
) -> None:
    """The decodes of a cache of 8-bit codes with scales."""
    shape = (LAYERS, 2, BLOCK_SIZE, KV_HEADS, HEAD_DIM)
    layer = layers_of(new_blocks(num_blocks, shape, torch.int8, torch.device("cpu"))[1], layer_dim=1)[1]
    scales = {"key_scales": layer.key_scales, "value_scales": layer.value_scales, "backend": "triton"}
    write_kv(key, value, layer.keys, layer.values, slots, **scales)
    paged_attention(query[: len(place[0])], layer.keys, layer.values, *place, **scales)


def main() -> None:
    counts: Counter[str] = Counter()

    def look_up(kernel: Any, key: Any, signature: Any, device: int, *rest: Any) -> Any:
        counts[kernel.__name__] += 1
        kernel.device_caches[device][0][key] = object()
        return object()

    JITFunction._do_compile = look_up
    with pretend("sm_90"):
        for max_blocks in (8, 512):  # sequences of one chunk at most, and of several
            for chunk in (5, 32):  # few queries, and many
                step(4, chunk, 64, max_blocks, 4096)
        warm = counts.copy()
        for num_decodes in (1, 2, 3, 16, 17, 64):
            for chunk in (1, 8, 15, 16, 17, 64):
                for max_blocks in (5, 9, 16, 33, 600):
                    num_blocks = 40 + 8 * chunk + num_decodes
                    step(num_decodes, chunk, num_blocks, max_blocks, 17 * max_blocks + chunk)
    print(json.dumps({name: [warm[name], counts[name] - warm[name]] for name in counts}))


if __name__ == "__main__":
    main()
