"""Full disks, closed pipes, read-only homes, no memory, two runs in one folder: a clean end, nothing lost."""

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from app.cli import run as pagelab
from app.files import only_writer
from engine import measure
from sim import Config, InputError
from sim.files import new_file
from tests.making import requests

SIMULATE = ["simulate", "demo", "--pool-tokens", "2048", "--max-len", "512", "--timing", "unit"]
PAGELAB = [sys.executable, "-m", "app"]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert pagelab([*SIMULATE, "--quiet", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("pagelab: ")
    return err


def limited(num_bytes: int):
    """In the child: no file may grow beyond this, which is met as a full disk is."""

    def limit() -> None:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, num_bytes))

    return limit


def test_a_disk_that_fills_while_the_results_are_written_leaves_the_earlier_ones_whole(tmp_path: Path):
    out = tmp_path / "out"
    out.mkdir()
    for name in ("report.html", "report.json", "ledger.png"):
        (out / name).write_text("earlier")
    (tmp_path / "events.jsonl").write_text("earlier")
    command = [*PAGELAB, *SIMULATE, "--quiet", "--out", str(out), "--events", str(tmp_path / "events.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limited(20_000))
    assert done.returncode == 2
    assert done.stderr.startswith("pagelab: cannot write ") and done.stderr.count("\n") == 1
    assert "file too large; choose another place" in done.stderr
    assert {path.read_text() for path in [*out.iterdir(), tmp_path / "events.jsonl"]} == {"earlier"}
    assert len(list(out.iterdir())) == 3, "no scraps are left"


@pytest.mark.parametrize(
    "option", ["--events", "--series", "--per-request", "--prometheus", "--chrome-trace"]
)
def test_a_full_device_is_one_line_and_stays_a_device(option: str, capsys):
    assert "no space left on device" in refused(capsys, option, "/dev/full")
    assert Path("/dev/full").is_char_device()


def test_a_device_or_a_pipe_is_written_to_and_not_replaced(tmp_path: Path):
    assert pagelab([*SIMULATE, "--quiet", "--series", "/dev/null"]) == 0
    assert Path("/dev/null").is_char_device()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        assert pagelab([*SIMULATE, "--quiet", "--series", str(pipe)]) == 0
        text, _ = reader.communicate()
    assert text.startswith(b"step,time,pool,")
    assert pipe.is_fifo()


def test_an_error_while_a_file_is_written_leaves_the_old_one(tmp_path: Path):
    path = tmp_path / "result"
    path.write_text("earlier")

    def write_half() -> None:
        with new_file(path) as out:
            out.write(b"half of")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(InputError, match="no space left on device; choose another place"):
        write_half()
    assert path.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with new_file(tmp_path / "link") as out:
        out.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_a_place_that_cannot_be_written_is_found_before_the_run(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setattr("app.commands.simulate.simulate_trace", lambda *_, **__: pytest.fail("it ran"))
    (tmp_path / "file").write_text("in the way")
    for option in ("--out", "--events", "--series", "--prometheus"):
        assert "is a file, no folder; choose another place" in refused(capsys, option, f"{tmp_path}/file/x")
    assert pagelab([*SIMULATE, "--quiet", "--series", str(tmp_path)]) == 2
    assert (tmp_path / "file").read_text() == "in the way"


def test_two_runs_into_one_folder_are_refused_and_the_first_goes_on(tmp_path: Path, capsys):
    out = tmp_path / "out"
    with only_writer(out):
        assert "another run is writing there" in refused(capsys, "--out", str(out))
        assert list(out.iterdir()) == []
    assert pagelab([*SIMULATE, "--quiet", "--out", str(out)]) == 0
    assert {"report.html", "report.json", "ledger.png"} <= {path.name for path in out.iterdir()}


def test_a_run_that_was_killed_leaves_no_lock(tmp_path: Path):
    code = (
        "import os; from pathlib import Path; from app.files import only_writer\n"
        f"with only_writer(Path({str(tmp_path)!r})): os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    with only_writer(tmp_path):
        pass


def test_a_read_only_home_is_no_hindrance(tmp_path: Path):
    places = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "PAGELAB_HOME"), "/dev/null/home")
    environment = {**os.environ, **places}
    out = tmp_path / "out"
    done = subprocess.run(
        [*PAGELAB, *SIMULATE, "--quiet", "--out", str(out)],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert (out / "ledger.png").stat().st_size > 1000
    done = subprocess.run(
        [*PAGELAB, "model", "get", "smollm2", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 2
    assert "cannot write /dev/null/home" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [[*SIMULATE, "--json"], [*SIMULATE, "--events", "-"], ["trace", "list"]]
)
@pytest.mark.parametrize("reader", ["| head -1 >/dev/null", "| true", ">&-"])
def test_a_reader_that_has_gone_or_never_was_is_no_traceback(arguments: list[str], reader: str):
    command = " ".join([*PAGELAB, *arguments, *([] if "list" in arguments else ["--quiet"]), reader])
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
    assert done.stderr.count("\n") <= 1


def test_a_terminal_without_utf8_gets_its_table():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = subprocess.run([*PAGELAB, *SIMULATE], capture_output=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    assert b"paged" in done.stdout and b"waste" in done.stdout
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has 3 MiB free."),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory: you tried"
        ),
        MemoryError(),
    ],
    ids=["cuda", "cpu", "python"],
)
def test_no_memory_for_the_pool_says_what_to_make_smaller(error: Exception, monkeypatch: pytest.MonkeyPatch):
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(sys.modules["engine.measure"], "make_pool", fails)
    with pytest.raises(InputError, match=r"out of memory on .* use a smaller pool \(--pool-tokens"):
        measure(requests((4, 2)), Config(model="tiny", kv_dtype="fp32", pool_tokens=64, max_len=64))


def test_another_fault_of_the_engine_is_not_called_out_of_memory(monkeypatch: pytest.MonkeyPatch):
    def fails(*_: object) -> None:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(sys.modules["engine.measure"], "make_pool", fails)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        measure(requests((4, 2)), Config(model="tiny", kv_dtype="fp32", pool_tokens=64, max_len=64))


def test_a_pool_that_is_really_too_large_is_refused_with_both_numbers():
    config = Config(model="tiny", kv_dtype="fp32", pool_tokens=2_000_000_000, block_size=4096, max_len=64)
    with pytest.raises(InputError, match=r"pool \d+\.\d GiB, .* GiB are available; use .* smaller pool"):
        measure(requests((4, 2)), config)


def test_a_pool_that_the_system_will_not_give_is_out_of_memory(monkeypatch: pytest.MonkeyPatch):
    """The check of what is available is by-passed: here PyTorch itself asks, and is not given them."""
    monkeypatch.setattr("engine.setup.available_bytes", lambda _: 2**50)
    config = Config(model="tiny", kv_dtype="fp32", pool_tokens=2_000_000_000, block_size=4096, max_len=64)
    with pytest.raises(InputError, match="out of memory on this machine"):
        measure(requests((4, 2)), config)
