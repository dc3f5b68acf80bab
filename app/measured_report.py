"""A comparison as plain values: the sentence, both ledgers, what is left between them, a replay, files."""

from dataclasses import astuple
from typing import Any

from app.comparison import Comparison
from app.engine_job import Told
from app.exports import all_files
from app.html_report import versions
from app.payload import replay_payload
from app.residuals import residuals
from engine import MeasuredRun
from sim import InputError, Run

FACTS = {
    "device": "device",
    "device_name": "processor",
    "threads": "threads",
    "backend": "attention",
    "model": "model",
    "weights": "weights",
    "weights_dtype": "type of weights",
    "kv_dtype": "type of keys and values",
    "cuda_graphs": "CUDA graphs",
}


def tell(comparison: Comparison) -> Told:
    """All that a page shows of it."""
    replay, note = None, ""
    try:
        replay = replay_payload(comparison.runs, seed=comparison.simulated.config.seed)
        replay["start"] = replay["start"] or fullest_moment(replay)  # two sides that agree differ nowhere
    except InputError as error:
        note = str(error)
    return Told(
        sentence=sentence(comparison),
        sides=[side(run) for run in comparison.runs],
        residuals=[astuple(row) for row in residuals(comparison)],
        machine=machine(comparison.measured) if comparison.measured else [],
        replay=replay,
        note=note,
        files=all_files(comparison.runs),
    )


def fullest_moment(replay: dict[str, Any]) -> int:
    """The first moment at which the first side's memory holds most."""
    live = replay["sides"][0]["columns"]["live"]
    return replay["clock"]["frames"][0].index(live.index(max(live)))


def side(run: Run) -> dict[str, Any]:
    """What a bar shows."""
    ledger, waste = run.ledger, run.report()["waste_percent"]
    return {"name": run.config.allocator, "source": run.source, "ledger": ledger, "waste_percent": waste}


def sentence(comparison: Comparison) -> str:
    """What came of it, with the numbers."""
    verdict, config = comparison.verdict, comparison.simulated.config
    steps, first = verdict["steps_compared"], verdict["first_difference"]
    if comparison.measured is None:
        return f"The engine stopped: {first['what']}"
    ours, theirs = (run.report()["waste_percent"] for run in comparison.runs)
    found = (
        f"{steps:,} steps compared, and every block table and every slot agrees"
        if first is None
        else f"they first differ in step {first['step']}: {first['what']}"
    )
    name = config.allocator.capitalize()
    return f"{name} wastes {ours:.2f} % simulated and {theirs:.2f} % measured: {found}."


def machine(measured: MeasuredRun) -> list[tuple[str, str]]:
    """Device, then versions."""
    facts = measured.meta["engine"]
    known = {name: str(facts[key]) for key, name in FACTS.items() if facts[key] is not None}
    return [*known.items(), *versions().items()]
