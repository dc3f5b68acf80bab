"""What preemption costs, in tokens and over the host link."""

import pytest

from sim import Config, InputError, simulate
from sim.events import Kind
from sim.hardware import HARDWARE
from sim.models import parse_rate
from tests.making import requests
from tests.sim.test_prefix_cache import request


def run_of(trace, **dials):
    return simulate(trace, Config(**{"timing": "unit", "block_size": 4} | dials), check=True)


def test_tokens_computed_again_are_those_that_were_stored_when_memory_was_taken_away():
    # both grow to 6 blocks in a pool of 8: at 16 tokens each, the older one needs a ninth
    run = run_of(requests((8, 14), (8, 14)), pool_blocks=8)
    (preempt,) = [event for event in run.events if event.kind is Kind.PREEMPT]
    recompute = run.report()["recompute"]
    assert preempt.changes["stored"] == 16
    assert recompute == {
        "computed_tokens": 2 * 21 + 16,
        "lost_tokens": 16,
        "tokens_computed_again": 16,
        "thrash_rate": 16 / 58,
    }
    assert run.report()["lost_tokens"] == 16


def test_tokens_computed_again_chunk_by_chunk_are_as_many():
    run = run_of(requests((8, 14), (8, 14)), pool_blocks=8, chunked_prefill=True, max_batch_tokens=6)
    (preempt,) = [event for event in run.events if event.kind is Kind.PREEMPT]
    chunks = [event for event in run.events if event.kind is Kind.PREFILL and event.step > preempt.step]
    assert len(chunks) > 1
    assert run.report()["recompute"]["tokens_computed_again"] == preempt.changes["stored"]


def test_without_preemption_nothing_is_computed_again():
    recompute = run_of(requests((8, 14), (8, 14)), pool_blocks=40).report()["recompute"]
    assert recompute["computed_tokens"] == 42
    assert recompute["thrash_rate"] == 0.0


def test_what_is_found_in_the_prefix_cache_on_return_is_not_computed_again():
    from sim import Trace

    trace = Trace("made", (request("old", range(100, 104), 20), request("b", range(13), 12)))
    again = {
        cache: run_of(trace, pool_blocks=9, prefix_cache=cache).report()["recompute"]["tokens_computed_again"]
        for cache in ("off", "hash")
    }
    assert 0 < again["hash"] < again["off"]


def test_swapping_computes_nothing_again():
    report = run_of(requests((8, 14), (8, 14)), pool_blocks=8, preempt="swap").report()
    assert report["preemptions"] == 1
    assert report["recompute"]["tokens_computed_again"] == report["lost_tokens"] == 0


def test_swapped_bytes_cross_the_link_at_its_bandwidth():
    rows, dials = requests((8, 14), (8, 14)), {"pool_blocks": 8, "preempt": "swap", "timing": "roofline"}
    usual = HARDWARE["a100-40gb"].link_bytes_per_s
    fast, slow = (run_of(rows, **dials, link=link) for link in (None, "1GB/s"))
    num_blocks = sum(fast.report()[key] for key in ("swapped_out_blocks", "swapped_in_blocks"))
    assert num_blocks == 4 + 4
    num_bytes = num_blocks * 4 * fast.config.spec.kv_bytes_per_token()
    assert slow.time_s - fast.time_s == pytest.approx(num_bytes / 10**9 - num_bytes / usual, rel=1e-6)


def test_a_link_is_a_rate():
    assert parse_rate("25GB/s") == 25 * 10**9
    assert parse_rate(" 16 GiB/s ") == 16 * 2**30
    with pytest.raises(InputError, match="rate '25GB': must be a size per second such as 25GB/s"):
        Config(preempt="swap", link="25GB")


@pytest.mark.parametrize(
    ("dials", "names"),
    [
        ({"sinks": 4}, ("--sinks", "--window")),
        ({"keep_recent": 4}, ("--keep-recent", "--keep-heavy")),
        ({"keep_heavy": 4}, ("--keep-recent", "--keep-heavy")),
        ({"accept": 0.5}, ("--accept", "--speculate")),
        ({"eviction": "lru"}, ("--eviction", "--prefix-cache")),
        ({"link": "1GB/s"}, ("--link", "--preempt swap")),
        ({"link": "1GB/s", "preempt": "swap", "timing": "unit"}, ("--link", "--timing unit")),
        ({"window": 9, "keep_recent": 4, "keep_heavy": 4}, ("--window", "--keep-recent")),
        ({"prefix_cache": "hash", "keep_recent": 4, "keep_heavy": 4}, ("--keep-recent", "--prefix-cache")),
        ({"prefix_cache": "radix", "window": 9}, ("--window", "--prefix-cache radix")),
        ({"allocator": "max", "window": 9}, ("--window", "--allocator max")),
        ({"allocator": "oracle", "keep_recent": 4, "keep_heavy": 4}, ("--keep-recent", "--allocator oracle")),
        ({"allocator": "pow2", "speculate": 4}, ("--speculate", "--allocator pow2")),
        ({"allocator": "max", "prefix_cache": "hash"}, ("--prefix-cache", "--allocator max")),
    ],
)
def test_dials_that_do_not_go_together_are_refused_by_both_names(dials, names):
    with pytest.raises(InputError) as caught:
        Config(**dials)
    assert all(name in str(caught.value) for name in names), caught.value


@pytest.mark.parametrize(
    ("dials", "complaint"),
    [
        ({"window": 0}, "window 0: must be at least 1"),
        ({"window": 4, "sinks": -1}, "sinks -1: must be at least 0"),
        ({"speculate": -1}, "speculate -1: must be at least 0"),
        ({"speculate": 2, "accept": 1.5}, "accept 1.5: a probability"),
        ({"prefix_cache": "hash", "eviction": "lfu"}, "unknown eviction 'lfu'"),
    ],
)
def test_dials_out_of_range_are_refused_with_the_value(dials, complaint):
    with pytest.raises(InputError, match=complaint):
        Config(**dials)
