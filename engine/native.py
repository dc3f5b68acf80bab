"""No pool: each sequence has tensors of its own, and the framework's allocator is what fragments.

    native-max   one tensor of the maximum length, made on admission       (a static cache)
    native-cat   as long as its tokens, and made anew one longer for each       (torch.cat, a dynamic cache)

The schedule is that of `max` and `grow`; so are the slot numbers by which the ledger counts, but no tensor
lies where its number says. Attention and writes go sequence by sequence, because no kernel can address
tensors that lie anywhere. What the framework took from the system for all this is in `meta["memory"]`.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.attend import Reading
from engine.attention import contiguous_attention, contiguous_prefill
from engine.flat import FlatBatch
from engine.holdings import Holdings
from engine.sentinel import bits_of, new_pool, scan_parts
from engine.snapshot import RangeRows
from sim.events import Event
from sim.models import ModelSpec
from sim.tables import BlockTable


class NativeTensors:
    """One tensor [num_layers, 2, length, HKV, D] for each sequence, filled with the sentinel where empty."""

    def __init__(
        self,
        spec: ModelSpec,
        *,
        num_slots: int,
        max_rows: int,
        dtype: torch.dtype,
        device: torch.device,
        fills_rounding: bool = False,
    ) -> None:
        self.num_slots = num_slots
        self.max_rows = max_rows
        self.dtype = dtype
        self.device = device
        self.tensors: dict[str, Tensor] = {}
        self.rows: dict[str, int] = {}
        self._starts: dict[str, int] = {}
        self._shape = (spec.num_layers, 2, spec.num_kv_heads, spec.head_dim)
        self._free_rows = list(range(max_rows - 1, -1, -1))
        self._exchanges: list[tuple[str, Tensor]] = []  # whose tensor begins anew, and with what
        self._fills_rounding = fills_rounding

    @property
    def slot_bytes(self) -> int:
        """Bytes of one token's keys and values in all layers."""
        return int(np.prod(self._shape)) * self.dtype.itemsize

    @property
    def num_bytes(self) -> int:
        """Bytes of the slots by which the schedule counts; those that exist are `tensor_bytes`."""
        return self.num_slots * self.slot_bytes

    @property
    def tensor_bytes(self) -> int:
        """Bytes of all tensors that there are now."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    # Memory events.

    def alloc(self, name: str, event: Event) -> None:
        """Makes the sequence's tensor, or a longer one in its place."""
        if name not in self.rows:
            self.rows[name] = self._free_rows.pop()
            self.tensors[name] = self._empty(0)
        self._lengthen(name, event.changes["slots"][0], event.changes["reserved"])

    def move(self, name: str, event: Event) -> None:
        """A longer tensor takes the place of the old one; a move by itself means nothing here."""
        self._lengthen(name, event.changes["destination_slots"][0], event.changes["reserved"])

    def free(self, name: str, event: Event) -> None:
        """Gives the tensor back to the framework."""
        del self.tensors[name], self._starts[name]
        self._free_rows.append(self.rows.pop(name))

    def copy(self, name: str, event: Event) -> None:
        """Goes on from what another sequence has stored; all such copies read before any writes."""
        source, num_tokens = event.changes["source_slots"]
        parent = next(other for other, start in self._starts.items() if start == source)
        self._exchanges.append((name, bits_of(self.tensors[parent])[:, :, :num_tokens].clone()))

    def settle(self) -> None:
        """Writes what copies have read."""
        for name, content in self._exchanges:
            bits_of(self.tensors[name])[:, :, : content.shape[2]] = content
        self._exchanges = []

    def hit(self, name: str, event: Event) -> None:
        """Never happens: tensors share nothing."""
        raise AssertionError(f"{name}: its tensor is its own")

    fork = evict = rollback = swap_out = swap_in = hit

    def flush(self) -> None:
        """Brings memory up to date with all events so far."""
        self.settle()

    def first_place(self, name: str) -> int:
        """The number of a sequence's first slot."""
        return self._starts[name]

    def bind(self, batch: FlatBatch, reading: Reading) -> "NativeAttend":
        """The tensors as one step's attention sees them."""
        return NativeAttend(self, batch, reading)

    # What the probe sees.

    def scan(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """See `Observable.scan`."""
        written, torn = np.zeros((2, self.num_slots), dtype=np.bool_)
        for name, tensor in self.tensors.items():
            here = slice(self._starts[name], self._starts[name] + tensor.shape[2])
            written[here], torn[here] = scan_parts([tensor], slot_dims=(2,))
        return written, torn

    def holdings(self) -> Holdings:
        """Who holds each slot, by the tensors that there are."""
        lengths = np.array([self.tensors[name].shape[2] for name in self.rows], dtype=np.int64)
        rows = np.array(list(self.rows.values()), dtype=np.int64)
        starts = np.array([self._starts[name] for name in self.rows], dtype=np.int64)
        position = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        slot = np.repeat(starts, lengths) + position
        num_asked = np.zeros(self.max_rows, dtype=np.int64)
        num_asked[rows] = lengths
        return Holdings(
            num_slots=self.num_slots,
            slot=slot,
            row=np.repeat(rows, lengths),
            position=position,
            num_asked=num_asked,
            fills_rounding=self._fills_rounding,
            num_shared=len(slot) - len(np.unique(slot)),
        )

    def cached_slots(self) -> NDArray[np.bool_]:
        """None."""
        return np.zeros(self.num_slots, dtype=np.bool_)

    def snapshot(self) -> RangeRows:
        """Where each sequence's slots are by number, and how long its tensor is."""
        ranges = [
            (start, start + self.tensors[name].shape[2], start + self.tensors[name].shape[2])
            for name, start in self._starts.items()
        ]
        return RangeRows(tuple(self._starts), np.array(ranges, dtype=np.int64).reshape(-1, 3))

    def block_tables(self) -> dict[str, BlockTable]:
        """Each sequence's range."""
        return self.snapshot().as_dict()

    def _empty(self, length: int) -> Tensor:
        layers, two, heads, head_dim = self._shape
        return new_pool((layers, two, length, heads, head_dim), self.dtype, self.device)

    def _lengthen(self, name: str, start: int, length: int) -> None:
        self._starts[name] = start
        old = self.tensors[name]
        if length > old.shape[2]:
            more = self._empty(length - old.shape[2])
            self.tensors[name] = more if not old.shape[2] else torch.cat([old, more], dim=2)


class NativeAttend:
    """`engine.model.Attend` for one batch: writes and reads one tensor after the other."""

    def __init__(self, native: NativeTensors, batch: FlatBatch, reading: Reading) -> None:
        self.batch = batch
        self.options = reading.options()
        self._tensors = [native.tensors[chunk.sequence.name] for chunk in batch.chunks]
        self._dtype = native.dtype
        self._start = torch.zeros(1, dtype=torch.int64, device=native.device)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Stores `key` and `value` [T, HKV, D], then attends `query` [T, H, D]; gives [T, H, D]."""
        narrow = query.to(self._dtype)
        key, value, out = key.to(self._dtype), value.to(self._dtype), torch.empty_like(narrow)
        end = 0
        for place, (tensor, chunk) in enumerate(zip(self._tensors, self.batch.chunks, strict=True)):
            first, end = end, end + chunk.num_tokens
            keys, values = tensor[layer, 0], tensor[layer, 1]
            keys[chunk.start : chunk.context] = key[first:end]
            values[chunk.start : chunk.context] = value[first:end]
            where = (keys, values, self._start, self.batch.seq_lens[place : place + 1])
            if place < self.batch.num_decodes:
                contiguous_attention(narrow[first:end], *where, out=out[first:end], **self.options)
            else:
                loc = torch.tensor([0, end - first], dtype=torch.int32, device=query.device)
                contiguous_prefill(narrow[first:end], *where, loc, out=out[first:end], **self.options)
        return out.to(query.dtype)
