"""Weights in a folder as Hugging Face lays it out: one `model.safetensors`, or shards and their index."""

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from sim.errors import InputError

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


class SafetensorsFolder:
    """Implements `TensorFile`. Raises InputError for a folder without safetensors, or broken ones."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shard_of = find_tensors(folder)

    def read(self, name: str) -> Tensor | None:
        """See `TensorFile`."""
        if name not in self._shard_of:
            return None
        with safe_open(self._folder / self._shard_of[name], framework="pt") as shard:
            return shard.get_tensor(name)

    def describe(self, name: str) -> str:
        """See `TensorFile`."""
        return f"{self._folder / self._shard_of.get(name, SINGLE)}: tensor {name}"


def find_tensors(folder: Path) -> dict[str, str]:
    """The file of each tensor. Raises InputError where there is none, or one is missing or broken."""
    if (folder / INDEX).is_file():
        try:
            index: dict[str, str] = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{folder / INDEX}: is no index of shards ({error!r})") from None
        shards = set(index.values())
    elif (folder / SINGLE).is_file():
        shards = {SINGLE}
    else:
        raise InputError(
            f"{folder}: has neither {SINGLE} nor {INDEX}; weights in pytorch_model.bin are not read, "
            "for they can run code: convert them to safetensors"
        )
    return {name: shard for shard in sorted(shards) for name in _names_in(folder / shard)}


def _names_in(path: Path) -> list[str]:
    if not path.is_file():
        raise InputError(f"{path}: is named by {INDEX} and missing; download it again")
    try:
        with safe_open(path, framework="pt") as shard:
            return list(shard.keys())
    except SafetensorError as error:
        raise InputError(f"{path}: is no whole safetensors file ({error}); download it again") from None
