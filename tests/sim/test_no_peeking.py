"""Nobody but the Oracle and Pow2 knows how long an output will be."""

from random import Random

import pytest

from sim import Config, Trace, simulate
from tests.making import content, request


def two_fates(random: Random):
    """The same requests, as a server sees them, with different true output lengths."""
    seen = []
    for index, arrival in enumerate(sorted(random.randint(0, 8) for _ in range(20))):
        prompt, most = random.randint(1, 14), random.randint(10, 30)
        more = random.choice(({}, {}, {"n": 2}, {"beam": 2})) | content(random, prompt)
        seen.append((f"r{index}", prompt, most, arrival, more))
    return [
        Trace(
            "fate",
            tuple(
                request(name, prompt, random.randint(6, most), arrival, most, **more)
                for name, prompt, most, arrival, more in seen
            ),
        )
        for _ in range(2)
    ]


def until_a_finish(run, first_finish_step):
    """All that was decided: the ledger of a step is left out, since as an observer it knows the future.

    Of the step of the first finish it is all up to its last token, and the queues: a request that has ended
    chooses no beams.
    """
    events = [event for event in run.events if event.step <= first_finish_step]
    last = max(at for at, event in enumerate(events) if event.kind in ("prefill", "decode"))
    decided = [without(event, "ledger") for event in events[: last + 1]]
    return [
        *decided,
        *(without(event, "ledger", "why") for event in events[last + 1 :] if event.kind == "step"),
    ]


def without(event, *names):
    return {key: value for key, value in event.as_json().items() if key not in names}


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize(
    "dials",
    [
        {"pool_blocks": 16, "block_size": 4},
        {"pool_blocks": 16, "block_size": 4, "preempt": "swap", "swap_blocks": 6},
        {"pool_blocks": 16, "block_size": 4, "chunked_prefill": True, "max_batch_tokens": 16},
        {"pool_blocks": 16, "block_size": 4, "step_rule": "prefill-first", "watermark": 0.1},
        {"pool_blocks": 16, "block_size": 4, "prefix_cache": "hash", "victim": "oldest"},
        {"pool_blocks": 16, "block_size": 4, "prefix_cache": "radix", "victim": "fewest-tokens"},
        {"allocator": "max", "pool_tokens": 200, "max_len": 44},
        {"allocator": "max", "pool_tokens": 200, "max_len": 44, "batching": "static", "max_seqs": 3},
    ],
    ids=["paged", "swap", "chunked", "prefill-first", "hash", "radix", "max", "static"],
)
def test_until_somebody_finishes_the_true_lengths_change_nothing(dials, seed):
    runs = [simulate(trace, Config(timing="unit", **dials)) for trace in two_fates(Random(seed))]
    first = min(event.step for run in runs for event in run.events if event.kind == "finish")
    assert until_a_finish(runs[0], first) == until_a_finish(runs[1], first)


def test_the_oracle_does_look_or_the_test_above_would_prove_nothing():
    config = Config(timing="unit", allocator="oracle", pool_tokens=200, max_len=44)
    runs = [simulate(trace, config) for trace in two_fates(Random(0))]
    first = min(event.step for run in runs for event in run.events if event.kind == "finish")
    assert until_a_finish(runs[0], first) != until_a_finish(runs[1], first)
