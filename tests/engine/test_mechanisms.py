"""Each mechanism of the simulator with real tensors: exact to the slot, and no token changes."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
import torch

from engine import EngineFault, measure
from engine.drafts import OracleDrafts
from engine.prompts import prompt_ids
from engine.setup import make_model
from sim import Config, InputError, Trace, simulate
from sim.alloc import ALLOCATORS
from sim.events import Kind
from tests.engine.dense import dense_logits
from tests.engine.running import CROWD, ROOMY, assert_exact, crowd, tiny
from tests.making import request, requests
from tests.sim.fuzzing import random_drafts, random_paged_dials, random_trace, random_window
from tests.sim.test_whole_system import random_config

TIGHT: dict[str, Any] = {"pool_tokens": 144, "block_size": 8}
SHARED = Trace(
    "shared",
    tuple(
        request(f"r{i}", 20 + 3 * i, 6 + i, arrival_s=2 * i, prefix="system", prefix_tokens=17)
        for i in range(7)
    ),
)
MOVERS: list[dict[str, Any]] = [
    {"allocator": "grow", "pool_tokens": 200, "placement": "first-fit", "growth": "5"},
    {"allocator": "grow", "pool_tokens": 200, "compaction": "on-shortage"},
    {"allocator": "oracle", "pool_tokens": 200, "compaction": "on-shortage", "placement": "best-fit"},
    {"allocator": "oracle", "pool_tokens": 194, "compaction": "on-shortage"},
    {"allocator": "slab", "pool_tokens": 256},
]


@pytest.mark.parametrize("dials", MOVERS, ids=lambda dials: "-".join(map(str, dials.values())))
def test_ranges_move_and_no_token_notices(dials: dict[str, Any]) -> None:
    _, measured = assert_exact(CROWD, tiny(**dials))
    assert measured.traffic.moved_tokens > 0
    assert measured.tokens == crowd(**ROOMY).tokens


@pytest.mark.parametrize(
    "dials",
    [
        {"allocator": "virtual", "pool_tokens": 180, "page_size": "512B"},
        {"allocator": "mixed", **TIGHT, "large_block_size": 24},
    ],
    ids=lambda dials: str(dials["allocator"]),
)
def test_pages_and_large_blocks_hold_what_blocks_hold(dials: dict[str, Any]) -> None:
    _, measured = assert_exact(CROWD, tiny(**dials))
    assert measured.num_preemptions > 0
    assert measured.tokens == crowd(**ROOMY).tokens


@pytest.mark.parametrize("cache", ["hash", "radix"])
@pytest.mark.parametrize("pool_tokens", [512, 80])
def test_a_prefix_hit_gives_the_tokens_of_computing_it_again(cache: str, pool_tokens: int) -> None:
    config = tiny(pool_tokens=pool_tokens, block_size=4, prefix_cache=cache)
    simulated, measured = assert_exact(SHARED, config)
    assert simulated.report()["prefix"]["hit_tokens"] >= 4 * 16
    assert max(observation.ledger.cached for observation in measured.observations) > 0
    assert any(event.kind is Kind.EVICT for event in measured.events) == (pool_tokens == 80)
    plain = measure(SHARED, tiny(pool_tokens=512), backend="cpu", device="cpu", clock="modelled")
    assert measured.tokens == plain.tokens


def test_what_the_cache_keeps_is_still_in_memory_when_its_owner_has_left() -> None:
    trace = requests((12, 3), (5, 2, 20.0))
    trace = Trace("two", tuple(replace(one, tokens=(7,) * one.prompt) for one in trace.requests))
    _, measured = assert_exact(trace, tiny(pool_tokens=64, block_size=4, prefix_cache="hash"))
    last = measured.observations[-1]
    assert last.ledger.cached == 8  # r0's prompt filled three blocks, r1 uses the first of them
    assert last.faults.are_none


@pytest.mark.parametrize(("window", "sinks", "block_size"), [(9, 3, 4), (1, 0, 4), (16, 0, 7)])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_window_reads_what_a_masked_forward_pass_reads(
    window: int, sinks: int, block_size: int, chunked: bool
) -> None:
    trace = requests((23, 12), (5, 20))
    dials: dict[str, Any] = {"window": window, "sinks": sinks} if sinks else {"window": window}
    if chunked:
        dials |= {"chunked_prefill": True, "max_batch_tokens": 9}
    _, measured = assert_exact(trace, tiny(pool_tokens=128, block_size=block_size, **dials))
    model = make_model(tiny(), torch.device("cpu"))
    for one in trace.requests:
        ids = prompt_ids(one, model.seed, model.spec.vocab).tolist() + measured.tokens[one.id]
        chosen = dense_logits(model, ids, window, sinks).argmax(dim=-1).tolist()
        assert chosen[one.prompt - 1 : -1] == measured.tokens[one.id]


def test_blocks_that_left_the_window_are_empty_and_their_places_are_holes() -> None:
    _, measured = assert_exact(requests((30, 10)), tiny(pool_tokens=64, block_size=4, window=8, sinks=2))
    table = measured.observations[-1].block_tables["r0"]
    assert isinstance(table, list)
    assert table[0] != -1 and table[1:7] == [-1] * 6 and -1 not in table[8:]
    assert measured.observations[-1].written().sum() == 4 * (len(table) - table.count(-1)) - 1


@pytest.mark.parametrize("accept", [0.0, 0.6, 1.0])
def test_drafts_change_the_number_of_steps_and_not_a_token(accept: float) -> None:
    dials: dict[str, Any] = {**TIGHT, "speculate": 3, "accept": accept}
    simulated, measured = assert_exact(CROWD, tiny(**dials))
    assert measured.tokens == crowd(**ROOMY).tokens
    assert (measured.work.draft_acceptance or 0) == simulated.work.draft_acceptance
    assert any(event.kind is Kind.ROLLBACK for event in measured.events)  # none right, or beyond the end


def test_a_draft_that_the_model_does_not_say_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The schedule accepts all of them; whether the model does is found out, not assumed."""
    monkeypatch.setattr(OracleDrafts, "draft", lambda self, chunk: [0] * chunk.num_drafts)
    with pytest.raises(EngineFault, match="the model confirms 0 of its drafts, the schedule accepts 2"):
        measure(requests((9, 8)), tiny(**TIGHT, speculate=2, accept=1.0), device="cpu", clock="modelled")


def random_server(random: Random, kind: str) -> tuple[Trace, Config]:
    """Everything mixed: groups, prefixes, windows, drafts, swaps, chunks, and every allocator."""
    if kind not in ("paged", "paged with drafts"):
        kv_dtype = random.choice(("fp32", "int8", "fp8"))
        config = replace(random_config(random, kind), kv_dtype=kv_dtype, timing="unit")
        return random_trace(random), config
    dials = random_paged_dials(random, model="tiny", kv_dtype="fp32")
    if random.random() < 0.4:
        dials |= random_window(random)
    if kind == "paged":
        return random_trace(random), tiny(**dials)
    return random_trace(random, widths=(1,)), tiny(**{**dials, **random_drafts(random)})


@pytest.mark.parametrize("kind", [*ALLOCATORS, "paged with drafts"])
def test_random_servers_agree_with_their_simulation_to_the_slot(kind: str) -> None:
    random = Random(kind)
    num_compared = 0
    while num_compared < 3:
        try:
            trace, config = random_server(random, kind)
            simulate(trace, config)
        except InputError:  # dials that exclude each other
            continue
        assert_exact(trace, config)
        num_compared += 1
