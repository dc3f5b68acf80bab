"""The functions that the engine calls: check the input, pick a backend, run it."""

import torch
from torch import Tensor

from engine.attention.checks import check_out
from engine.attention.features import Options
from engine.attention.kv import KV, ContiguousKV, PagedKV, Stored
from engine.attention.prepared import Prepared, prepare_decode, prepare_prefill


def paged_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    seq_lens: Tensor,
    *,
    scale: float | None = None,
    window: int | None = None,
    sinks: int = 0,
    alibi_slopes: Tensor | None = None,
    softcap: float | None = None,
    k_scale: float | Tensor | None = None,
    v_scale: float | Tensor | None = None,
    key_scales: Tensor | None = None,
    value_scales: Tensor | None = None,
    seen_until: Tensor | None = None,
    out: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """Decode: attention of one query token for each sequence, the last of its `seq_lens` tokens.

    query         [num_seqs, num_heads, head_dim], float32, float16 or bfloat16 (float64: `torch` only)
    caches        [num_blocks, block_size, num_kv_heads, head_dim], of those dtypes or int8, float8; any
                  strides but head_dim's, which is 1; num_heads is a multiple of num_kv_heads
    block_tables  int32 [num_seqs, max_blocks]; entries past a sequence's last block may hold anything
    seq_lens      int32 [num_seqs], tokens in the cache, the query's own included; 0 gives zeros
    scale         of the scores; None is 1/sqrt(head_dim)
    window, sinks see the last `window` tokens (the query's own included) and the first `sinks` tokens
                  of the sequence; None sees all. Other slots are never read
    alibi_slopes  float32 [num_heads]
    softcap       bounds the scores to +-softcap, before ALiBi; None is no bound
    k_scale, v_scale  what a stored number is multiplied by: one, or one for each kv head; None is 1
    key_scales, value_scales  of 8-bit caches: float32 [num_blocks, block_size, num_kv_heads], what each
                  vector is multiplied by, as `write_kv` makes them; None is 1
    seen_until    int32 [num_seqs, tokens]: the last query position that sees each token; None: no end
    out           where to write, [num_seqs, num_heads, head_dim] in query's dtype; None makes one
    backend       "torch", "cpu", "triton", or "auto": triton on a CUDA device, else cpu

    Returns `out`. A row's result does not depend on the other rows, to the bit. Sums are float32.
    Raises ValueError, with the numbers and the remedy, on input that does not fit together and on what
    the backend cannot do. Paper: PagedAttention, arXiv 2309.06180, section 4.1.
    """
    options = Options(scale, window, sinks, alibi_slopes, softcap, k_scale, v_scale, seen_until)
    kv = PagedKV(Stored(key_cache, value_cache, key_scales, value_scales), block_tables)
    return decode(query, kv, seq_lens, options, out, backend)


def paged_prefill(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    seq_lens: Tensor,
    query_start_loc: Tensor,
    *,
    scale: float | None = None,
    window: int | None = None,
    sinks: int = 0,
    alibi_slopes: Tensor | None = None,
    softcap: float | None = None,
    k_scale: float | Tensor | None = None,
    v_scale: float | Tensor | None = None,
    key_scales: Tensor | None = None,
    value_scales: Tensor | None = None,
    seen_until: Tensor | None = None,
    out: Tensor | None = None,
    max_query_len: int | None = None,
    backend: str = "auto",
) -> Tensor:
    """Attention of many query tokens for each sequence: a prompt, or a chunk of one.

    query            [total_query_tokens, num_heads, head_dim]; rows query_start_loc[i] up to
                     query_start_loc[i + 1] are the last tokens of sequence i
    query_start_loc  int32 [num_seqs + 1], rising from 0 to total_query_tokens
    seq_lens         int32 [num_seqs], tokens in the cache, those of the query included
    max_query_len    what no sequence has more query tokens than, where the caller knows. Up to 8 (drafts to
                     be verified, short chunks) go through the decode kernel, which shares one context out
                     to many programs; None and more do not. On a GPU nobody looks whether it is true

    Causal: a query sees its own position and what comes before (bottom-right aligned). The rest, errors
    too, as in `paged_attention`.
    """
    options = Options(scale, window, sinks, alibi_slopes, softcap, k_scale, v_scale, seen_until)
    kv = PagedKV(Stored(key_cache, value_cache, key_scales, value_scales), block_tables)
    return prefill(query, kv, seq_lens, query_start_loc, options, out, backend, max_query_len)


def contiguous_attention(
    query: Tensor,
    key_arena: Tensor,
    value_arena: Tensor,
    starts: Tensor,
    seq_lens: Tensor,
    *,
    scale: float | None = None,
    window: int | None = None,
    sinks: int = 0,
    alibi_slopes: Tensor | None = None,
    softcap: float | None = None,
    k_scale: float | Tensor | None = None,
    v_scale: float | Tensor | None = None,
    key_scales: Tensor | None = None,
    value_scales: Tensor | None = None,
    seen_until: Tensor | None = None,
    out: Tensor | None = None,
    max_seq_len: int | None = None,
    backend: str = "auto",
) -> Tensor:
    """`paged_attention` without pages: token t of sequence i lies in slot starts[i] + t.

    key_arena, value_arena  [num_slots, num_kv_heads, head_dim]; key_scales, value_scales without head_dim
    starts                  int64 [num_seqs], the first slot of each sequence
    max_seq_len             what no sequence is longer than, where the caller knows; None: the arena
    """
    options = Options(scale, window, sinks, alibi_slopes, softcap, k_scale, v_scale, seen_until)
    kv = ContiguousKV(Stored(key_arena, value_arena, key_scales, value_scales), starts, max_seq_len)
    return decode(query, kv, seq_lens, options, out, backend)


def contiguous_prefill(
    query: Tensor,
    key_arena: Tensor,
    value_arena: Tensor,
    starts: Tensor,
    seq_lens: Tensor,
    query_start_loc: Tensor,
    *,
    scale: float | None = None,
    window: int | None = None,
    sinks: int = 0,
    alibi_slopes: Tensor | None = None,
    softcap: float | None = None,
    k_scale: float | Tensor | None = None,
    v_scale: float | Tensor | None = None,
    key_scales: Tensor | None = None,
    value_scales: Tensor | None = None,
    seen_until: Tensor | None = None,
    out: Tensor | None = None,
    max_query_len: int | None = None,
    max_seq_len: int | None = None,
    backend: str = "auto",
) -> Tensor:
    """`paged_prefill` without pages; arenas, `starts` and `max_seq_len` as in `contiguous_attention`."""
    options = Options(scale, window, sinks, alibi_slopes, softcap, k_scale, v_scale, seen_until)
    kv = ContiguousKV(Stored(key_arena, value_arena, key_scales, value_scales), starts, max_seq_len)
    return prefill(query, kv, seq_lens, query_start_loc, options, out, backend, max_query_len)


def decode(
    query: Tensor, kv: KV, seq_lens: Tensor, options: Options, out: Tensor | None, backend: str
) -> Tensor:
    """One query token for each sequence, paged or contiguous."""
    prepared = prepare_decode(query, kv, seq_lens, options, backend)
    return run(prepared, query, kv, out)


def prefill(
    query: Tensor,
    kv: KV,
    seq_lens: Tensor,
    query_start_loc: Tensor,
    options: Options,
    out: Tensor | None,
    backend: str,
    max_query_len: int | None,
) -> Tensor:
    """Many query tokens for each sequence, paged or contiguous."""
    prepared = prepare_prefill(query, kv, seq_lens, query_start_loc, options, backend, max_query_len)
    return run(prepared, query, kv, out)


def run(prepared: Prepared, query: Tensor, kv: KV, out: Tensor | None) -> Tensor:
    """Into `out`, or into a new tensor."""
    if out is None:
        out = torch.empty_like(query, memory_format=torch.contiguous_format)
    check_out(query, out)
    prepared(query, kv.stored, out)
    return out
