"""What is left between the two sides of a comparison, by cause: memory, the process, time."""

from dataclasses import dataclass

import numpy as np

from app.comparison import Comparison
from engine import MeasuredRun
from sim import Run
from sim.events import Kind
from sim.ledger import CLASSES

MEANINGS = {
    "live": "keys and values a running sequence will read: written slots, counted in the pool",
    "reserved": "held and empty, to be filled by their owner",
    "internal": "held and never to be filled",
    "rounding": "held only because the placement rounds up",
    "cached": "written, held by nobody, can be found again",
    "external": "free, and enough for the next request, but not as placed",
    "free": "neither held nor written",
}


@dataclass(frozen=True, slots=True)
class Residual:
    """One quantity on both sides. `left` is what differs, in words; `cause` says why it does or does not."""

    quantity: str
    simulated: str
    measured: str
    left: str
    cause: str


def residuals(comparison: Comparison) -> list[Residual]:
    """Memory first, then the process, then time. Empty where the engine stopped."""
    simulated, measured = comparison.simulated, comparison.measured
    if measured is None:
        return []
    return [
        block_tables(comparison),
        *ledger_classes(simulated, measured),
        waste(simulated, measured),
        faults(measured),
        end(simulated, measured),
        pool_bytes(simulated, measured),
        *process_bytes(measured),
        *seconds(simulated, measured),
    ]


def block_tables(comparison: Comparison) -> Residual:
    """The log's tables against those in the table tensor."""
    first = comparison.verdict["first_difference"]
    same = comparison.verdict["block_tables_identical"]
    steps = f"{comparison.verdict['steps_compared']:,} steps"
    cause = "both sides ask one allocator in one order; the engine's are read back from the table tensor"
    if first is not None:
        cause = f"step {first['step']}: {first['what']}"
    return Residual("block tables", steps, steps, "none" if same else "they differ", cause)


def ledger_classes(simulated: Run, measured: MeasuredRun) -> list[Residual]:
    """Each class that occurs: means over busy time, and the largest difference at any step."""
    rows: list[Residual] = []
    for name in CLASSES:
        ours, theirs = simulated.ledger[name], measured.ledger[name]
        if not ours and not theirs:
            continue
        columns = [run.series.column(name) for run in (simulated, measured)]
        steps = min(map(len, columns))
        apart = int(np.abs(columns[0][:steps] - columns[1][:steps]).max(initial=0))
        left = "none at any step" if not apart else f"{apart:,} slots at worst"
        rows.append(Residual(f"{name} slots, mean", f"{ours:,.1f}", f"{theirs:,.1f}", left, MEANINGS[name]))
    return rows


def waste(simulated: Run, measured: MeasuredRun) -> Residual:
    """The number that all of this is for."""
    ours, theirs = (run.report()["waste_percent"] for run in (simulated, measured))
    apart = theirs - ours
    cause = "1 - live / (pool - free), of the means above"
    left = "none" if not apart else f"{apart:+.2f} points"
    return Residual("waste", f"{ours:.2f} %", f"{theirs:.2f} %", left, cause)


def faults(measured: MeasuredRun) -> Residual:
    """Slots that contradict themselves, summed over all steps; a simulator has none by construction."""
    seen = [observation.faults for observation in measured.observations]
    counts = {name: sum(getattr(one, name) for one in seen) for name in ("torn", "stray", "gaps", "shared")}
    told = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "0"
    cause = "written in part, by nobody's table, out of line, or by two owners: looked for at every step"
    return Residual("faulty slots", "0", told, "none" if not any(counts.values()) else told, cause)


def end(simulated: Run, measured: MeasuredRun) -> Residual:
    """Whether every released slot was given back and cleared."""
    lost = [run.config.num_slots - run.free_at_end for run in (simulated, measured)]
    left = "none" if lost[0] == lost[1] else f"{lost[1] - lost[0]:+,} slots"
    cause = "every released slot is filled with the sentinel again"
    return Residual("slots not free at the end", f"{lost[0]:,}", f"{lost[1]:,}", left, cause)


def pool_bytes(simulated: Run, measured: MeasuredRun) -> Residual:
    """Slots times the formula, against the tensors' own size."""
    ours, theirs = simulated.config.pool_bytes, int(measured.meta["engine"]["kv_pool_bytes"])
    left = "none" if ours == theirs else f"{theirs - ours:+,} B"
    cause = "2 x layers x kv heads x head_dim x bytes per element, and no padding between slots"
    return Residual("bytes of the pool", f"{ours:,}", f"{theirs:,}", left, cause)


def process_bytes(measured: MeasuredRun) -> list[Residual]:
    """What the process or the framework grew by when model and pool were made."""
    memory, facts = measured.meta["memory"], measured.meta["engine"]
    name = "resident_bytes" if "resident_bytes" in memory["start"] else "allocated_bytes"
    grown = memory["start"][name] - memory["before"][name]
    known = facts["kv_pool_bytes"] + facts["weights_bytes"]
    where = "process" if name == "resident_bytes" else "framework"
    return [
        Residual(
            f"bytes the {where} grew by",
            f"{known:,}",
            f"{grown:,}",
            f"{grown - known:+,} B",
            "simulated: pool and weights; beyond these: compiled code, work space, and whatever else "
            "this server did meanwhile",
        )
    ]


def seconds(simulated: Run, measured: MeasuredRun) -> list[Residual]:
    """Modelled against measured time, by what the steps ran."""
    clocked = np.array(measured.measured_seconds)
    modelled = simulated.series.column("duration")[: len(clocked)]
    prompts = np.zeros(len(clocked), dtype=bool)
    prompts[[event.step - 1 for event in measured.events if event.kind is Kind.PREFILL]] = True
    rows: list[Residual] = []
    for kind, picked in (("with prompts", prompts), ("of decodes alone", ~prompts)):
        if not picked.any():
            continue
        ours, theirs = float(modelled[picked].sum()), float(clocked[picked].sum())
        steps = int(picked.sum())
        if measured.config.timing == "unit":
            left, cause = "not compared", "unit timing only counts steps: each lasts 1 s by definition"
        else:
            left = f"{theirs / ours:,.1f} x modelled" if ours else "none modelled"
            cause = "the roofline counts bytes and operations, not calls; it is a floor, not a forecast"
        rows.append(
            Residual(f"seconds of {steps:,} steps {kind}", f"{ours:.4g}", f"{theirs:.4g}", left, cause)
        )
    return rows
