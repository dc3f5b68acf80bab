"""Every command with options that no one meant: exit code 2 and one line, or an honest run, no traceback."""

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Generator, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from random import Random
from typing import Any

import click
import pytest

from app.cli import COMMANDS, cli, run
from app.comparison import execute
from engine import EngineFault, MeasuredRun, measure
from sim import InputError
from sim.capacity import Capacity
from sim.sweep import Plan, Store, open_store
from tests.malformed.judging import LONGEST_LINE, TooSlow, alarm
from tests.malformed.mutations import NASTY_CELLS
from tests.malformed.own_files import stored

COUNT = 1600  # command lines
BAD_VALUES = (
    *(cell for cell in NASTY_CELLS if "\0" not in cell),  # no command line can hold a null byte
    "1,", "1,2,3", "64,,2", "10**3", "2.5", "1e30", str(2**31), str(2**63), "0GiB", "99999TiB",
    "GiB", "-5GiB", "unitt", "pagd", "--json", "/", "x" * 3000, "1," * 500, "\udcff",
)  # fmt: skip
BAD_PLACES = ("/dev/null/x", "/", "x" * 300, "/dev/null/x/y/z")
WRITERS = {"out", "events", "series", "chrome_trace", "per_request", "prometheus"}
ENDLESS = {"app", "lessons"}  # good values start servers, or write a site
ENGINE = {"measure", "compare", "generate"}  # often on no device; elsewhere nothing is executed
OFTEN = ["simulate", "sweep", "capacity"]  # they have the most options
SLOW = {"claims", "paper"}  # without a name that is not known they compute for minutes


def commands() -> Iterator[tuple[list[str], click.Command]]:
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        if isinstance(command, click.Group):
            yield from (([name, sub], one) for sub, one in command.commands.items())
        else:
            assert command is not None
            yield [name], command


def command_line(random: Random, words: list[str], command: click.Command, trace: str) -> list[str]:
    """A line of the command with something wrong, most likely."""
    line = list(words)
    for param in command.params:
        if param.name in ("trace", "traces"):
            line.append(random.choice((trace, trace, trace, "/dev/null/x", "x" * 400, "nope")))
        elif isinstance(param, click.Argument) and (param.required or words[0] in SLOW):
            line.append(
                trace if param.name == "trace_name" else random.choice(("/dev/null/x", "x" * 400, "nope"))
            )
        elif param.required:
            line += [param.opts[0], random.choice(("ttft-p95=1", *BAD_VALUES))]
    options = [param for param in command.params if isinstance(param, click.Option)]
    for option in random.choices(options, k=random.choice((1, 1, 2, 3))) if options else ():
        line.append(max(option.opts, key=len))
        if option.name in WRITERS:
            line.append(random.choice(BAD_PLACES))
        elif not option.is_flag:
            line += random.choices(
                ("0", "-1", "x", "") if words[0] in ENDLESS else BAD_VALUES, k=option.nargs
            )
    if words[0] == "generate" or (words[0] in ENGINE and random.random() < 0.5):
        line += ["--device", "tpu"]
    if any(option.name == "as_json" for option in options) and random.random() < 0.5:
        line.append("--json")
    if random.random() < 0.1 or words[0] in ENDLESS:
        line.append(random.choice(("--no-such", "-z", "--json=1", "--first", "--pool-tokens=")))
    return line


class Idle(Executor):
    """In place of workers: each configuration is done, and nothing is told of it."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result({"status": "done", "report": {}})
        return future


@pytest.fixture
def computing_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What would compute for long is told what to do and does nothing; all else is as it is."""

    @contextlib.contextmanager
    def cluster(*_: Any) -> Generator[Any]:
        yield Idle

    @contextlib.contextmanager
    def fresh_store(folder: Path, plan: Plan) -> Generator[Store]:
        opened = open_store(folder, plan) if str(folder) in BAD_PLACES else stored(plan, tmp_path)
        with opened as store:
            yield store

    def found(trace: Any, config: Any, *_: Any) -> Capacity:
        return Capacity(config=config, best=None, is_bounded=True, points=())

    def calibrate(*_: Any, **__: Any) -> None:
        raise InputError("nothing is measured here")

    def measured(*given: Any, device: str, **more: Any) -> MeasuredRun:
        if device == "tpu":
            return measure(*given, device=device, **more)
        raise InputError("nothing is measured here")

    def executed(*given: Any, device: str, **more: Any) -> MeasuredRun | EngineFault:
        fault = EngineFault(1, [], RuntimeError("nothing is executed here"))
        return execute(*given, device=device, **more) if device == "tpu" else fault

    monkeypatch.setattr("app.commands.measure.measure_trace", measured)
    monkeypatch.setattr("app.commands.compare.execute", executed)
    monkeypatch.setattr("app.commands.sweep.ProcessPool", lambda _: Idle())
    monkeypatch.setattr("app.commands.sweep.dask_cluster", cluster)
    monkeypatch.setattr("app.commands.sweep.open_store", fresh_store)
    monkeypatch.setattr("app.commands.capacity.find_capacity", found)
    monkeypatch.setattr("app.commands.bench.calibrate", calibrate)


def answer(line: list[str]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(line)
        out.flush()
    return code, out.buffer.getvalue().decode(), err.getvalue()


@pytest.mark.usefixtures("computing_nothing")
def test_a_thousand_bad_command_lines_are_refused_with_one_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"id": "a", "arrival": 0, "prompt": 3, "output": 2}\n')
    monkeypatch.chdir(tmp_path)
    random, known = Random(0), list(commands())
    often = [one for one in known if one[0][0] in OFTEN]
    num_refused = 0
    for number in range(COUNT):
        line = command_line(random, *random.choice(often if number % 2 else known), str(trace))
        try:
            with alarm():
                code, out, err = answer(line)
        except (Exception, TooSlow) as error:
            raise AssertionError(f"{type(error).__name__}: {error} for {line}") from error
        assert code in (0, 1, 2), line
        if code == 2:
            num_refused += 1
            assert err.startswith("pagelab: ") and err.count("\n") == 1, (line, err)
            assert err[:-1].isprintable() and len(err) < LONGEST_LINE, (line, err)
            assert out == "", line
    assert num_refused > 1000


@pytest.mark.parametrize(
    ("arguments", "content", "told"),
    [
        (["simulate"], b'{"id": "a", "arrival": 0, "prompt": 3, "output": 2', "is not JSON"),
        (["simulate"], b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-99-99,1,1\n", "must be a date"),
        (["trace", "info"], b"\x1f\x8b\x08\x00cut", "gzip file is"),
        (["trace", "hits", "--cache-blocks", "x"], b"", "--cache-blocks"),
        (["trace", "convert"], b"\xff\xfe", "UTF-16"),
        (["simulate", "demo", "--timing"], b"[" * 10**5, "expected"),
        (["measure", "demo", "--model"], b"GGUF\x03\x00\x00\x00" + b"\xff" * 64, "GGUF"),
        (["calc", "--model"], b"GGUF", "GGUF"),
        (["class", "collect"], b"{}", "is not a folder"),
        (["simulate", "demo", "--replicas", "9223372036854775808", "--events"], b"", "replicas"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)  # fmt: skip
def test_the_real_command_line_says_what_is_wrong_with_a_file(
    arguments: list[str], content: bytes, told: str, tmp_path: Path
):
    path = tmp_path / "input.gguf"
    path.write_bytes(content)
    line = [*arguments, str(path), *([str(tmp_path / "out.jsonl")] if "convert" in arguments else [])]
    done = subprocess.run(
        [sys.executable, "-m", "app", *line], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("pagelab: ") and done.stderr.count("\n") == 1
    assert told in done.stderr


def test_a_file_of_a_student_that_is_no_result_is_named_and_passed_over(tmp_path: Path):
    (tmp_path / "ann.json").write_text(json.dumps({"runs": [], "agreement": [{"allocator": 7}]}))
    code, _, err = answer(["class", "collect", str(tmp_path)])
    assert code == 2
    assert "ann.json: is not what `pagelab compare --json` writes" in err
