"""Finding the recorded runs that a path means: an event log, or a folder that `--out` wrote."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from app.event_file import read_recording
from app.payload import MAX_EVENTS
from app.recorded import UNKNOWN, Recording
from sim import InputError

MOST_SIDES = 2


def read_runs(paths: Sequence[Path], sides: Sequence[str] = ()) -> list[Recording]:
    """One or two recordings to show. Raises InputError where a path holds none, or too many are meant."""
    if len(paths) > MOST_SIDES or len(sides) > MOST_SIDES:
        raise InputError(f"{max(len(paths), len(sides))} runs: a replay shows one, or two side by side")
    if len(paths) == 1 and paths[0].is_dir():
        return _of_folder(paths[0], sides)
    if sides:
        raise InputError("--side chooses among the runs of a folder; event logs are given one by one")
    for path in paths:
        if path.is_dir():
            raise InputError(f"{path}: a folder stands alone; name the event logs in it")
    return [read_recording(path, most_events=MAX_EVENTS) for path in paths]


def _of_folder(folder: Path, sides: Sequence[str]) -> list[Recording]:
    paths = sorted(folder.glob("events*.jsonl"), key=lambda path: ("measured" in path.name, path.name))
    logs = {_name(path): path for path in paths}
    if not logs:
        raise InputError(f"{folder}: no event log in it; `pagelab simulate TRACE --out {folder}` writes one")
    for side in sides:
        if side not in logs:
            raise InputError(f"--side {side}: {folder} has {', '.join(sorted(logs))}")
    document = _report(folder)
    chosen = [logs[side] for side in sides] or list(logs.values())
    recordings = [_described(read_recording(path, most_events=MAX_EVENTS), document) for path in chosen]
    if sides or len(recordings) <= MOST_SIDES:
        return recordings
    alike = [one for one in recordings if one.source == recordings[0].source]
    ranked = sorted(alike, key=lambda one: one.waste_percent, reverse=True)
    return ranked[:: max(1, len(ranked) - 1)]


def _name(path: Path) -> str:
    return path.stem.partition(".")[2] or path.stem


def _report(folder: Path) -> dict[str, Any]:
    """What `report.json` says; nothing where there is none."""
    path = folder / "report.json"
    if not path.exists():
        return {}
    try:
        document = orjson.loads(path.read_bytes())
        runs = [
            {name: run[name] for name in ("allocator", "source", "clock", "config")}
            for run in document["runs"]
        ]
        return {"trace": str(document["trace"]["name"]), "runs": runs}
    except (orjson.JSONDecodeError, OSError, KeyError, TypeError) as error:
        raise InputError(f"{path}: is no report of `--out`: {error!r}") from None


def _described(recording: Recording, document: dict[str, Any]) -> Recording:
    """The recording with what the report says of its run: the trace's name, dials, source and clock."""
    runs = document.get("runs", [])
    for run in runs:
        is_same = run["allocator"] == recording.allocator and recording.source in (UNKNOWN, run["source"])
        if is_same or len(runs) == 1:
            known = {name: run[name] for name in ("allocator", "source", "clock")}
            return replace(recording, trace=document["trace"], settings=run["config"], **known)
    return replace(recording, trace=document.get("trace", recording.trace))
