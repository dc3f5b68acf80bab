"""A trace in pieces is the trace."""

import gzip
import json

import pytest

from sim import InputError, Trace
from sim.trace import pieces
from sim.trace.pieces import generate_pieces, read_pieces


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 7)


def joined(path) -> list:
    return [request for piece in read_pieces(str(path)) for request in piece]


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:{minute:02}:03.9799600,{100 + minute},{1 + minute}\n" for minute in range(17, 45)
)


# Of the first two pieces only the last row is no failure.
BURSTGPT = "Timestamp,Request tokens,Response tokens\n" + "".join(
    f"{place + 0.5},{place % 5 * 9},{0 if place < 13 else 1 + place % 3}\n" for place in range(40)
)
MOONCAKE = "".join(
    json.dumps(
        {
            "timestamp": 5000 + 7 * place,
            "input_length": 600 + place,
            "output_length": 2,
            "hash_ids": [0, place + 1],
        }
    )
    + "\n"
    for place in range(20)
)


def test_each_format_gives_what_reading_it_at_once_gives(tmp_path):
    native = tmp_path / "native.jsonl"
    Trace.read("shared-prefix").write(native)
    azure = tmp_path / "azure.csv"
    azure.write_text(AZURE)
    vidur = tmp_path / "vidur.csv"
    vidur.write_text(
        "arrived_at,num_prefill_tokens,num_decode_tokens\r\n"
        + "\r\n".join(f"{5 + place / 4},{place + 1},3" for place in range(20))
    )
    packed = tmp_path / "azure.csv.gz"
    packed.write_bytes(gzip.compress(AZURE.encode()))
    burstgpt = tmp_path / "burstgpt.csv"
    burstgpt.write_text(BURSTGPT)
    mooncake = tmp_path / "mooncake.jsonl"
    mooncake.write_text(MOONCAKE)
    for path in (native, azure, vidur, packed, burstgpt, mooncake):
        assert joined(path) == list(Trace.read(path)), path.name


def test_an_error_names_the_line_of_the_file(tmp_path):
    path = tmp_path / "azure.csv"
    path.write_text(AZURE.replace(",134,", ",many,"))
    with pytest.raises(InputError) as whole:
        Trace.read(path)
    with pytest.raises(InputError) as in_pieces:
        joined(path)
    assert str(in_pieces.value) == str(whole.value)
    assert "line 19" in str(whole.value)
    native = tmp_path / "native.jsonl"
    Trace.read("demo").write(native)
    lines = native.read_text().splitlines()
    native.write_text("\n".join([*lines[:30], '{"id": "x"}', *lines[30:]]))
    with pytest.raises(InputError, match="line 31, output"):
        joined(native)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"\x1f\x8bxxxxxxxxxxxxx", "is damaged"),
        (gzip.compress(AZURE.encode())[:-20], "is damaged"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"num_prefill_tokens,num_decode_tokens\n2,3\n", "lengths cannot be streamed"),
        (b'{"chat_id": 1, "parent_chat_id": -1, "hash_ids": [1]}\n', "qwen-bailian cannot be streamed"),
    ],
)
def test_what_cannot_be_streamed_is_refused(tmp_path, data, said):
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(InputError, match=said):
        joined(path)


def test_a_generated_trace_can_be_of_any_length_and_has_the_rate_and_lengths_of_its_law():
    requests = [one for piece in generate_pieces("alpaca-like", 20_000, 3) for one in piece]
    assert [one.id for one in requests[:8]] == [f"r{place}" for place in range(8)]
    assert len(requests) == len({one.id for one in requests}) == 20_000
    times = [one.arrival_s for one in requests]
    assert times == sorted(times)
    assert times[0] == 0
    assert 20_000 / times[-1] == pytest.approx(30, rel=0.03)
    usual = Trace.read("alpaca-like")
    for field in ("prompt", "output"):
        mean = sum(getattr(one, field) for one in requests) / 20_000
        assert mean == pytest.approx(sum(getattr(one, field) for one in usual) / len(usual), rel=0.06)


def test_a_trace_that_is_not_by_a_law_has_one_length():
    with pytest.raises(InputError, match="only sharegpt-like, alpaca-like, azure-conv-like, azure-code-like"):
        list(generate_pieces("four-requests", 10, 0))
