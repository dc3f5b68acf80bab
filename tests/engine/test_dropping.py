"""Heavy hitters with real tensors: what the simulator drops is not read, and its memory comes back."""

from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from engine.dropping import NEVER, Dropping
from engine.measure import execute
from engine.pool import PagedPool
from engine.prompts import prompt_ids
from engine.setup import make_model, make_pool
from sim import InputError, Trace, simulate
from sim.events import Kind
from sim.horizon import HeavyHitters
from tests.engine.dense import dense_logits
from tests.engine.running import CROWD, assert_exact, tiny
from tests.engine.test_attend import chunk_of
from tests.making import request, requests
from tests.sim.fuzzing import random_heavy, random_paged_dials, random_trace
from tests.sim.slot_by_slot import reads

CPU = torch.device("cpu")
BUDGET: dict[str, Any] = {"keep_recent": 6, "keep_heavy": 5}
DIALS: list[dict[str, Any]] = [
    {"pool_tokens": 84, "block_size": 2},
    {"pool_tokens": 96, "block_size": 8, "preempt": "swap"},
    {"pool_tokens": 84, "block_size": 3, "chunked_prefill": True, "max_batch_tokens": 11},
    {"pool_tokens": 72, "block_size": 5, "kv_dtype": "int8"},
]


@pytest.mark.parametrize("dials", DIALS, ids=lambda dials: "-".join(map(str, dials.values())))
def test_tables_and_ledger_are_those_of_the_simulated_policy(dials: dict[str, Any]) -> None:
    simulated, measured = assert_exact(CROWD, tiny(**BUDGET, **dials))
    assert any(event.kind is Kind.FREE and "places" in event.changes for event in simulated.events)
    assert measured.num_preemptions == simulated.num_preemptions > 0


def test_random_servers_of_groups_and_budgets_agree_to_the_slot() -> None:
    random, num_compared = Random(11), 0
    while num_compared < 4:
        dials = random_paged_dials(random, model="tiny", kv_dtype="fp32") | random_heavy(random)
        try:
            trace, config = random_trace(random), tiny(**{**dials, "prefix_cache": "off", "eviction": None})
            simulate(trace, config)
        except InputError:  # dials that exclude each other
            continue
        assert_exact(trace, config)
        num_compared += 1


def test_tokens_are_those_of_a_forward_pass_in_which_a_query_sees_the_kept_keys_only() -> None:
    one = request("r", 20, 25)
    config = tiny(pool_tokens=64, block_size=4, **BUDGET)
    _, measured = assert_exact(Trace("one", (one,)), config)
    model = make_model(config, CPU)
    ids = prompt_ids(one, model.seed, model.spec.vocab).tolist() + measured.tokens["r"]
    dropped = torch.ones(len(ids), len(ids), dtype=torch.bool)
    for query in range(len(ids)):
        seen = reads(config, "r", query, is_prefill=query < one.prompt)
        dropped[query, list(seen)] = False
    chosen = dense_logits(model, ids, dropped=dropped).argmax(dim=-1).tolist()
    assert chosen[one.prompt - 1 : -1] == measured.tokens["r"]
    everything = dense_logits(model, ids).argmax(dim=-1).tolist()
    assert everything[one.prompt - 1 : -1] != measured.tokens["r"]  # the budget is felt


def test_what_is_dropped_inside_a_block_that_stays_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its keys and values become NaN as soon as it is dropped, and no token changes."""
    trace, config = requests((20, 25), (9, 30)), tiny(pool_tokens=128, block_size=16, **BUDGET)
    model, plain = make_model(config, CPU), execute(requests((20, 25), (9, 30)), config, *made(config))
    pool, num_poisoned = make_pool(config, CPU), 0
    assert isinstance(pool, PagedPool)
    after = Dropping.after

    def poison(self: Dropping, groups: Any, rows: Any) -> None:
        nonlocal num_poisoned
        after(self, groups, rows)
        for group in groups:
            name, stored = group.request.id, group.sequences[0].stored
            for token in np.flatnonzero(self.tensor[rows[name], :stored].numpy() < stored).tolist():
                block = pool.table.blocks[name][token // 16]
                if block >= 0:
                    pool.storage[block, :, :, token % 16] = torch.nan
                    num_poisoned += 1

    monkeypatch.setattr(Dropping, "after", poison)
    assert execute(trace, config, model, pool, backend="cpu").tokens == plain.tokens
    assert num_poisoned > 100


def made(config: Any) -> tuple[Any, Any]:
    return make_model(config, CPU), make_pool(config, CPU)


def test_the_last_query_to_see_a_token_is_the_one_before_it_is_dropped() -> None:
    horizon = HeavyHitters(4, 3, seed=1)
    dropping, chunk = Dropping(horizon, 1, 60, CPU), chunk_of("a", 40, 1, is_prefill=False)
    dropping.before([chunk], {"a": 0})
    for query in range(41):
        count = horizon.num_dropped(query, is_prefilling=False)
        seen = set(range(query + 1)) - set(horizon.drop_order(chunk.sequence.request, 0, count))
        assert set(np.flatnonzero(dropping.tensor[0, : query + 1].numpy() >= query).tolist()) == seen


def test_a_row_that_is_read_from_the_start_again_or_given_to_another_forgets() -> None:
    dropping = Dropping(HeavyHitters(2, 1, seed=0), max_rows=1, max_len=40, device=CPU)

    def dropped(name: str, start: int, *, is_prefill: bool) -> int:
        dropping.before([chunk_of(name, start, 1, is_prefill=is_prefill)], {name: 0})
        return int((dropping.tensor != NEVER).sum())

    assert dropped("a", 9, is_prefill=False) == 7
    assert dropped("a", 10, is_prefill=False) == 8
    assert dropped("a", 4, is_prefill=True) == 0
    assert dropped("a", 10, is_prefill=False) == 8
    assert dropped("b", 5, is_prefill=False) == 3
