"""From what `--model` says to the files of a real model, where there are any."""

from pathlib import Path

from engine.checkpoint.files import FileWeights
from engine.checkpoint.store import PUBLISHED
from engine.parameters import WeightSource
from engine.random_weights import RandomWeights
from sim.errors import InputError
from sim.model_files import is_model_path
from sim.models import MODELS


def model_path(name: str) -> Path | None:
    """Folder or file of the model that `name` means; None for a preset whose weights are not here."""
    if name not in MODELS and is_model_path(name):
        return Path(name).expanduser()
    if name in PUBLISHED and PUBLISHED[name].is_here:
        return PUBLISHED[name].path
    return None


def need_model(name: str) -> Path:
    """Like `model_path`. Raises InputError, with the remedy, for a preset without real weights."""
    path = model_path(name)
    if path is not None:
        return path
    if name in PUBLISHED:
        raise InputError(f"model {name}: is not here yet; fetch it with `pagelab model get {name}`")
    raise InputError(
        f"model {name}: only its shape is known, it cannot speak; use --model smollm2-135m, or the path of a "
        "safetensors folder or GGUF file"
    )


def weights_of(name: str, seed: int) -> WeightSource:
    """Real weights where they are here, else random ones of `seed`."""
    path = model_path(name)
    return RandomWeights(seed) if path is None else FileWeights(path)
