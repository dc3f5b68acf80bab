"""One call for all layers of a step. Tables and lengths are the same in each, so they are checked once.

    prepared = prepare_decode(query, kv, seq_lens, Options())    checks, as the functions of `api` do
    prepared(query, stored, out)                                 a layer; only the tensors' form is looked at

Table, lengths and starts must not change as long as it is in use: what was checked is not looked at again.
"""

from torch import Tensor

from engine.attention.backends import MAX_SHORT, Run, plan
from engine.attention.checks import (
    check_attention,
    check_decode,
    check_prefill,
    check_seen_until,
    check_stored,
)
from engine.attention.features import Features, Options, make_features
from engine.attention.kv import KV, PagedKV, Stored

Form = tuple[object, ...]


class Prepared:
    """Attention of one step over the caches of any layer."""

    def __init__(self, query: Tensor, kv: KV, run: Run) -> None:
        self._forms = (form(query), *map(laid, kv.stored))
        self._run = run

    def __call__(self, query: Tensor, stored: Stored, out: Tensor) -> None:
        """Writes `out`. ValueError unless all have the shape, dtype and device of those prepared with."""
        forms = (form(query), *map(laid, stored))
        if forms != self._forms or form(out) != self._forms[0]:
            raise ValueError(
                f"a call prepared for query, keys, values and scales {self._forms} got {forms}, "
                f"out {form(out)}: prepare another one"
            )
        self._run(query, stored, out)


def form(tensor: Tensor) -> Form:
    """What a plan relies on."""
    return tensor.shape, tensor.dtype, tensor.device


def laid(cache: Tensor | None) -> Form:
    """Of a cache its strides too."""
    return () if cache is None else (*form(cache), cache.stride())


def prepare_decode(
    query: Tensor, kv: KV, seq_lens: Tensor, options: Options, backend: str = "auto"
) -> Prepared:
    """One query token for each sequence, paged or contiguous; errors as in `api.paged_attention`."""
    features = checked(query, kv, seq_lens, options)
    check_decode(query, kv, seq_lens, features)
    return Prepared(query, kv, plan("decode", backend, query, kv, (seq_lens,), features))


def prepare_prefill(
    query: Tensor,
    kv: KV,
    seq_lens: Tensor,
    query_start_loc: Tensor,
    options: Options,
    backend: str = "auto",
    max_query_len: int | None = None,
) -> Prepared:
    """Many query tokens for each sequence, paged or contiguous; errors as in `api.paged_prefill`."""
    features = checked(query, kv, seq_lens, options)
    check_prefill(query, kv, seq_lens, query_start_loc, features, max_query_len)
    operation = "short" if max_query_len is not None and max_query_len <= MAX_SHORT else "prefill"
    return Prepared(query, kv, plan(operation, backend, query, kv, (seq_lens, query_start_loc), features))


def checked(query: Tensor, kv: KV, seq_lens: Tensor, options: Options) -> Features:
    """The options of a call whose tensors fit together."""
    check_stored(kv.stored, num_dims=4 if isinstance(kv, PagedKV) else 3)
    check_attention(query, kv, seq_lens)
    if options.seen_until is not None:
        check_seen_until(kv, seq_lens, options.seen_until)
    return make_features(query, kv.num_kv_heads, options)
