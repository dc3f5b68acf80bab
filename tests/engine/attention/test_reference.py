"""The reference against a formula of its own: torch's scaled_dot_product_attention on gathered keys."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from tests.engine.attention.cases import Case, assert_near, make_case


def dense(case: Case, row: int, query: torch.Tensor) -> torch.Tensor:
    """Attention of query [tokens, heads, dim], the last tokens of a row, by one masked dense product."""
    length, block_size = int(case.seq_lens[row]), case.keys.shape[1]
    at = torch.arange(length)
    blocks, offsets = case.table[row, at // block_size].clamp(0, len(case.keys) - 1), at % block_size
    # Only what nobody sees may be replaced: the mask hides it, but 0 * NaN would show.
    keys, values = (cache[blocks, offsets].double().nan_to_num() for cache in (case.keys, case.values))
    position = torch.arange(length - len(query), length)
    window, sinks = case.options.get("window", length), case.options.get("sinks", 0)
    is_seen = (at <= position[:, None]) & ((at > position[:, None] - window) | (at < sinks))
    bias = torch.zeros(query.shape[1], *is_seen.shape, dtype=torch.float64)
    if "alibi_slopes" in case.options:
        bias = bias + case.options["alibi_slopes"].double()[:, None, None] * (at - position[:, None])
    bias = bias.masked_fill(~is_seen, float("-inf"))
    parts = (tensor.double().transpose(0, 1)[None] for tensor in (query, keys, values))
    scale = case.options.get("scale")
    return scaled_dot_product_attention(*parts, attn_mask=bias[None], scale=scale, enable_gqa=True)[
        0
    ].transpose(0, 1)


def test_the_reference_decodes_like_dense_attention() -> None:
    for options in (
        {},
        {"scale": 0.3},
        {"window": 5},
        {"window": 5, "sinks": 2},
        {"alibi_slopes": torch.rand(4)},
    ):
        case = make_case([1, 4, 13], **options)
        expected = torch.cat([dense(case, row, case.query[row : row + 1]) for row in range(3)])
        assert_near(case.decode("torch"), expected)


def test_the_reference_prefills_like_dense_causal_attention() -> None:
    for options in ({}, {"window": 3, "sinks": 2}, {"alibi_slopes": torch.rand(4)}):
        case = make_case([5, 13], query_lens=[5, 4], **options)
        queries = case.prefill_query.split(case.query_lens)
        expected = torch.cat([dense(case, row, query) for row, query in enumerate(queries)])
        assert_near(case.prefill("torch"), expected)


def test_a_softcap_bounds_the_scores_before_alibi_is_added() -> None:
    case = make_case([2], num_heads=1, num_kv_heads=1, softcap=2.0, alibi_slopes=torch.tensor([0.5]))
    keys = case.keys[case.table[0, 0], :2, 0].double()
    values = case.values[case.table[0, 0], :2, 0].double()
    raw = keys @ case.query[0, 0].double() / 4
    scores = 2.0 * torch.tanh(raw / 2.0) + torch.tensor([-0.5, 0.0])
    assert_near(case.decode("torch")[0, 0], torch.softmax(scores, 0) @ values)


def test_stored_numbers_are_multiplied_by_the_scale_of_their_head() -> None:
    case = make_case([6], k_scale=torch.tensor([0.5, 2.0]), v_scale=3.0)
    factors = torch.tensor([0.5, 2.0])[:, None]
    plain = make_case([6])
    scaled = Case(plain.keys * factors, plain.values * 3.0, *vars_after(plain))
    assert_near(case.decode("torch"), scaled.decode("torch"))


def vars_after(case: Case) -> tuple:
    return (case.table, case.seq_lens, case.query, case.query_lens, case.prefill_query)
