import gzip
import io
import sys
from functools import partial

import pytest

from sim.errors import InputError
from sim.trace import Trace

ROWS = (
    '{"id": "a", "arrival": 0, "prompt": 4, "output": 3}\n'
    '{"id": "b", "arrival": 1, "prompt": 5, "output": 2}\n'
)
compress = partial(gzip.compress, mtime=0)  # no clock in the bytes: test ids are made of them
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10"


def ids(trace: Trace) -> list[str]:
    return [request.id for request in trace]


@pytest.mark.parametrize(
    "content",
    [
        ROWS.encode(),
        ROWS.rstrip().encode(),
        ROWS.replace("\n", "\r\n").encode(),
        ROWS.replace("\n", "\r").encode(),
        b"\xef\xbb\xbf" + ROWS.encode(),
        compress(ROWS.encode()),
        compress(b"\xef\xbb\xbf" + ROWS.encode()),
        ("\n\n" + ROWS + "\n").encode(),
    ],
    ids=["plain", "no last newline", "CRLF", "CR", "byte-order mark", "gzip", "gzip and mark", "blank lines"],
)
def test_one_trace_reads_the_same_however_its_file_is_written(read_text, content):
    assert ids(read_text(content)) == ["a", "b"]


def test_a_trace_is_called_after_its_file(read_text):
    assert read_text(ROWS, name="monday.jsonl").name == "monday.jsonl"


def test_a_dash_reads_standard_input_gzip_or_plain(monkeypatch):
    for data in (ROWS.encode(), compress(ROWS.encode())):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        trace = Trace.read("-")
        assert (ids(trace), trace.name) == (["a", "b"], "stdin")


def test_an_error_on_standard_input_says_so(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{}\n")))
    with pytest.raises(InputError, match=r"^standard input, line 1"):
        Trace.read("-")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "sample: is empty"),
        (b"\n \n", "sample: is empty"),
        (b"\xef\xbb\xbf", "sample: is empty"),
        (compress(b""), "sample: is empty"),
        (compress(ROWS.encode())[:-9], "the gzip file is cut short"),
        (compress(ROWS.encode())[:4], "the gzip file is cut short"),
        (b"\x1f\x8b" + b"\x00" * 40, "the gzip file is damaged"),
        (compress(ROWS.encode())[:-8] + b"\x00" * 8, "the gzip file is damaged"),
        (ROWS.encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
        (ROWS.encode() + b'{"id": "\xe9"}', "line 3: is not UTF-8 text"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "line 1: is not UTF-8 text"),
        (b"\x00\x01\x02", "line 1: '\\x00\\x01\\x02' fits no known format"),
        (AZURE.split("\r\n", maxsplit=1)[0].encode(), "sample: holds no request (nothing below the header)"),
        (b"num_prefill_tokens,num_decode_tokens\n", "sample: holds no request (nothing below the header)"),
        (b"arrived_at,num_prefill_tokens,num_decode_tokens\n\n", "sample: holds no request"),
        (b"Timestamp,Request tokens,Response tokens", "sample: holds no request"),
        (b"hello, world\n", "line 1: 'hello, world' fits no known format (native, azure"),
        (b'{"hello": 1}', "line 1: 'hello' fits no known format"),
        (b"{}", "line 1: '' fits no known format"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_in_one_line(read_text, content, complaint):
    with pytest.raises(InputError) as error:
        read_text(content)
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(InputError, match="is a directory; name a file in it"):
        Trace.read(tmp_path)


def test_a_missing_file_names_the_nearest_built_in(tmp_path):
    with pytest.raises(InputError, match=r"^dmeo: no such file or built-in trace: did you mean 'demo'\?"):
        Trace.read("dmeo")
    with pytest.raises(InputError, match="no such file or built-in trace: built in are demo, four-requests"):
        Trace.read(tmp_path / "zzzz")


@pytest.mark.parametrize("where", ["x" * 5000, "a\0b", "", "new\nline"])
def test_a_name_that_no_file_can_have_is_refused_in_one_line(where):
    with pytest.raises(InputError) as error:
        Trace.read(where)
    assert "\n" not in str(error.value)


def test_an_unknown_format_names_the_nearest(read_text):
    with pytest.raises(InputError, match=r"unknown trace format 'azzure': did you mean 'azure'\?"):
        read_text(ROWS, format="azzure")


def test_an_option_that_the_format_does_not_take_is_refused(read_text):
    with pytest.raises(InputError, match="rate does not apply to format native; it is for sharegpt, lengths"):
        read_text(ROWS, rate=2.0)
    with pytest.raises(InputError, match="spread_s does not apply to format azure; it is for mooncake"):
        read_text(AZURE, spread_s=3.0)
    with pytest.raises(InputError, match="demo: is built in; format, rate and spread_s are for files"):
        Trace.read("demo", rate=2.0)
