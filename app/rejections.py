"""Requests that were rejected, in a line: how many, the one that needs most, and what lets it in."""

import re
from collections.abc import Iterable
from typing import Any

from sim import InputError, Run

REMEDIES = {  # by what the reason says (`sim.limits`)
    "the maximum length is": "raise --max-len",
    "the pool can give": "raise --pool-tokens",
    "the budget is": "raise --max-batch-tokens, or give --chunked-prefill",
    "a step runs": "raise --max-seqs",
}


def rejections(run: dict[str, Any]) -> list[str]:
    """One line for each remedy that a run of the report asks for; none where all requests were let in."""
    rejected, arrived = run["requests"]["rejected"], run["requests"]["arrived"]
    if not rejected:
        return []
    refused = [entry for entry in run["per_request"] or () if entry["status"] == "rejected"]
    head = f"{run['allocator']}: {{}} of {arrived} requests rejected"
    if not refused:  # a stream keeps no request
        return [head.format(rejected)]
    lines: list[str] = []
    for remedy in dict.fromkeys(remedy_of(entry["reason"]) for entry in refused):
        same = [entry for entry in refused if remedy_of(entry["reason"]) == remedy]
        largest = max(same, key=lambda entry: need(entry["reason"]))
        lines.append(f"{head.format(len(same))}: {largest['id']} {largest['reason']}; {remedy}")
    return lines


def refuse_empty(run: Run) -> None:
    """Raises InputError, with a reason, for a run in which nothing ran."""
    if not run.num_steps:
        reasons = run.outcomes.reject_reasons
        named = [(run.outcomes.requests[place].id, reason) for place, reason in reasons.items()]
        why = first_rejection(named) if named else "there is none"
        raise InputError(f"{run.config.allocator}: no request could run: {why}")


def first_rejection(reasons: Iterable[tuple[str, str]]) -> str:
    """Of (id, reason) of some requests, the first, with the remedy."""
    name, reason = next(iter(reasons))
    return f"{name} {reason}; {remedy_of(reason)}"


def remedy_of(reason: str) -> str:
    """What to do about it."""
    return next(remedy for said, remedy in REMEDIES.items() if said in reason)


def need(reason: str) -> int:
    """The first number of a reason: what the request needs."""
    found = re.search(r"\d+", reason)
    return int(found[0]) if found else 0
