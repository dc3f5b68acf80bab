"""`measure`: its clocks, its facts, its refusals."""

from typing import Any

import pytest

from engine import measure
from engine.prompts import prompt_ids
from sim import Config, InputError, Request, simulate
from sim.events import Kind
from tests.engine.running import CROWD, PRESSED, crowd, tiny
from tests.making import requests

SHORT = requests((12, 5), (3, 4), (20, 2, 1000.0))


def test_on_the_measured_clock_time_is_the_sum_of_what_the_clock_said() -> None:
    run = measure(SHORT, tiny(pool_tokens=256), backend="cpu", device="cpu")
    assert (run.source, run.clock) == ("measured", "measured")
    assert run.time_s - run.idle_s == pytest.approx(sum(run.measured_seconds))
    assert run.series.column("duration") == pytest.approx(run.measured_seconds, abs=1e-6)
    assert all(0 < seconds < 1 for seconds in run.measured_seconds)
    assert 990 < run.idle_s < 1000  # nobody waited for the last arrival


def test_on_the_modelled_clock_the_schedule_is_the_simulators_and_measured_seconds_stand_beside() -> None:
    run, simulated = crowd(**PRESSED), simulate(CROWD, tiny(**PRESSED))
    assert (run.source, run.clock) == ("measured", "modelled")
    assert run.time_s == simulated.time_s
    assert [event.as_json() for event in run.events] == [event.as_json() for event in simulated.events]
    assert len(run.measured_seconds) == run.num_steps
    assert 0 < sum(run.measured_seconds) < run.time_s


def test_step_events_and_callbacks_carry_the_measured_ledger() -> None:
    rows: list[tuple[Any, int]] = []
    config = tiny(pool_tokens=256)
    run = measure(SHORT, config, backend="cpu", device="cpu", on_step=lambda *step: rows.append(step))
    ledgers = [observation.ledger for observation in run.observations]
    assert [row.ledger for row, _ in rows] == ledgers
    logged = [event.changes["ledger"]["live"] for event in run.events if event.kind is Kind.STEP]
    assert logged == [ledger.live for ledger in ledgers]
    assert rows[-1][1] == len(SHORT)


def test_the_facts_give_the_simulator_a_pool_of_the_same_size() -> None:
    facts = crowd(**PRESSED).meta["engine"]
    assert facts["num_blocks"] * facts["block_size"] == facts["num_slots"] == 144
    assert facts["kv_bytes_per_token"] == tiny().spec.kv_bytes_per_token("fp32")
    assert facts["kv_pool_bytes"] == 144 * facts["kv_bytes_per_token"]
    assert facts["weights_bytes"] == 4 * tiny().spec.num_parameters
    assert (facts["device"], facts["kv_dtype"], facts["backend"]) == ("cpu", "fp32", "cpu")
    assert facts["threads"] >= 1
    again = simulate(CROWD, tiny(pool_blocks=facts["num_blocks"], block_size=facts["block_size"]))
    assert again.ledger["pool"] == 144


def test_memory_is_the_resident_set_on_a_cpu() -> None:
    memory = crowd(**PRESSED).meta["memory"]
    assert set(memory) == {"before", "start", "end"}
    assert all(reading["resident_bytes"] > 10 << 20 for reading in memory.values())


def test_the_report_is_that_of_any_run() -> None:
    report = crowd(**PRESSED).report()
    assert report["source"] == "measured"
    assert report["requests"] == {"arrived": 14, "finished": 14, "rejected": 0, "unfinished": 0}
    assert report["ledger"]["live"] > 0


def test_a_rejected_request_emits_nothing_and_the_rest_is_served() -> None:
    run = measure(requests((300, 3), (5, 3)), tiny(pool_tokens=256), backend="cpu", device="cpu")
    assert set(run.tokens) == {"r1"}
    assert run.groups[0].reject_reason


@pytest.mark.parametrize(
    ("dials", "message"),
    [
        ({"model": "opt-13b"}, "opt-13b: the engine runs the Llama architecture.*--model tiny"),
        (
            {"model": "llama-2-70b", "kv_dtype": "fp16"},
            "llama-2-70b on cpu: its weights take .* GiB.*--model tiny",
        ),
        (
            {"keep_recent": 4, "keep_heavy": 2, "speculate": 2},
            "--keep-recent 4 with --speculate 2: drafts are what a plain run said.*or simulate it",
        ),
        ({"tensor_parallel": 2}, "--tensor-parallel 2: this is 1 process; start one for each rank"),
        ({"max_len": 5000}, "maximum length 5000: model tiny has 4096 positions"),
        ({"pool_blocks": 30_000_000}, "the pool .* GiB are available"),
    ],
)
def test_what_cannot_be_executed_is_refused_with_the_reason_and_the_remedy(
    dials: dict[str, Any], message: str
) -> None:
    config = Config(**{"model": "tiny", "kv_dtype": "fp32", **dials})
    with pytest.raises(InputError, match=message) as refusal:
        measure(SHORT, config, device="cpu")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(("option", "value"), [("device", "tpu"), ("clock", "wall"), ("backend", "numpy")])
def test_unknown_names_are_refused(option: str, value: str) -> None:
    options: dict[str, Any] = {"device": "cpu", option: value}
    with pytest.raises(InputError, match=f"{option} '?\"?{value}"):
        measure(SHORT, tiny(pool_tokens=256), **options)


def test_prompts_come_from_the_trace_where_it_has_them() -> None:
    request = Request(id="r", arrival_s=0.0, prompt=3, output=1, max_tokens=1, tokens=(5, 300, 7))
    assert prompt_ids(request, seed=0, vocab=256).tolist() == [5, 300 - 256, 7]


def test_prompts_share_what_the_trace_says_they_share() -> None:
    def ids(id: str, **content: Any) -> list[int]:
        return prompt_ids(
            Request(id=id, arrival_s=0.0, prompt=10, output=1, max_tokens=1, **content), 0, 256
        ).tolist()

    assert ids("a", prefix="system", prefix_tokens=6)[:6] == ids("b", prefix="system", prefix_tokens=8)[:6]
    assert ids("a", prefix="system", prefix_tokens=6)[6:] == ids("a")[6:]
    assert ids("a", blocks=(1, 2, 3), block_tokens=4)[:8] == ids("b", blocks=(1, 2, 9), block_tokens=4)[:8]
    assert ids("a", blocks=(1, 2, 3), block_tokens=4)[8:] != ids("b", blocks=(1, 2, 9), block_tokens=4)[8:]
    assert ids("a") != ids("b")
