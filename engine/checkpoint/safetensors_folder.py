"""Weights in a folder as Hugging Face lays it out: one `model.safetensors`, or shards and their index."""

from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from sim.errors import InputError
from sim.json_file import read_object

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
        shards = _shards_in(folder / INDEX)
    elif (folder / SINGLE).is_file():
        shards = {SINGLE}
    else:
        raise InputError(
            f"{folder}: has neither {SINGLE} nor {INDEX}; weights in pytorch_model.bin are not read, "
            "for they can run code: convert them to safetensors"
        )
    return {name: shard for shard in sorted(shards) for name in _names_in(folder / shard)}


def _shards_in(path: Path) -> set[str]:
    """Names of files beside the index; it may not point anywhere else."""
    index = read_object(path).get("weight_map")
    if not isinstance(index, dict) or not index:
        raise InputError(f"{path}: is no index of shards: it has no 'weight_map' from tensors to files")
    shards = set[str]()
    for shard in index.values():
        if not isinstance(shard, str) or Path(shard).name != shard or not shard.isprintable():
            raise InputError(f"{path}: {str(shard)[:80]!r} is no name of a file beside it")
        shards.add(shard)
    return shards


def _names_in(path: Path) -> list[str]:
    try:
        if not path.is_file():
            raise InputError(f"{path}: is named by {INDEX} and missing; download it again")
        with safe_open(path, framework="pt") as shard:
            return list(shard.keys())
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: is no whole safetensors file ({error}); download it again") from None
