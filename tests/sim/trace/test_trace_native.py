import gzip
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import InputError
from sim.request import Request
from sim.trace import Trace

ROW: dict[str, Any] = {"id": "a", "arrival": 0, "prompt": 4, "output": 3}

FULL = {
    "id": "a", "arrival": 1.25, "prompt": 5, "output": 3, "max_tokens": 9, "beam": 2,
    "beam_parents": [[0, 0], [1, 0]], "blocks": [7, 8], "block_tokens": 4, "prefix": "system",
    "prefix_tokens": 3, "session": "chat", "priority": -2,
}  # fmt: skip


def line(**changes: Any) -> str:
    return json.dumps({**ROW, **changes}) + "\n"


def without(key: str) -> str:
    return json.dumps({name: value for name, value in ROW.items() if name != key}) + "\n"


def test_the_four_required_keys_are_enough_and_the_rest_has_its_default(read_text):
    (request,) = read_text(line(arrival=2))
    assert request == Request(id="a", arrival_s=2.0, prompt=4, output=3, max_tokens=3)


def test_every_optional_key_reaches_the_request(read_text):
    (request,) = read_text(json.dumps(FULL))
    assert request == Request(
        id="a", arrival_s=1.25, prompt=5, output=3, max_tokens=9, beam=2, beam_parents=((0, 0), (1, 0)),
        blocks=(7, 8), block_tokens=4, prefix="system", prefix_tokens=3, session="chat", priority=-2,
    )  # fmt: skip


def test_writing_gives_back_the_same_json_without_losing_a_key(read_text, tmp_path):
    rows = [FULL, {**ROW, "id": "b", "arrival": 2.0, "tokens": [1, 2, 3, 4], "n": 3}]
    out = tmp_path / "out.jsonl"
    read_text("\n".join(map(json.dumps, rows))).write(out)
    assert [json.loads(text) for text in out.read_text().splitlines()] == rows


def test_null_is_the_same_as_absent(read_text):
    (request,) = read_text(line(session=None, max_tokens=None, tokens=None))
    assert (request.session, request.max_tokens, request.tokens) == (None, 3, None)


def test_whole_numbers_may_serve_as_names(read_text):
    (request,) = read_text(line(id=17, session=3))
    assert (request.id, request.session) == ("17", "3")


def test_arrivals_stay_as_written(read_text):
    trace = read_text(line(arrival=5) + line(id="b", arrival=7.5))
    assert [request.arrival_s for request in trace] == [5.0, 7.5]


def test_rows_out_of_order_are_sorted_with_ties_in_file_order_and_that_is_noted(read_text):
    trace = read_text(line(id="late", arrival=2) + line(id="x", arrival=1) + line(id="y", arrival=1))
    assert [request.id for request in trace] == ["x", "y", "late"]
    assert trace.notes == ("arrivals were out of order and have been sorted, ties in file order",)


def test_rows_in_order_are_not_noted_as_sorted(read_text):
    assert read_text(line() + line(id="b")).notes == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (without("id"), "id: is missing"),
        (without("output"), "output: is missing; the line has id, arrival, prompt"),
        (line(promt=3), "did you mean 'prompt'?"),
        (line(prompt=0), "prompt: 0 must be a whole number from 1"),
        (line(output=0), "output: 0 must be"),
        (line(prompt=-4), "prompt: -4 must be"),
        (line(prompt=4.0), "prompt: 4.0 must be"),
        (line(prompt=True), "prompt: True must be"),
        (line(prompt="4"), "prompt: '4' must be"),
        (line(prompt=[4]), "prompt: [4] must be"),
        (line(prompt=10**30), "prompt: 1000000000000000000000000000000 must be"),
        ('{"id": "a", "prompt": ' + "9" * 5000 + "}\n", "JSON: holds an integer of too many digits"),
        (line(arrival=float("nan")), "arrival: nan must be a finite number"),
        (line(arrival=float("inf")), "arrival: inf must be a finite number"),
        (line(arrival=-1), "arrival: -1 must be"),
        (line(arrival="0.5"), "arrival: '0.5' must be"),
        (line(arrival=False), "arrival: False must be"),
        (line(arrival=10**400), "arrival: "),
        (line(id=""), "id: '' must be printable text"),
        (line(id="two\nlines"), "id: 'two\\nlines' must be printable text"),
        (line(id="\ud800"), "id: '\\ud800' must be printable text"),
        (line(id=True), "id: True must be printable"),
        (line(session=1.5), "session: 1.5 must be printable"),
        (line(max_tokens=2), "max_tokens: 2 must be at least output, 3"),
        (line(n=0), "n: 0 must be"),
        (line(n=2, beam=2), "beam: 2 and n 2: only one of them may be above 1"),
        (line(beam=2, beam_parents=[[0, 0]]), "beam_parents: 1 steps must be output - 1 = 2"),
        (line(beam=2, beam_parents=[[0, 0], [0]]), "beam_parents: step 1 must be 2 (beam)"),
        (line(beam=2, beam_parents=[[0, 2], [0, 0]]), "beam_parents: step 0 must be 2 (beam) indices"),
        (line(beam=2, beam_parents=3), "beam_parents: 3 must be a list of lists"),
        (line(tokens=[1, 2, 3]), "tokens: 3 ids must be as many as prompt, 4"),
        (line(tokens=[1, 2, 3, -4]), "tokens: -4 at index 3 must be"),
        (line(tokens=[1, 2, 3, True]), "tokens: True at index 3 must be"),
        (line(tokens="abcd"), "tokens: 'abcd' must be a list"),
        (line(tokens=[1, 2, 3, 4], blocks=[1], block_tokens=4), "blocks: must not stand beside tokens"),
        (line(blocks=[1]), "block_tokens: is missing: blocks and block_tokens come together"),
        (line(block_tokens=4), "blocks: is missing"),
        (line(blocks=[1], block_tokens=3), "blocks: 1 ids must be 2 to cover prompt 4 at 3 tokens each"),
        (line(blocks=[1, 2], block_tokens=4), "blocks: 2 ids must be 1 to cover"),
        (line(blocks=[5, 5], block_tokens=2), "blocks: an id repeats"),
        (line(prefix="p"), "prefix_tokens: is missing"),
        (line(prefix_tokens=2), "prefix: is missing"),
        (line(prefix="p", prefix_tokens=5), "prefix_tokens: 5 must be a whole number from 1 to 4"),
        (line(priority=1.0), "priority: 1.0 must be a whole number"),
        ('{"id": "a", "id": "b", "arrival": 0, "prompt": 1, "output": 1}\n', "id: the key stands twice"),
        ('{"id": "a"\n', "is not JSON"),
        ("[1]\n", "must be one object"),
        ("[" * 100_000 + "\n", "JSON"),
    ],
)
def test_a_bad_row_is_one_line_that_names_file_line_field_and_remedy(read_text, text, complaint):
    with pytest.raises(InputError) as error:
        read_text(line(id="good") + "\n" + text, format="native")
    message = str(error.value)
    assert "sample, line 3" in message
    assert complaint in message
    assert "\n" not in message
    assert len(message) < 500


def test_an_id_used_twice_names_both_lines(read_text):
    with pytest.raises(InputError, match="line 3, id: 'a' stands on line 1 too"):
        read_text(line() + line(id="b") + line())


def test_two_requests_of_one_prefix_must_begin_with_the_same_tokens(read_text):
    first = line(tokens=[1, 2, 3, 4], prefix="p", prefix_tokens=3)
    agreeing = line(id="b", tokens=[1, 2, 9, 9], prefix="p", prefix_tokens=2)
    differing = line(id="c", tokens=[1, 2, 9, 9], prefix="p", prefix_tokens=3)
    assert len(read_text(first + agreeing)) == 2
    with pytest.raises(InputError, match="requests 'a' and 'c' have prefix 'p', but their prompts differ"):
        read_text(first + agreeing + differing)


names = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=8)
counts = st.integers(1, 10**9)


@st.composite
def requests(draw: st.DrawFn, request_id: str) -> Request:
    prompt, output = draw(st.integers(1, 40)), draw(st.integers(1, 5))
    extra: dict[str, Any] = {}
    content = draw(st.sampled_from(["tokens", "blocks", "nothing"]))
    if content == "tokens":
        extra["tokens"] = tuple(draw(st.lists(st.integers(0, 2**40), min_size=prompt, max_size=prompt)))
    elif content == "blocks":
        size = draw(st.integers(1, 50))
        num_blocks = -(-prompt // size)
        ids = st.lists(st.integers(0, 2**40), min_size=num_blocks, max_size=num_blocks, unique=True)
        extra |= {"blocks": tuple(draw(ids)), "block_tokens": size}
    elif draw(st.booleans()):
        extra |= {"prefix": draw(names), "prefix_tokens": draw(st.integers(1, prompt))}
    match draw(st.sampled_from(["n", "beam", "parents"])):
        case "n":
            extra["n"] = draw(counts)
        case "beam":
            extra["beam"] = draw(counts)
        case _:
            beam = draw(st.integers(1, 4))
            step = st.tuples(*[st.integers(0, beam - 1)] * beam)
            extra |= {"beam": beam, "beam_parents": tuple(draw(step) for _ in range(output - 1))}
    return Request(
        id=request_id,
        arrival_s=draw(st.floats(0, 1e12)),
        prompt=prompt,
        output=output,
        max_tokens=draw(st.integers(output, 10**9)),
        session=draw(st.none() | names),
        priority=draw(st.integers(-(10**9), 10**9)),
        **extra,
    )


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    ids = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    return Trace("drawn", tuple(draw(requests(request_id)) for request_id in ids))


@settings(max_examples=150, deadline=None)
@given(traces(), st.sampled_from(["out.jsonl", "out.jsonl.gz"]))
def test_a_trace_written_and_read_again_is_the_same(tmp_path_factory, trace, name):
    path = tmp_path_factory.mktemp("round") / name
    trace.write(path)
    assert Trace.read(path).requests == trace.requests


def test_a_gz_ending_writes_gzip_with_the_same_bytes_every_time(tmp_path):
    trace = Trace.read("four-requests")
    for name in ("a.gz", "b.gz"):
        trace.write(tmp_path / name)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()).startswith(b'{"id": "r1", "arrival": 0.0')


def test_a_dash_writes_to_standard_output(capsys):
    Trace.read("four-requests").write("-")
    assert capsys.readouterr().out.count("\n") == 5


def test_a_place_that_cannot_be_written_is_an_input_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"cannot write .*file/out\.jsonl"):
        Trace.read("four-requests").write(tmp_path / "file" / "out.jsonl")


def test_a_trace_made_in_python_is_checked_too():
    with pytest.raises(InputError, match="request 'a', prompt: 0 must be"):
        Trace("made", (Request(id="a", arrival_s=0.0, prompt=0, output=1, max_tokens=1),))
    with pytest.raises(InputError, match="id 'a' is used twice"):
        Trace("made", (Request(id="a", arrival_s=0.0, prompt=1, output=1, max_tokens=1),) * 2)
