"""Every backend against the float64 reference, on awkward shapes.

All cases hide NaN in every slot that nobody may see and 2**30 in every table entry that nobody needs.
"""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.attention import (
    contiguous_attention,
    contiguous_prefill,
    paged_attention,
    paged_prefill,
    write_kv,
)
from tests.engine.attention.cases import BACKENDS, assert_near, make_case, need

FAST = [backend for backend in BACKENDS if backend != "triton"]  # an interpreted kernel takes a second a call

SHAPES = {
    "one block holds all": {"block_size": 512},
    "a slot a block": {"block_size": 1, "head_dim": 8},
    "blocks of 7, dim 80, group 5": {"block_size": 7, "head_dim": 80, "num_heads": 10},
    "dim 96, one kv head for 24": {"head_dim": 96, "num_heads": 24, "num_kv_heads": 1, "block_size": 16},
    "odd dim": {"head_dim": 33, "num_heads": 3, "num_kv_heads": 3},
}
FEATURES = {
    "scale": {"scale": 0.7},
    "window": {"window": 5},
    "window of one": {"window": 1},
    "window and sinks": {"window": 9, "sinks": 6},
    "alibi": {"alibi_slopes": torch.tensor([0.5, 0.25, 0.125, 2.0])},
    "softcap": {"softcap": 1.5},
    "all": {
        "window": 30,
        "sinks": 3,
        "softcap": 4.0,
        "alibi_slopes": torch.rand(4),
        "scale": 0.5,
        "v_scale": 2.0,
    },
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_decode_equals_the_reference_on_every_shape(backend: str, shape: dict) -> None:
    case = make_case([0, 1, 37], **shape)
    assert_near(case.decode(backend), case.exact().decode("torch"))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_prefill_equals_the_reference_on_every_shape(backend: str, shape: dict) -> None:
    case = make_case([0, 5, 37], query_lens=[0, 5, 13], **shape)
    assert_near(case.prefill(backend), case.exact().prefill("torch"))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("options", FEATURES.values(), ids=FEATURES)
def test_every_feature_decodes_as_in_the_reference(backend: str, options: dict) -> None:
    case = make_case([1, 70], **options)
    assert_near(case.decode(backend), case.exact().decode("torch"))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("options", FEATURES.values(), ids=FEATURES)
def test_every_feature_prefills_as_in_the_reference(backend: str, options: dict) -> None:
    case = make_case([2, 70], query_lens=[2, 40], **options)
    assert_near(case.prefill(backend), case.exact().prefill("torch"))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_loses_only_what_its_own_rounding_loses(backend: str, dtype: torch.dtype) -> None:
    case = make_case([3, 40], dtype=dtype, query_lens=[2, 5])
    assert_near(case.decode(backend), case.exact().decode("torch"))
    assert_near(case.prefill(backend), case.exact().prefill("torch"))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cache_dtype", [torch.bfloat16, torch.float16, torch.int8, torch.float8_e4m3fn])
def test_a_narrow_cache_costs_a_float32_query_nothing(backend: str, cache_dtype: torch.dtype) -> None:
    options = {"k_scale": 0.02, "v_scale": torch.tensor([0.5, 0.1])} if cache_dtype == torch.int8 else {}
    case = make_case([3, 40], cache_dtype=cache_dtype, **options)
    tolerance = 1e-5 if cache_dtype == torch.int8 else None  # scores near 50, of which 24 bits are 3e-6
    assert_near(case.decode(backend), case.exact().decode("torch"), tolerance)
    assert_near(case.prefill(backend), case.exact().prefill("torch"), tolerance)


@pytest.mark.parametrize("backend", BACKENDS)
def test_contexts_longer_than_a_chunk_are_put_together_again(backend: str) -> None:
    case = make_case([600, 3, 256, 257, 0], num_heads=2, num_kv_heads=1, block_size=32)
    assert_near(case.decode(backend), case.exact().decode("torch"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_whole_chunks_outside_the_window_are_not_read(backend: str) -> None:
    for sinks in (0, 3):
        case = make_case([900], num_heads=2, num_kv_heads=1, block_size=8, window=20, sinks=sinks)
        torch.use_deterministic_algorithms(True)  # fills what torch.empty returns with NaN
        try:
            assert_near(case.decode(backend), case.exact().decode("torch"))
        finally:
            torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_scores_far_below_zero_do_not_vanish(backend: str) -> None:
    """A maximum carried as 0 instead of -inf, or a mask of -1e4, turned these into 0 or NaN elsewhere."""
    case = make_case([70, 9], window=5, query_lens=[3, 3])
    case.keys.fill_(1.0)
    for query in (case.query, case.prefill_query):
        query.fill_(-1e5)
    assert case.query[0, 0].sum() * 0.25 < -2.5e5
    assert_near(case.decode(backend), case.exact().decode("torch"))
    assert_near(case.prefill(backend), case.exact().prefill("torch"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_row_is_the_same_to_the_bit_in_any_company(backend: str) -> None:
    """Length 300 takes two chunks; alone, its table is narrower and its neighbours are gone."""
    case = make_case([5, 300, 1100], query_lens=[2, 6, 3], num_heads=2, num_kv_heads=1, block_size=16)
    together, prefilled = case.decode(backend), case.prefill(backend)
    alone = make_case([5, 300, 1100], query_lens=[2, 6, 3], num_heads=2, num_kv_heads=1, block_size=16)
    alone = type(alone)(
        alone.keys,
        alone.values,
        alone.table[1:2, :19],
        alone.seq_lens[1:2],
        alone.query[1:2],
        [6],
        alone.prefill_query[2:8],
    )
    assert torch.equal(alone.decode(backend), together[1:2])
    assert torch.equal(alone.prefill(backend), prefilled[2:8])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_row_of_one_chunk_is_the_same_to_the_bit_beside_one_of_several(backend: str) -> None:
    """Alone its table has room for one chunk, for which Triton compiles another kernel."""
    case = make_case([200, 1100], query_lens=[3, 3], num_heads=2, num_kv_heads=1, block_size=16)
    rows = case.query[:1], [3], case.prefill_query[:3]
    alone = type(case)(case.keys, case.values, case.table[:1, :13], case.seq_lens[:1], *rows)
    assert torch.equal(alone.decode(backend), case.decode(backend)[:1])
    assert torch.equal(alone.short(backend), case.short(backend)[:3])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_the_usual_head_dims_equal_the_reference(backend: str, head_dim: int) -> None:
    case = make_case([37, 300], query_lens=[4, 9], head_dim=head_dim, num_heads=2, num_kv_heads=1)
    assert_near(case.decode(backend), case.exact().decode("torch"))
    assert_near(case.prefill(backend), case.exact().prefill("torch"))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("options", FEATURES.values(), ids=FEATURES)
def test_what_lies_in_slots_that_nobody_may_see_changes_no_bit(backend: str, options: dict) -> None:
    """NaN there, as a pool has it, and zeros."""
    case = make_case([5, 70], query_lens=[5, 13], block_size=7, **options)
    zeros = replace(case, keys=case.keys.nan_to_num(0.0), values=case.values.nan_to_num(0.0))
    assert case.keys.isnan().any()
    assert torch.equal(case.decode(backend), zeros.decode(backend))
    assert torch.equal(case.prefill(backend), zeros.prefill(backend))


@pytest.mark.parametrize("backend", BACKENDS)
def test_nan_in_a_slot_that_is_read_shows_and_stays_in_its_sequence(backend: str) -> None:
    """A kernel that swallowed it would hide reads of slots that nobody wrote."""
    for cache in ("keys", "values"):
        case = make_case([20, 6])
        getattr(case, cache)[case.table[0, 3], 2] = float("nan")  # token 14
        for result, num_rows in ((case.decode(backend), 1), (case.prefill(backend), 3)):
            assert result[:num_rows].isnan().all()
            assert not result[num_rows:].isnan().any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_chunked_prefill_equals_the_whole(backend: str) -> None:
    whole = make_case([23], query_lens=[23])
    expected = whole.prefill(backend)
    for start, end in ((0, 9), (9, 10), (10, 23)):
        seq_lens = torch.tensor([end], dtype=torch.int32)
        part = type(whole)(
            whole.keys,
            whole.values,
            whole.table,
            seq_lens,
            whole.query,
            [end - start],
            whole.prefill_query[start:end],
        )
        assert_near(part.prefill(backend), expected[start:end])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_contiguous_arena_gives_what_pages_give(backend: str) -> None:
    need(backend)
    case = make_case([0, 5, 21], query_lens=[0, 5, 7], block_size=32)
    table = case.table[:, 0].clamp(0, len(case.keys) - 1)
    starts = table.to(torch.int64) * 32
    arenas = case.keys.flatten(0, 1), case.values.flatten(0, 1)
    decoded = contiguous_attention(case.query, *arenas, starts, case.seq_lens, backend=backend)
    assert_near(decoded, case.exact().decode("torch"))
    loc = case.query_start_loc
    prefilled = contiguous_prefill(case.prefill_query, *arenas, starts, case.seq_lens, loc, backend=backend)
    assert_near(prefilled, case.exact().prefill("torch"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_blocks_may_lie_apart_as_in_a_pool_of_all_layers(backend: str) -> None:
    """Block-major pool [blocks, layers, 2, block_size, heads, dim]: a layer's view has long block strides."""
    case = make_case([0, 5, 21], query_lens=[0, 5, 7])
    pool = torch.full((len(case.keys), 3, 2, *case.keys.shape[1:]), float("nan"))
    pool[:, 1, 0], pool[:, 1, 1] = case.keys, case.values
    query = torch.randn(3, 12, 16)[:, 4:8]  # a slice of a fused qkv projection
    spread = type(case)(
        pool[:, 1, 0], pool[:, 1, 1], case.table, case.seq_lens, query, case.query_lens, case.prefill_query
    )
    assert_near(spread.decode(backend), spread.exact().decode("torch"))
    assert_near(spread.prefill(backend), case.exact().prefill("torch"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_result_goes_where_out_says(backend: str) -> None:
    case = make_case([3, 9])
    wide = torch.full((2, 4, 40), 7.0)
    out = wide[:, :, 8:24]
    case.options["out"] = out
    assert case.decode(backend) is out
    assert_near(out, make_case([3, 9]).exact().decode("torch"))
    assert (wide[:, :, :8] == 7).all()
    assert (wide[:, :, 24:] == 7).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_empty_batch_gives_an_empty_result(backend: str) -> None:
    case = make_case([])
    assert case.decode(backend).shape == (0, 4, 16)
    assert case.prefill(backend).shape == (0, 4, 16)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_compiled_backend_equals_the_reference_on_any_shape(data: st.DataObject) -> None:
    seq_lens = data.draw(st.lists(st.integers(0, 300), min_size=1, max_size=4))
    num_kv_heads, group = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 9))
    case = make_case(
        seq_lens,
        query_lens=[data.draw(st.integers(0, min(length, 50))) for length in seq_lens],
        num_kv_heads=num_kv_heads,
        num_heads=num_kv_heads * group,
        head_dim=data.draw(st.integers(1, 40)),
        block_size=data.draw(st.sampled_from([1, 3, 16, 100, 512])),
        window=data.draw(st.none() | st.integers(1, 400)),
        sinks=data.draw(st.integers(0, 5)),
        seed=data.draw(st.integers(0, 2**32 - 1)),
    )
    assert_near(case.decode("cpu"), case.exact().decode("torch"), 1e-5)
    assert_near(case.prefill("cpu"), case.exact().prefill("torch"), 1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_blocks_beyond_2_to_the_31_elements_are_written_and_read_where_they_are(backend: str) -> None:
    """32-bit offsets wrap there. Of the memory only the pages that are touched come to be."""
    need(backend)
    apart, last = 2**20, 2**11 + 1  # elements from block to block, the last block
    memory = torch.empty(apart * last + 64, dtype=torch.int8)
    far = memory.as_strided((last + 1, 4, 1, 16), (apart, 16, 16, 1))
    near = torch.zeros(2, 4, 1, 16, dtype=torch.int8)
    scales = torch.ones(last + 1, 4, 1)
    key, value, query = torch.randn(3, 6, 1, 16)
    for pool, blocks in ((far, (last, last - 1)), (near, (1, 0))):
        slots = torch.tensor([blocks[token // 4] * 4 + token % 4 for token in range(6)])
        options = {"key_scales": scales[: len(pool)], "value_scales": scales[: len(pool)], "backend": backend}
        write_kv(key, value, pool, pool, slots, **options)
    assert torch.equal(far[last], near[1])
    results = [
        paged_attention(query[:1], pool, pool, torch.tensor([blocks]).int(), torch.tensor([6]).int(),
                        backend=backend)
        for pool, blocks in ((far, (last, last - 1)), (near, (1, 0)))
    ]  # fmt: skip
    assert torch.equal(*results)


TABLE, EIGHT = torch.zeros(1, 1, dtype=torch.int32), torch.tensor([8], dtype=torch.int32)


def one_block(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Eight queries, and keys and values of one head in a block of eight tokens."""
    generator = torch.Generator().manual_seed(seed)
    query, keys, values = (torch.randn(8, 1, 4, generator=generator) for _ in range(3))
    return query, keys[None], values[None]


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("spoilt", ["query", "keys"])
def test_decode_does_not_make_numbers_of_what_is_none(backend: str, spoilt: str) -> None:
    query, keys, values = one_block()
    (query if spoilt == "query" else keys).fill_(torch.nan)
    found = paged_attention(query[:1], keys, values, TABLE, EIGHT, backend=backend)
    assert found.isnan().all()


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("nothing", [torch.nan, torch.inf])
@pytest.mark.parametrize("options", [{}, {"window": 2}], ids=str)
def test_a_value_that_is_no_number_stays_with_the_rows_that_see_it(
    backend: str, nothing: float, options: dict
) -> None:
    """To the bit: the others are as if it were a number."""
    query, keys, values = one_block()
    bounds = torch.tensor([0, 8], dtype=torch.int32)
    sound = paged_prefill(query, keys, values, TABLE, EIGHT, bounds, **options, backend=backend)
    values[0, 3] = nothing
    found = paged_prefill(query, keys, values, TABLE, EIGHT, bounds, **options, backend=backend)
    is_seen = [3 <= row < (5 if options else 8) for row in range(8)]
    assert (~found.isfinite()).all(dim=2).flatten().tolist() == is_seen
    assert found[~torch.tensor(is_seen)].equal(sound[~torch.tensor(is_seen)])


@pytest.mark.parametrize("backend", FAST)
def test_a_window_beyond_all_lengths_is_none(backend: str) -> None:
    query, keys, values = one_block()
    bounds = torch.tensor([0, 8], dtype=torch.int32)
    place = (query, keys, values, TABLE, EIGHT, bounds)
    everything = paged_prefill(*place, backend=backend)
    assert paged_prefill(*place, window=2**63 - 1, backend=backend).equal(everything)


@pytest.mark.parametrize("backend", FAST)
def test_options_may_be_parameters_that_are_learned(backend: str) -> None:
    query, keys, values = one_block()
    learned = {name: torch.nn.Parameter(torch.ones(1)) for name in ("alibi_slopes", "k_scale", "v_scale")}
    plain = {name: one.detach() for name, one in learned.items()}
    place = (query[:1], keys, values, TABLE, EIGHT)
    assert paged_attention(*place, **learned, backend=backend).equal(
        paged_attention(*place, **plain, backend=backend)
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_block_whose_tokens_are_out_of_reach_or_dropped_may_have_any_entry(backend: str) -> None:
    need(backend)
    keys, values = torch.randn(2, 4, 2, 1, 4).unbind()
    table = torch.tensor([[2**30, 2**30, 2]], dtype=torch.int32)
    until = torch.tensor([[99, 99, 99, 0, 99, 99]], dtype=torch.int32)  # of the window, token 3 is dropped
    lens, query = torch.tensor([6], dtype=torch.int32), torch.randn(1, 1, 4)
    options = {"window": 3, "seen_until": until}
    found = paged_attention(query, keys, values, table, lens, **options, backend=backend)
    assert_near(
        found, paged_attention(query, keys, values, table.clamp(max=3), lens, **options, backend="torch")
    )
    with pytest.raises(ValueError, match=r"block_tables\[0, 1\] is 1073741824"):
        paged_attention(query, keys, values, table, lens, window=3, backend=backend)
