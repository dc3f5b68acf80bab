"""`pagelab trace hits`: a trace through a cache alone, against an independent implementation and by hand."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim import InputError, Request, Trace
from sim.hits import POLICIES, replay_hits
from sim.prompts import PromptBlocks

REFERENCE = "ref_kvcache-simulator-0.1.3_mooncake_conversation_llama-3.1-8b.json"


@pytest.fixture(scope="module")
def mooncake(shared_data: Path) -> PromptBlocks:
    return PromptBlocks.of(Trace.read(shared_data / "mooncake_conversation_trace.jsonl.gz"))


@pytest.mark.parametrize("policy", ["fifo", "lru", "optimal"])
def test_mooncake_hits_are_those_of_kvcache_simulator_to_the_token(
    mooncake: PromptBlocks, shared_data: Path, policy: str
):
    points = json.loads((shared_data / REFERENCE).read_text())["points"]
    assert [point["cacheBlocks"] for point in points] == [2**k for k in range(4, 17)]
    for point in points:
        rates, reference = replay_hits(mooncake, point["cacheBlocks"], policy), point["results"][policy]
        assert rates.prompt_tokens == reference["totalTokens"]
        assert rates.hit_tokens == reference["hitTokens"], f"{point['cacheBlocks']} blocks"
        assert rates.hit_rate == pytest.approx(reference["hitRate"], abs=1e-12)


def test_a_cache_that_never_fills_finds_all_that_was_seen_before(mooncake: PromptBlocks):
    for policy in POLICIES:
        rates = replay_hits(mooncake, 182_790, policy)
        assert (rates.hit_tokens, rates.hit_rate) == (27_038_068, pytest.approx(0.398113, abs=5e-7))


def prompts(*blocks: tuple[int, ...], size: int = 4) -> PromptBlocks:
    return PromptBlocks(size, list(blocks), [size * len(one) for one in blocks])


def hits(policy: str, cache_blocks: int, *blocks: tuple[int, ...]) -> int:
    return replay_hits(prompts(*blocks), cache_blocks, policy).hit_tokens_all // 4


def test_lru_loses_the_tail_of_a_prompt_before_its_head():
    assert hits("lru", 2, (0, 1, 2), (0, 1, 2)) == 2
    assert hits("fifo", 2, (0, 1, 2), (0, 1, 2)) == 0  # 0 entered first


def test_only_a_contiguous_prefix_is_a_hit():
    # 0 is the first to leave a cache of two; 1 and 2 are there, but nothing before them
    assert hits("fifo", 2, (0, 1), (0, 1, 2), (0, 1, 2)) == 2


def test_optimal_keeps_what_comes_next_and_passes_over_what_never_comes_back():
    assert hits("optimal", 1, (0,), (1,), (0,), (2,), (0,)) == 2
    assert hits("lru", 1, (0,), (1,), (0,), (2,), (0,)) == 0


def test_a_partial_last_block_counts_the_tokens_that_it_holds():
    two = PromptBlocks(4, [(0, 1), (0, 1)], [6, 6])
    assert replay_hits(two, 8, "lru").hit_tokens == 6


def test_the_last_half_is_counted_apart():
    rates = replay_hits(prompts((0,), (0,), (0,), (1,), (0,)), 8, "lru")
    assert (rates.hit_rate, rates.hit_rate_all) == (2 / 3, 3 / 5)


@st.composite
def chained_prompts(draw: st.DrawFn) -> list[tuple[int, ...]]:
    """Paths from the root of a random tree, each given by the branch to take at every depth."""
    paths = draw(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=12))
    names: dict[tuple[int, ...], int] = {}
    return [
        tuple(names.setdefault(tuple(path[: depth + 1]), len(names)) for depth in range(len(path)))
        for path in paths
    ]


@given(chained_prompts(), st.integers(1, 8))
def test_no_policy_beats_optimal(blocks: list[tuple[int, ...]], cache_blocks: int):
    optimal = hits("optimal", cache_blocks, *blocks)
    assert optimal >= hits("lru", cache_blocks, *blocks)
    assert optimal >= hits("fifo", cache_blocks, *blocks)


@given(chained_prompts(), st.integers(1, 3))
@settings(deadline=None)
def test_optimal_is_the_best_of_all_choices(blocks: list[tuple[int, ...]], cache_blocks: int):
    blocks = [prompt[:3] for prompt in blocks[:6]]
    best = {frozenset[int](): 0}  # cached set -> most block hits so far
    for prompt in blocks:
        then: dict[frozenset[int], int] = {}
        for cached, count in best.items():
            found = next((k for k, block in enumerate(prompt) if block not in cached), len(prompt))
            for kept in subsets(cached | set(prompt), cache_blocks):
                then[kept] = max(then.get(kept, 0), count + found)
        best = then
    assert hits("optimal", cache_blocks, *blocks) == max(best.values())


def subsets(items: frozenset[int], most: int) -> list[frozenset[int]]:
    found = [frozenset[int]()]
    for item in sorted(items):
        found += [one | {item} for one in found if len(one) < most]
    return found


@given(chained_prompts())
def test_a_larger_lru_cache_finds_no_less(blocks: list[tuple[int, ...]]):
    counts = [hits("lru", size, *blocks) for size in range(1, 9)]
    assert counts == sorted(counts)


def tokens_request(id: str, tokens: list[int]) -> Request:
    return Request(id=id, arrival_s=0.0, prompt=len(tokens), output=1, max_tokens=1, tokens=tuple(tokens))


def test_token_ids_become_blocks_that_are_equal_only_after_equal_tokens():
    trace = [
        tokens_request("a", [1, 2, 3, 4, 5]),
        tokens_request("b", [1, 2, 3, 4, 6]),
        tokens_request("c", [9, 2, 3, 4]),
    ]
    found = PromptBlocks.of(trace, 2).blocks
    assert found == [(0, 1, 2), (0, 1, 3), (4, 5)]  # (3, 4) after (9, 2) is not (3, 4) after (1, 2)


def test_a_shared_prefix_is_known_by_name_and_the_rest_is_unlike_all_else():
    shared = [
        Request(id=id, arrival_s=0.0, prompt=7, output=1, max_tokens=1, prefix="system", prefix_tokens=4)
        for id in "ab"
    ]
    found = PromptBlocks.of(shared, 2).blocks
    assert found[0][:2] == found[1][:2] == (0, 1)
    assert not set(found[0][2:]) & set(found[1][2:])


def test_blocks_have_the_size_of_the_trace_unless_another_is_asked_for():
    request = Request(
        id="a", arrival_s=0.0, prompt=1000, output=1, max_tokens=1, blocks=(7, 9), block_tokens=512
    )
    assert PromptBlocks.of([request]) == PromptBlocks(512, [(7, 9)], [1000])
    assert len(PromptBlocks.of([request], 256).blocks[0]) == 4


def test_blocks_of_two_sizes_need_a_choice():
    requests = [
        Request(id=str(size), arrival_s=0.0, prompt=4, output=1, max_tokens=1, blocks=(1,), block_tokens=size)
        for size in (4, 8)
    ]
    with pytest.raises(InputError, match="blocks of 4, 8 tokens; choose one size with --block-size"):
        PromptBlocks.of(requests)


def test_wrong_input_is_told():
    some = prompts((0,))
    with pytest.raises(InputError, match="did you mean 'lru'"):
        replay_hits(some, 4, "lur")
    with pytest.raises(InputError, match="block size 0: must be at least 1"):
        PromptBlocks.of([tokens_request("a", [1])], 0)
    with pytest.raises(InputError, match="cache blocks 0: must be at least 1"):
        replay_hits(some, 0, "lru")
