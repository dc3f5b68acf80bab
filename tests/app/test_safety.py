"""Nothing that is uploaded or fetched is ever run, uploads have a limit, the app is this machine's alone."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.commands import serve
from app.own_trace import MAX_UPLOAD_MB, read_upload
from sim import InputError

ROOT = Path(__file__).parents[2]
SOURCES = [path for folder in ("sim", "engine", "app") for path in sorted((ROOT / folder).rglob("*.py"))]
# Its objects come from a process that the same program started, over a pipe, and from nowhere else.
BETWEEN_OUR_PROCESSES = {ROOT / "app" / "engine_job.py", ROOT / "app" / "engine_worker.py"}
FORBIDDEN_MODULES = {
    "pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "joblib",
    "marshal",
    "shelve",
    "yaml",
    "runpy",
    "code",
}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
UNSAFE_UNLESS = {
    ("np", "load"): "allow_pickle",
    ("numpy", "load"): "allow_pickle",
    ("torch", "load"): "weights_only",
}


def offences(source: str) -> Iterator[str]:
    """What in a module could run what it reads."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names if one.name.split(".")[0] in FORBIDDEN_MODULES)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in FORBIDDEN_MODULES:
                yield module
            case ast.Call(func=ast.Name(id=name)) if name in FORBIDDEN_CALLS:
                yield f"{name}()"
            case ast.Call(func=ast.Attribute(value=ast.Name(id=where), attr=name), keywords=given):
                if (where, name) in UNSAFE_UNLESS:
                    wanted = {"allow_pickle": False, "weights_only": True}[key := UNSAFE_UNLESS[where, name]]
                    if not any(one.arg == key and _value(one.value) is wanted for one in given):
                        yield f"{where}.{name}() without {key}={wanted}"
                if any(one.arg == "shell" and _value(one.value) is not False for one in given):
                    yield "shell=True"
            case _:
                pass


def _value(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_can_run_what_it_reads(path: Path):
    allowed = ["pickle"] if path in BETWEEN_OUR_PROCESSES else []
    assert list(offences(path.read_text(encoding="utf-8"))) == allowed


@pytest.mark.parametrize(
    "source",
    ["import pickle", "from yaml import load", "eval(x)", "np.load(p)", "torch.load(p, weights_only=False)",
     "subprocess.run(x, shell=True)", "np.load(p, allow_pickle=True)"],
)  # fmt: skip
def test_the_check_above_sees_what_it_is_for(source: str):
    assert list(offences(source))


class Started(Exception):
    """What would have been run."""


def started(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[str]:
    from app.cli import run as pagelab

    def main(command: list[str], **_: object) -> None:
        raise Started(*command)

    monkeypatch.setattr("streamlit.web.cli.main", main)
    monkeypatch.setattr(serve, "get_ready", lambda: None)
    with pytest.raises(Started) as caught:
        pagelab(["app", "--port", "18765", *arguments])
    return list(caught.value.args)


def test_the_app_listens_on_this_machine_alone_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch):
    command = started(monkeypatch)
    assert command[command.index("--server.address") + 1] == "localhost"
    command = started(monkeypatch, "--host", "127.0.0.1")
    assert command[command.index("--server.address") + 1] == "127.0.0.1"


def test_the_server_takes_no_larger_upload_than_the_page(monkeypatch: pytest.MonkeyPatch):
    command = started(monkeypatch)
    assert int(command[command.index("--server.maxUploadSize") + 1]) == MAX_UPLOAD_MB
    with pytest.raises(InputError, match="the page takes"):
        read_upload("big.csv", b"0" * (MAX_UPLOAD_MB * 2**20 + 1))


def test_an_upload_cannot_leave_its_folder():
    row = b'{"id": "a", "arrival": 0, "prompt": 3, "output": 2}\n'
    assert read_upload("../../../etc/cron.d/x.jsonl", row).num_requests == 1
    assert not Path("/etc/cron.d/x.jsonl").exists()
