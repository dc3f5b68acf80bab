"""Claims that stand in code: the guide's sketches, run as they are meant."""

import numpy as np
import torch

from app.claims.claim import GUIDE, TOPIC, Claim, Finding, where
from engine import paged_attention

NUM_HEADS, HEAD_DIM, LENGTH = 4, 32, 37
TOLERANCE = 1e-5
BLOCKS = (5, 0, 3)  # scattered, and not in order


def pages_taken(length: int, page_size: int) -> int:
    """By the guide's rule: a page when, after one token more, the length leaves remainder 1."""
    return sum(tokens % page_size == 1 for tokens in range(1, length + 1))


def modulo_rule() -> Finding:
    sizes = (1, 2, 16, 512)
    length = 1000
    taken = {f"pages of {size}": pages_taken(length, size) for size in sizes}
    needed = {f"pages of {size}": -(-length // size) for size in sizes}
    shown = ", ".join(f"{name}: {count} of {needed[name]}" for name, count in taken.items())
    why = "No length leaves remainder 1 when divided by 1: such a sequence never gets a page."
    return where({name: taken[name] == needed[name] for name in taken}, shown, why)


def attention_case() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A query [1, H, D], caches [8, 16, H, D] and a table whose blocks are scattered."""
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(1, NUM_HEADS, HEAD_DIM, generator=generator)
    keys, values = torch.randn(2, 8, 16, NUM_HEADS, HEAD_DIM, generator=generator)
    return query, keys, values, torch.tensor([BLOCKS], dtype=torch.int32)


def dense(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Softmax attention over the same tokens in a row, in float64: [1, H, D]."""
    k, v = (cache[table[0].long()].flatten(0, 1)[:LENGTH].double() for cache in (keys, values))
    scores = torch.einsum("hd,thd->ht", query[0].double(), k) / HEAD_DIM**0.5
    return torch.einsum("ht,thd->hd", scores.softmax(-1), v)[None]


def math_unchanged() -> Finding:
    query, keys, values, table = attention_case()
    paged = paged_attention(query, keys, values, table, torch.tensor([LENGTH], dtype=torch.int32))
    error = float((paged.double() - dense(query, keys, values, table)).abs().max())
    why = "Attention over scattered blocks against attention over the same tokens in a row, in float64."
    return where({"float32": error < TOLERANCE}, f"largest difference {error:.1e}", why)


def kernel_output() -> Finding:
    query, keys, values, table = attention_case()
    tokens = keys[table[0].long()].flatten(0, 1)[:LENGTH]
    summed = float(torch.einsum("hd,thd->", query[0], tokens))  # what the sketch writes for its query
    wanted = dense(query, keys, values, table)
    error = float((wanted - summed).abs().max())
    why = (
        "The sketch adds up the products of query and keys and writes that one number: there is no scale, "
        "no softmax, and the values are never read."
    )
    return where({"attention": error < TOLERANCE}, f"largest difference from attention {error:.3g}", why)


def kernel_address() -> Finding:
    page_size, width = 16, NUM_HEADS * HEAD_DIM
    physical, token = np.meshgrid(np.arange(8), np.arange(page_size), indexing="ij")
    right = (physical * page_size + token) * width
    sketched = physical * page_size
    share = 100 * float((right == sketched).mean())
    why = "The sketch steps over a page as if a token took one number, and drops the offset in the page."
    return where({"every token": share == 100}, f"{share:.1f} % of the tokens are where it looks", why)


def no_copy() -> Finding:
    query, keys, values, table = attention_case()
    lens = torch.tensor([LENGTH], dtype=torch.int32)
    before = paged_attention(query, keys, values, table, lens)
    poisoned = torch.full_like(keys, torch.nan), torch.full_like(values, torch.nan)
    for cache, source in zip(poisoned, (keys, values), strict=True):
        for place, block in enumerate(BLOCKS):
            rows = min(16, LENGTH - place * 16)
            cache[block, :rows] = source[block, :rows]
    after = paged_attention(query, *poisoned, table, lens)
    is_same = bool(torch.equal(before, after))
    why = "All slots but the sequence's own were filled with NaN: the kernel reads its blocks where they lie."
    return where({"this kernel": is_same}, "bit for bit the same" if is_same else "changed", why)


CODE = (
    Claim("modulo-rule", GUIDE, "a new page is due when length % page_size == 1", "right", modulo_rule),
    Claim(
        "math-unchanged",
        TOPIC,
        "paging leaves the mathematics of attention as it is",
        "unchanged",
        math_unchanged,
    ),
    Claim("pseudo-kernel", GUIDE, "the kernel sketch computes attention", "attention", kernel_output),
    Claim("pseudo-address", GUIDE, "the kernel sketch finds a key in its page", "right", kernel_address),
    Claim(
        "in-place", GUIDE, "attention reads pages in place, without rebuilding K and V", "in place", no_copy
    ),
)
