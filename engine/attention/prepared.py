"""One call for all layers of a step. Tables and lengths are the same in each, so they are checked once.

    prepared = prepare_decode(query, kv, seq_lens, Options())    checks, as the functions of `api` do
    prepared(query, keys, values, out)                           a layer; only the tensors' form is looked at

Table, lengths and starts must not change as long as it is in use: what was checked is not looked at again.
"""

from torch import Tensor

from engine.attention.backends import Run, plan
from engine.attention.checks import check_attention, check_caches, check_decode, check_prefill
from engine.attention.features import Options, make_features
from engine.attention.kv import KV, PagedKV

Form = tuple[object, ...]


class Prepared:
    """Attention of one step over the caches of any layer."""

    def __init__(self, query: Tensor, kv: KV, run: Run) -> None:
        self._forms = (form(query), laid(kv.keys), laid(kv.values))
        self._run = run

    def __call__(self, query: Tensor, keys: Tensor, values: Tensor, out: Tensor) -> None:
        """Writes `out`. ValueError unless all have the shape, dtype and device of those prepared with."""
        forms = (form(query), laid(keys), laid(values))
        if forms != self._forms or form(out) != self._forms[0]:
            raise ValueError(
                f"a call prepared for query, keys and values {self._forms} got {forms}, out {form(out)}: "
                "prepare another one"
            )
        self._run(query, keys, values, out)


def form(tensor: Tensor) -> Form:
    """What a plan relies on."""
    return tensor.shape, tensor.dtype, tensor.device


def laid(cache: Tensor) -> Form:
    """Of a cache its strides too."""
    return *form(cache), cache.stride()


def prepare_decode(
    query: Tensor, kv: KV, seq_lens: Tensor, options: Options, backend: str = "auto"
) -> Prepared:
    """One query token for each sequence, paged or contiguous; errors as in `api.paged_attention`."""
    check_kv(kv)
    check_attention(query, kv, seq_lens)
    features = make_features(query, kv.num_kv_heads, options)
    check_decode(query, kv, seq_lens, features)
    return Prepared(query, kv, plan("decode", backend, query, kv, (seq_lens,), features))


def prepare_prefill(
    query: Tensor, kv: KV, seq_lens: Tensor, query_start_loc: Tensor, options: Options, backend: str = "auto"
) -> Prepared:
    """Many query tokens for each sequence, paged or contiguous; errors as in `api.paged_prefill`."""
    check_kv(kv)
    check_attention(query, kv, seq_lens)
    features = make_features(query, kv.num_kv_heads, options)
    check_prefill(query, kv, seq_lens, query_start_loc, features)
    return Prepared(query, kv, plan("prefill", backend, query, kv, (seq_lens, query_start_loc), features))


def check_kv(kv: KV) -> None:
    """Keys and values that belong together, in blocks or in one piece."""
    check_caches(kv.keys, kv.values, num_dims=4 if isinstance(kv, PagedKV) else 3)
