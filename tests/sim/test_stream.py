"""The streamed event log: the same bytes as the log in memory, whole or not at all, and not kept."""

import io
import json
import os
from pathlib import Path
from random import Random

import pytest

from sim import Config, InputError, Request, Trace, simulate
from sim.stream import CHUNK_BYTES, StreamLog, json_line, stream_to
from tests.making import random_dials, random_rows, requests


def streamed(trace: Trace, config: Config) -> bytes:
    out = io.BytesIO()
    log = StreamLog(out)
    simulate(trace, config, log=log)
    log.flush()
    assert log.num_events == out.getvalue().count(b"\n")
    return out.getvalue()


def in_memory(trace: Trace, config: Config) -> bytes:
    return b"".join(json_line(event) for event in simulate(trace, config).events)


@pytest.mark.parametrize("seed", range(60))
def test_streamed_and_kept_events_are_the_same_bytes(seed: int):
    random = Random(seed)
    trace, config = requests(*random_rows(random, 20)), Config(**random_dials(random))
    assert streamed(trace, config) == in_memory(trace, config)


@pytest.mark.parametrize("id", ['quote"d', "back\\slash", "line\nend", "Ünï→"])
def test_ids_that_json_must_escape_come_out_alike(id: str):
    trace = Trace("odd", (Request(id=id, arrival_s=1e-7, prompt=5, output=9, max_tokens=9),))
    lines = streamed(trace, Config())
    assert lines == in_memory(trace, Config())
    assert {json.loads(line)["request"] for line in lines.splitlines()} == {id, None}


def test_every_line_carries_step_time_request_and_why():
    for line in streamed(requests((5, 3), (40, 9)), Config(pool_blocks=4)).splitlines():
        event = json.loads(line)
        assert {"kind", "step", "time", "request", "why"} <= event.keys()


def test_no_more_than_a_chunk_and_a_step_is_held_back():
    class Watched(io.BytesIO):
        sizes: list[int] = []  # noqa: RUF012

        def write(self, data) -> int:
            self.sizes.append(len(data))
            return super().write(data)

    out = Watched()
    log = StreamLog(out)
    simulate(requests(*[(4, 600)] * 60), Config(timing="unit"), log=log)
    log.flush()
    assert len(out.sizes) > 3
    assert max(out.sizes) < 1.1 * CHUNK_BYTES


def test_the_file_is_there_only_when_complete(tmp_path: Path):
    path = tmp_path / "deep" / "events.jsonl"
    trace, config = requests((5, 3), (40, 9)), Config(pool_blocks=4)
    with stream_to(path) as log:
        simulate(trace, config, log=log)
        assert not path.exists()
    assert path.read_bytes() == in_memory(trace, config)
    assert os.listdir(path.parent) == ["events.jsonl"]


def test_an_error_on_the_way_leaves_the_old_file_and_no_scratch(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    path.write_text("old")
    with pytest.raises(InputError), stream_to(path) as log:
        simulate(requests((5, 3)), Config(timing="/no/such/file"), log=log)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["events.jsonl"]


def test_a_place_that_cannot_be_written_is_told_in_one_line():
    told = r"cannot write /proc/no/such\.jsonl: .*; choose another place"
    with pytest.raises(InputError, match=told), stream_to(Path("/proc/no/such.jsonl")):
        pass
