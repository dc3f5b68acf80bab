"""Leaping gives what stepping gives: the same report and the same series, number for number."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from sim import Config, Run, Trace, simulate
from sim.alloc import PLACEMENTS, RESERVATIONS
from sim.leap import can_leap
from sim.series import COLUMNS
from tests.making import requests

NUM_SEEDS = 2500
ALL_COLUMNS = (*COLUMNS, "batch", "tokens", "duration_ps", "duration")


def random_case(random: Random, costs: str) -> tuple[Trace, Config]:
    """A trace and a pool so small that they hardly go together."""
    crowded = random.random() < 0.6
    longest = random.choice((4, 8, 8, 16))
    block_size = random.choice((1, 1, 2, 3, 4) if crowded else (1, 2, 4, 8, 16))
    pool_tokens = max(
        block_size, int(longest * random.choice((1.6, 1.9, 2.2, 3.0) if crowded else (0.9, 2.0, 5.0)))
    )
    span_s = random.choice((0, 1, 3) if crowded else (0, 3, 12, 100))
    rows: list[tuple[float, ...]] = []
    for arrival in sorted(random.randint(0, span_s) for _ in range(random.randint(1, 9))):
        prompt = random.randint(1, longest // 2 if crowded else longest)
        output = random.randint(1, longest)
        rows.append((prompt, output, arrival, output + random.choice((0, 0, 0, 2))))
    dials: dict[str, Any] = {
        "allocator": random.choice(("paged", "paged", "paged", "paged", *RESERVATIONS)),
        "block_size": block_size,
        "pool_tokens": pool_tokens,
        "max_len": 2 * longest + 2 if crowded else random.choice((longest + 3, 2 * longest)),
        "max_seqs": random.choice((3, 100, 100) if crowded else (1, 2, 4, 100)),
        "batching": random.choice(("continuous", "continuous", "continuous", "static", "sequential")),
        "step_rule": random.choice(("mixed", "mixed", "prefill-first")),
        "watermark": random.choice((0.0, 0.0, 0.0, 0.1, 0.4)),
        "timing": random.choice(("unit", "unit", "roofline", costs)),
        "max_batch_tokens": random.choice((None, None, 2 * longest + 5, longest)),
    }
    if dials["allocator"] != "paged":
        dials["placement"] = random.choice(list(PLACEMENTS))
    elif random.random() < 0.35:
        dials["preempt"] = "swap"
        dials["swap_blocks"] = random.choice((None, None, 0, 1, 3))
    if dials["step_rule"] == "mixed" and random.random() < (0.1 if "preempt" in dials else 0.5):
        dials["chunked_prefill"] = True
        dials["max_batch_tokens"] = random.choice((1, 2, 4, 7, longest, 2 * longest))
    return requests(*rows), Config(**dials)


@pytest.fixture(scope="session")
def costs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A timing file whose steps take a few seconds, and never twice the same."""
    path = tmp_path_factory.mktemp("timing") / "costs.json"
    path.write_text(
        '{"seconds": {"step": 0.7, "token": 0.013, "context_token": 0.0031, "attention_pair": 0.0007, '
        '"swapped_block": 0.11}}'
    )
    return str(path)


def both_ways(trace: Trace, config: Config) -> tuple[Run, Run]:
    """Stepped, leapt."""
    stepped = simulate(trace, config, record=False, step_by_step=True)
    leapt = simulate(trace, config, record=False)
    return stepped, leapt


def assert_equal(stepped: Run, leapt: Run) -> None:
    for name in ALL_COLUMNS:
        assert leapt.series.column(name).tolist() == stepped.series.column(name).tolist(), name
    assert leapt.report() == stepped.report()


@pytest.mark.parametrize("part", range(10))
def test_random_small_servers_give_the_same_report_and_series(part, costs):
    seen: Counter[str] = Counter()
    for seed in range(part, NUM_SEEDS, 10):
        trace, config = random_case(Random(seed), costs)
        if not can_leap(trace, config):
            seen["stepped"] += 1
            continue
        stepped, leapt = both_ways(trace, config)
        try:
            assert_equal(stepped, leapt)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {config}, {trace.requests}") from error
        seen["leapt"] += 1
        seen["preempted"] += leapt.num_preemptions > 0
        seen["swapped"] += leapt.traffic.swapped_blocks > 0
        seen["rejected"] += bool(leapt.outcomes.reject_reasons)
        seen["stranded"] += bool(leapt.series.column("external").any())
        seen["waited"] += bool(leapt.series.column("waiting").any())
        seen["idled"] += leapt.idle_s > 0
    print(seen)
