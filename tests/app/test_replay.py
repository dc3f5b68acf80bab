"""`pagelab replay`: logs and folders that other commands wrote, read back and shown."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from app.cli import cli, run
from app.event_file import read_recording
from app.payload import replay_payload
from app.recorded import Recording, recording_of
from app.recording import write_events
from sim import Config, InputError, Trace, simulate
from sim.scopes import applies
from tests.making import random_dials, random_trace, requests

DEMO = ("demo", "--first", "20", "--pool-tokens", "2048", "--max-len", "512", "--quiet")


def told(*arguments: object) -> str:
    result = CliRunner().invoke(cli, [str(one) for one in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def replay_in(page: Path) -> dict[str, Any]:
    """The replay that a page holds."""
    found = re.search(r"^const replay = (.*);$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    return json.loads(found[1])


def read_back(recording: Recording, folder: Path, name: str = "events.jsonl") -> Recording:
    """The recording's log, written and read."""
    path = folder / name
    with path.open("wb") as out:
        write_events(recording, out)
    return read_recording(path, most_events=10**6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `--out` leaves of two runs."""
    folder = tmp_path_factory.mktemp("out")
    told("simulate", *DEMO, "--allocator", "max", "--allocator", "paged", "--out", folder)
    return folder


def test_a_folder_is_replayed_as_the_run_itself(folder: Path, tmp_path: Path) -> None:
    output = told("replay", folder, "--html", tmp_path / "page.html")
    trace = Trace.read("demo").first(20)
    runs = [
        simulate(trace, Config(allocator=name, pool_tokens=2048, max_len=512)) for name in ("max", "paged")
    ]
    replayed, expected = replay_in(tmp_path / "page.html"), json.loads(json.dumps(replay_payload(runs)))
    assert replayed == expected
    assert expected["verdict"] in output


def test_a_side_of_a_folder_is_chosen_by_name(folder: Path, tmp_path: Path) -> None:
    told("replay", folder, "--side", "paged", "--html", tmp_path / "page.html")
    assert [side["name"] for side in replay_in(tmp_path / "page.html")["sides"]] == ["paged"]
    told("replay", folder, "--side", "paged", "--side", "max", "--html", tmp_path / "page.html")
    assert [side["name"] for side in replay_in(tmp_path / "page.html")["sides"]] == [
        "paged",
        "contiguous (max)",
    ]


def test_logs_alone_say_the_same_but_for_their_dials(folder: Path, tmp_path: Path) -> None:
    told(
        "replay", folder / "events.max.jsonl", folder / "events.paged.jsonl", "--html", tmp_path / "page.html"
    )
    told("replay", folder, "--html", tmp_path / "all.html")
    alone, whole = (replay_in(tmp_path / name) for name in ("page.html", "all.html"))
    for one, other in zip(alone["sides"], whole["sides"], strict=True):
        assert (one["source"], one["clock"]) == ("recorded", "as recorded")
        left_out = {"about": "", "source": "", "clock": "", "times": ""}
        assert {**one, **left_out} == {**other, **left_out}


def test_measured_and_simulated_runs_keep_their_badges(folder: Path, tmp_path: Path) -> None:
    """The folder that `compare --out` leaves: two logs of one allocator, told apart by their names."""
    document = json.loads((folder / "report.json").read_text())
    paged = next(one for one in document["runs"] if one["allocator"] == "paged")
    document["runs"] = [paged, {**paged, "source": "measured", "clock": "measured"}]
    (tmp_path / "report.json").write_text(json.dumps(document))
    for source in ("simulated", "measured"):
        shutil.copy(folder / "events.paged.jsonl", tmp_path / f"events.paged-{source}.jsonl")
    told("replay", tmp_path, "--html", tmp_path / "page.html")
    replay = replay_in(tmp_path / "page.html")
    assert [(one["source"], one["clock"]) for one in replay["sides"]] == [
        ("simulated", "modelled"),
        ("measured", "measured"),
    ]
    assert replay["verdict"].startswith("Paged, simulated wastes")


@pytest.mark.parametrize("seed", range(30))
def test_a_log_is_enough_to_show_any_run(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    dials, trace = random_dials(random), random_trace(random, 10)
    name = dials.pop("allocator")
    try:
        one = simulate(trace, Config(allocator=name, **{k: v for k, v in dials.items() if applies(k, name)}))
    except InputError:
        pytest.skip("these dials do not go together")
    if not one.num_steps:
        pytest.skip("no request could run")
    recording = recording_of(one)
    again = read_back(recording, tmp_path, f"events.{name}.jsonl")
    assert again.cell_slots == recording.cell_slots
    shown, expected = (
        json.loads(json.dumps(replay_payload([side])))["sides"][0] for side in (again, recording)
    )
    for key in ("deltas", "keyframes", "columns", "said", "marks", "summary"):
        assert shown[key] == expected[key], key


def test_the_numbers_of_a_recording_are_those_of_the_report() -> None:
    one = simulate(Trace.read("shared-prefix"), Config(pool_tokens=4096, max_len=512, prefix_cache="hash"))
    recording, report = recording_of(one), one.report()
    for name, slots in report["ledger"].items():
        assert recording.mean(name) == pytest.approx(slots, rel=1e-9, abs=1e-9)
    assert recording.batch_mean == pytest.approx(report["batch"]["mean"])
    assert recording.time_s == report["time_s"]


Change = Callable[[list[dict[str, Any]]], object]


def at(kind: str, change: Callable[[dict[str, Any]], object]) -> Change:
    """A change to the first event of a kind."""
    return lambda rows: change(next(row for row in rows if row["kind"] == kind))


BROKEN: dict[str, tuple[Change, str]] = {
    "a ledger that does not add up": (
        at("step", lambda row: row["ledger"].update(live=row["ledger"]["live"] + 1)),
        "line 9: the ledger counts",
    ),
    "less than nothing": (at("step", lambda row: row.update(waiting=-1)), "line 9: a step cannot count less"),
    "tables that hold other blocks": (
        lambda rows: [row["blocks"].append(77) for row in rows if row["kind"] == "alloc"][1:],
        r"line \d+: the tables list \d+ slots in blocks of \d+, the ledger holds",
    ),
    "an admission left out": (
        lambda rows: rows.pop(next(at for at, row in enumerate(rows) if row["kind"] == "admit")),
        r"line \d+: \w+ of r0 does not follow",
    ),
    "somebody who never came": (at("prefill", lambda row: row.update(request="z")), "line 7: z has not"),
    "somebody who comes twice": (lambda rows: rows.insert(1, rows[0]), "line 2: r0 has arrived already"),
    "an unknown kind": (at("admit", lambda row: row.update(kind="adopt")), "line 4: kind 'adopt': known are"),
    "time that runs back": (at("step", lambda row: row.update(time=-1)), "line 9: step must be an integer"),
    "events out of order": (lambda rows: rows.append(rows[7]), r"line \d+: 1.0 s, step 1 comes after"),
    "a field that is missing": (at("alloc", lambda row: row.pop("blocks")), "line 3: alloc of r0 does not"),
    "a field of the wrong type": (at("arrive", lambda row: row.update(prompt="9")), "prompt of arrive: '9'"),
    "a prompt of nothing": (at("arrive", lambda row: row.update(prompt=0)), "line 1: prompt and max"),
    "a head that is missing": (at("alloc", lambda row: row.pop("why")), "line 3: no event: why missing"),
    "dropped tokens": (
        at("alloc", lambda row: row.update(blocks=[-1])), "line 3: tokens are dropped, and a log does not",
    ),
    "no step at all": (lambda rows: rows.__delitem__(slice(3, None)), "no step in it"),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_a_log_that_cannot_be_is_refused_in_one_line(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, message = BROKEN[what]
    one = simulate(requests((9, 5), (4, 6)), Config(block_size=4, pool_blocks=12, timing="unit", max_len=32))
    rows = [event.as_json() for event in one.events]
    change(rows)
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(["replay", str(path), "--html", str(tmp_path / "page.html")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(message, error), error
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no step in it"),
        (b"\x00\xff\xfe", "line 1: is no JSON"),
        (b"[1]\n", "line 1: no event"),
        (b'{"kind": "arri', "line 1: is no JSON"),
        (b"id,arrival\n1,2\n", "line 1: is no JSON"),
    ],
)
def test_a_file_that_is_no_log_is_refused_in_one_line(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.jsonl"
    path.write_bytes(content)
    assert run(["replay", str(path), "--html", str(tmp_path / "page.html")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error


def test_paths_without_a_run_are_refused_with_the_remedy(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, page = str(folder / "events.max.jsonl"), ["--html", str(tmp_path / "page.html")]
    refused = {
        (str(tmp_path),): "no event log in it; `pagelab simulate TRACE --out",
        (str(tmp_path / "nowhere"),): "No such file",
        (log, log, log): "a replay shows one, or two side by side",
        (log, str(folder)): "a folder stands alone",
        (log, "--side", "max"): "--side chooses among the runs of a folder",
        (str(folder), "--side", "slab"): "--side slab: ",
    }
    for arguments, message in refused.items():
        assert run(["replay", *arguments, *page]) == 2
        assert message in capsys.readouterr().err


def test_runs_of_different_requests_do_not_stand_side_by_side(tmp_path: Path) -> None:
    dials = {"block_size": 4, "pool_blocks": 12, "timing": "unit", "max_len": 32}
    logs: list[Recording] = []
    for name, rows in (("one", [(9, 5)]), ("other", [(9, 6)])):
        logs.append(
            read_back(recording_of(simulate(requests(*rows), Config(**dials))), tmp_path, f"{name}.jsonl")
        )
    with pytest.raises(InputError, match="must serve the same requests"):
        replay_payload(logs)
