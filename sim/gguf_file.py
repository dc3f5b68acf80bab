"""GGUF, the one-file format of llama.cpp: what it says of its model, read with the `gguf` library.

The file holds typed fields (the shape, the tokenizer) and then tensors, often quantized.
"""

import struct
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, GGUFValueType, ReaderField
from numpy.typing import NDArray

from sim.errors import InputError
from sim.spec import ModelSpec, llama_spec

KINDS = {"llama": False, "qwen2": True}  # general.architecture -> biases on queries, keys and values
LENGTH = struct.Struct("<Q")
MOST = 10**9  # of anything that a field counts


class QuickReader(GGUFReader):
    """The library's reader, forty times as fast on a vocabulary: it slices a plain array, not a memory map.

    The slow way stays the oracle: `test_a_quick_reader_reads_what_the_librarys_own_reads`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(path)

    def _get(self, offset: int, dtype: Any, count: int = 1, override_order: Any = None) -> NDArray[Any]:
        self.data: Any = np.asarray(self.data)  # the same bytes, still mapped; no copy
        return super()._get(offset, dtype, count, override_order)

    def _get_field_parts(
        self, orig_offs: int, raw_type: int
    ) -> tuple[int, list[NDArray[Any]], list[int], list[GGUFValueType]]:
        if raw_type != GGUFValueType.ARRAY or self.byte_order != "I":
            return super()._get_field_parts(orig_offs, raw_type)
        kind, count = self._get(orig_offs, np.uint32), self._get(orig_offs + 4, np.uint64)
        offset, item = orig_offs + 12, GGUFValueType(int(kind[0]))
        if item is GGUFValueType.STRING:
            parts, offset = self._strings(offset, int(count[0]))
        elif item in self.gguf_scalar_to_np:
            values = self._get(offset, self.gguf_scalar_to_np[item], int(count[0]))
            parts, offset = (
                [values[index : index + 1] for index in range(len(values))],
                offset + values.nbytes,
            )
        else:
            return super()._get_field_parts(orig_offs, raw_type)
        indices = list(range(2, 2 + len(parts)))
        types = [GGUFValueType.ARRAY, *([item] if parts else [])]
        return offset - orig_offs, [kind, count, *parts], indices, types

    def _strings(self, offset: int, count: int) -> tuple[list[NDArray[Any]], int]:
        parts: list[NDArray[Any]] = []
        for _ in range(count):
            (length,) = LENGTH.unpack_from(self.data, offset)
            parts.append(self.data[offset + 8 : offset + 8 + length])
            offset += 8 + length
        return parts, offset


def open_gguf(path: Path) -> QuickReader:
    """A reader of the file, its tensors still on disk. Raises InputError for what is no GGUF file."""
    try:
        return QuickReader(path)
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, struct.error, OSError) as error:
        raise InputError(f"{path}: cannot be read as GGUF ({error})") from None


def gguf_spec(path: Path) -> ModelSpec:
    """The spec that a file describes. Raises InputError for what the engine does not run."""
    reader = open_gguf(path)
    kind = take(path, reader, "general.architecture")
    if kind not in KINDS:
        raise InputError(
            f"{path}: architecture {kind!r}; the Llama architecture is known as {', '.join(KINDS)}"
        )
    names = {tensor.name for tensor in reader.tensors}
    if "rope_freqs.weight" in names or field(reader, f"{kind}.rope.scaling.type", "none") != "none":
        raise InputError(f"{path}: has stretched rotary positions; use the model's safetensors folder")
    num_heads = take_count(path, reader, f"{kind}.attention.head_count")
    embedding = next((tensor for tensor in reader.tensors if tensor.name == "token_embd.weight"), None)
    if embedding is None:
        raise InputError(f"{path}: tensor token_embd.weight is missing; the file is no complete model")
    if len(embedding.shape) != 2:
        raise InputError(
            f"{path}: tensor token_embd.weight must have 2 dimensions, it has {len(embedding.shape)}"
        )
    hidden = take_count(path, reader, f"{kind}.embedding_length")
    return llama_spec(
        path.stem,
        take_count(path, reader, f"{kind}.block_count"),
        (num_heads, take_count(path, reader, f"{kind}.attention.head_count_kv", num_heads)),
        hidden,
        take_count(path, reader, f"{kind}.feed_forward_length"),
        int(embedding.shape[1]),
        take_count(path, reader, f"{kind}.context_length"),
        str(path),
        qkv_bias=KINDS[kind],
        tied="output.weight" not in names,
        head_dim=take_count(path, reader, f"{kind}.attention.key_length", hidden // num_heads),
        rope_base=take_float(path, reader, f"{kind}.rope.freq_base", 10_000.0),
        rms_epsilon=_decimal(take_float(path, reader, f"{kind}.attention.layer_norm_rms_epsilon")),
    )


def take_count(path: Path, reader: QuickReader, name: str, default: int | None = None) -> int:
    """A field that counts something. Raises InputError for anything but a whole number of at least 1."""
    value = take(path, reader, name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
        raise InputError(f"{path}: field {name} is {value!r}, must be a whole number from 1 to {MOST}")
    return value


def take_float(path: Path, reader: QuickReader, name: str, default: float | None = None) -> float:
    """A field that is a number. Raises InputError for anything but a finite one above 0."""
    value = take(path, reader, name, default)
    if not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise InputError(f"{path}: field {name} is {value!r}, must be a number above 0")
    return float(value)


def take(path: Path, reader: QuickReader, name: str, default: Any = None) -> Any:
    """The value of a field, `default` where there is none. Raises InputError for neither."""
    value = field(reader, name, default)
    if value is None:
        raise InputError(f"{path}: field {name} is missing")
    return value


def field(reader: QuickReader, name: str, default: Any) -> Any:
    """The value of a field, `default` where there is none. Raises InputError for a damaged one."""
    found: ReaderField | None = reader.get_field(name)
    try:
        return default if found is None else found.contents()
    except (ValueError, KeyError, IndexError, TypeError) as error:  # a text that is not UTF-8 is a ValueError
        raise InputError(f"{reader.path}: field {name} is damaged ({error})") from None


def _decimal(value: float) -> float:
    """The short decimal that a float32 stands for: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value)))
