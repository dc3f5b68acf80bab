"""A class's results in one table and one chart: simulated against measured waste, for each student.

A result is the `report.json` that `pagelab compare --out DIR` writes, or what `--json` prints. Who made it is
told by the file's name, or its folder's where the file is called report.json.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim import InputError
from sim.json_file import read_object

MOST_BYTES = 512 * 2**20  # a report of a million requests takes 300 MB
HEADER = "student,allocator,simulated_waste_percent,measured_waste_percent,steps,identical"


@dataclass(frozen=True, slots=True)
class Result:
    """One allocator of one student."""

    student: str
    allocator: str
    simulated: float  # waste, %
    measured: float
    steps: int
    is_identical: bool  # block tables at every step

    @property
    def row(self) -> str:
        """As a line of CSV."""
        numbers = f"{self.simulated:.2f},{self.measured:.2f},{self.steps},{str(self.is_identical).lower()}"
        return f"{self.student},{self.allocator},{numbers}"


def collect(folder: Path) -> tuple[list[Result], list[str]]:
    """All results below `folder`, and a line for each file that is none. InputError if there are none."""
    if not os.path.isdir(folder):
        raise InputError(f"{folder}: is not a folder; give the one that holds the students' results")
    results: list[Result] = []
    skipped: list[str] = []
    for path in sorted(folder.rglob("*.json")):
        try:
            results += read_result(path)
        except InputError as error:
            skipped.append(str(error))
    if not results:
        reasons = "; ".join(skipped[:3]) or "it holds no .json file"
        raise InputError(f"{folder}: no result of `pagelab compare` in it: {reasons}")
    return results, skipped


def read_result(path: Path) -> Iterator[Result]:
    """The allocators of one file. Raises InputError when it is not a comparison."""
    try:
        document = read_object(path, MOST_BYTES)
        student = path.parent.name if path.stem == "report" else path.stem
        waste = {(run["allocator"], run["source"]): float(run["waste_percent"]) for run in document["runs"]}
        agreed = {entry["allocator"]: entry for entry in document["agreement"]}
        found = [
            Result(
                student.replace(",", " "),
                name,
                waste[name, "simulated"],
                waste[name, "measured"],
                entry["steps_compared"],
                bool(entry["block_tables_identical"]),
            )
            for name, entry in agreed.items()
        ]
    except InputError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: is not what `pagelab compare --json` writes ({_short(error)})") from error
    return iter(found)


def _short(error: Exception) -> str:
    text: Any = error.args[0] if error.args else type(error).__name__
    return f"no {text}" if isinstance(error, KeyError) else " ".join(str(text).split())[:80]
