"""vLLM's KV-cache events in our log: counted against vLLM's own table, in every dress, refused when damaged.

`data/vllm_kv_events.msgpack` was published by vLLM 0.32's own cache manager (data/make_kv_events.py).
"""

import json
from pathlib import Path
from random import Random
from typing import Any

import msgpack
import pytest

from app.cli import run as pagelab
from app.event_file import read_recording
from app.kv_events import read_stream, run_of
from app.kv_events.stream import FIELDS
from app.payload import replay_payload
from app.rows import write_events
from sim import InputError
from tests.malformed.judging import count_refused, judge
from tests.malformed.mutations import BINARY, JSON, mutants

DATA = Path(__file__).parent / "data"
STREAM = DATA / "vllm_kv_events.msgpack"


def stored(hashes: list[Any], parent: Any = None, size: int = 4, medium: str | None = "GPU") -> list[Any]:
    return ["BlockStored", hashes, parent, list(range(size * len(hashes))), size, None, medium, None]


def removed(*hashes: Any) -> list[Any]:
    return ["BlockRemoved", list(hashes), "GPU"]


def written(path: Path, *batches: list[list[Any]]) -> Path:
    """One file of msgpack payloads, a tenth of a second apart."""
    path.write_bytes(b"".join(msgpack.packb([100 + n / 10, events, 0]) for n, events in enumerate(batches)))
    return path


def tables(path: Path, step: int) -> dict[str, list[int]]:
    return run_of("stream", read_stream(path))[0].at(step).block_tables


def test_as_many_blocks_can_be_found_after_each_batch_as_vllm_counts_itself():
    run, _ = run_of("stream", read_stream(STREAM))
    counts = json.loads((DATA / "vllm_kv_events.json").read_text())["cached_blocks"]
    assert len(counts) == run.num_steps == 47
    for step, count in enumerate(counts, start=1):
        state = run.at(step)
        assert len(state.ref_counts()) == count
        assert state.ledger["live"] == 16 * count == 16 * run.series.column("blocks")[step - 1]
        for name, table in state.block_tables.items():
            assert state.stored[name] == 16 * len(table)
    assert not run.replay.at_end().block_tables


def test_chains_that_begin_alike_share_blocks():
    run, chains = run_of("stream", read_stream(STREAM))
    assert chains.num_hits == 34
    assert max(max(run.at(step).ref_counts().values(), default=0) for step in range(1, 47)) > 1


def test_the_player_shows_it(tmp_path: Path):
    page, log = tmp_path / "page.html", tmp_path / "log.jsonl"
    assert (
        pagelab(["kv-events", str(STREAM), "--blocks", "24", "--html", str(page), "--events", str(log)]) == 0
    )
    assert "chain 0" in page.read_text()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["kind"] for line in lines].count("step") == 47
    payload = replay_payload([run_of("stream", read_stream(STREAM), 24)[0]])
    assert payload["sides"][0]["pool"] == 24 * 16


@pytest.mark.parametrize("is_read_back", [False, True])
def test_the_headline_says_what_a_stream_tells_and_nothing_of_waste(is_read_back: bool, tmp_path: Path):
    """Story: of blocks that nobody is known to read it said `paged wastes 0.0 %`, and how many ran."""
    run, chains = run_of("stream", read_stream(STREAM), 24)
    write_events(run, tmp_path / "log.jsonl")
    shown = read_recording(tmp_path / "log.jsonl", most_events=9999) if is_read_back else run
    payload = replay_payload([shown])
    held = f"held {len(chains.chains)} chains of blocks, at most {chains.num_blocks} of 24 blocks at a time"
    assert held in payload["verdict"]
    assert "wastes" not in payload["verdict"] and "on average" not in payload["verdict"]
    assert payload["sides"][0]["summary"]["waste_percent"] is None
    assert "waste" not in {question["kind"] for question in payload["quiz"]["questions"]}


def test_one_block_and_one_chain_are_told_as_one(tmp_path: Path):
    run, _ = run_of("stream", read_stream(written(tmp_path / "s", [stored([1])])))
    whys = " ".join(event.why for event in run.events)
    assert "1 block of 4 is full" in whys and "1 block in 1 chain" in whys and "1 blocks" not in whys
    assert "held 1 chain of blocks, at most 1 block at a time" in replay_payload([run])["verdict"]


def test_a_block_behind_the_end_of_a_chain_lengthens_it_and_one_behind_its_middle_forks(tmp_path: Path):
    path = written(tmp_path / "s", [stored([1, 2])], [stored([3], 2)], [stored([9], 1)])
    assert tables(path, 2) == {"chain 0": [0, 1, 2]}
    assert tables(path, 3) == {"chain 0": [0, 1, 2], "chain 1": [0, 3]}


def test_an_evicted_tail_is_freed_and_its_place_taken_again(tmp_path: Path):
    path = written(tmp_path / "s", [stored([1, 2])], [removed(2)], [stored([7])])
    assert tables(path, 2) == {"chain 0": [0]}
    assert tables(path, 3) == {"chain 0": [0], "chain 1": [1]}


def test_a_shared_block_that_is_evicted_leaves_all_its_chains(tmp_path: Path):
    path = written(tmp_path / "s", [stored([1, 2]), stored([3], 1)], [removed(2), removed(3), removed(1)])
    assert tables(path, 1) == {"chain 0": [0, 1], "chain 1": [0, 2]}
    assert tables(path, 2) == {}


def test_what_stood_behind_an_evicted_block_stays_as_a_chain_of_its_own(tmp_path: Path):
    path = written(tmp_path / "s", [stored([1, 2, 3])], [removed(2)])
    assert tables(path, 2) == {"chain 0": [0], "chain 1": [2]}


def test_two_copies_of_one_content_are_two_blocks(tmp_path: Path):
    path = written(tmp_path / "s", [stored([1])], [stored([1])], [removed(1)])
    assert len(tables(path, 2)) == 2
    assert tables(path, 3) == {"chain 1": [1]}


def test_clearing_frees_everything_and_other_media_are_counted_apart(tmp_path: Path):
    path = written(tmp_path / "s", [stored([1, 2]), stored([5], medium="CPU")], [["AllBlocksCleared"]])
    run, chains = run_of("stream", read_stream(path))
    assert chains.num_elsewhere == 1
    assert run.at(2).block_tables == {}
    assert run.free_at_end == run.config.num_slots


def test_json_and_msgpack_arrays_and_maps_say_the_same(tmp_path: Path):
    batches = list(msgpack.Unpacker(STREAM.open("rb")))  # arrays of maps, as vLLM 0.32 sends them

    def as_array(event: dict[str, Any]) -> list[Any]:
        return [event["type"], *(event.get(name) for name in FIELDS[event["type"]])]

    arrays = tmp_path / "arrays.msgpack"
    arrays.write_bytes(
        b"".join(msgpack.packb([ts, list(map(as_array, events)), 0]) for ts, events, _ in batches)
    )
    path = tmp_path / "stream.jsonl"
    lines = [json.dumps({"ts": ts, "events": events}) for ts, events, _ in batches]
    path.write_text("\n".join(lines))
    indented, listed, in_one = (tmp_path / name for name in ("indented.json", "listed.json", "in_one.json"))
    indented.write_text("\n".join(json.dumps(json.loads(line), indent=2) for line in lines))
    listed.write_text(json.dumps([json.loads(line) for line in lines], indent=1))
    in_one.write_text(json.dumps([[ts, list(map(as_array, events)), 0] for ts, events, _ in batches]))
    dresses = (STREAM, arrays, path, indented, listed, in_one)
    one, *others = (run_of("stream", read_stream(where))[0].events for where in dresses)
    assert others == [one] * 5


@pytest.mark.parametrize(
    ("batches", "told"),
    [
        ([[stored([1], size=4)], [stored([2], size=8)]], "blocks of 8 beside blocks of 4"),
        ([[["BlockStored", [1], None, [1, 2], 4]]], "token_ids must be 1 block of 4, are 2"),
        ([[["BlockLost", [1]]]], "known are BlockStored"),
        ([[["BlockRemoved", "abc"]]], "must be a list"),
        ([[removed(1)]], "no block was stored"),
    ],
)
def test_what_cannot_be_is_refused(batches: list, told: str, tmp_path: Path):
    with pytest.raises(InputError, match=told):
        run_of("stream", read_stream(written(tmp_path / "s", *batches)))


@pytest.mark.parametrize("dress", ["msgpack", "json"])
def test_a_damaged_stream_is_refused_with_one_line(dress: str, tmp_path: Path):
    batches = [[100.0, [stored([1, 2])], 0], [100.5, [removed(2), stored([3], 1), ["AllBlocksCleared"]], 0]]
    pack = msgpack.packb if dress == "msgpack" else lambda batch: json.dumps(batch).encode() + b"\n"
    seed, path = b"".join(map(pack, batches)), tmp_path / "stream"

    def read(where: Path) -> None:
        run_of("stream", read_stream(where))

    path.write_bytes(seed)
    assert judge(lambda: read(path), seed) is None
    inputs = mutants([seed], BINARY if dress == "msgpack" else JSON, Random(dress))
    count_refused(read, path, inputs, wanted=400, most_taken=800)
