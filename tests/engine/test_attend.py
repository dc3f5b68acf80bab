"""One forward pass by hand through a pool, without a scheduler."""

import torch
from torch import Tensor

from engine.attend import Reading
from engine.flat import Span, flatten
from engine.model import LlamaModel
from engine.pool import PagedPool
from engine.setup import KV_DTYPES
from sim.batch import Chunk
from sim.events import Event, Kind
from sim.request import Request, SequenceGroup

CPU = torch.device("cpu")


def small_pool(model: LlamaModel, kv_dtype: str = "fp32", num_blocks: int = 8) -> PagedPool:
    return PagedPool(
        model.spec,
        num_blocks=num_blocks,
        block_size=8,
        num_host_blocks=4,
        max_rows=4,
        max_len=64,
        dtype=KV_DTYPES[kv_dtype],
        device=CPU,
    )


def event(kind: Kind, request: str, **changes: object) -> Event:
    return Event(kind, 1, 0.0, request, changes, "by hand")


def chunk_of(
    request: str, start: int, num_tokens: int, *, is_prefill: bool = True, emits: bool = True
) -> Chunk:
    asked = Request(id=request, arrival_s=0.0, prompt=1, output=1, max_tokens=1)
    group = SequenceGroup(asked, order=0)
    return Chunk(group, group.sequences[0], start, num_tokens, is_prefill, emits)


def serve_one(model: LlamaModel, ids: list[int], kv_dtype: str) -> Tensor:
    """Logits [vocab] after one prefill of `ids`."""
    pool = small_pool(model, kv_dtype)
    pool.alloc("r", event(Kind.ALLOC, "r", blocks=[5, 0, 7, 2, 1]))
    pool.flush()
    tokens = {"r": torch.tensor(ids).numpy()}
    flat = flatten([chunk_of("r", 0, len(ids))], tokens, pool.rows, CPU)
    return model.forward(flat.token_ids, flat.positions, pool.bind(flat, Reading("torch")), flat.emitting)[0]


def test_a_batch_is_laid_out_decodes_first_with_positions_and_lengths_of_each_sequence() -> None:
    ids = torch.arange(100).numpy()
    chunks = [
        chunk_of("a", 4, 3, emits=False),
        chunk_of("b", 9, 1, is_prefill=False),
        chunk_of("c", 0, 2),
        chunk_of("d", 20, 1, is_prefill=False),
    ]
    flat = flatten(chunks, dict.fromkeys("abcd", ids), {"a": 3, "b": 1, "c": 0, "d": 2}, CPU)
    assert [chunk.sequence.request.id for chunk in flat.chunks] == ["b", "d", "a", "c"]
    assert flat.num_decodes == 2
    assert flat.positions.tolist() == [9, 20, 4, 5, 6, 0, 1]
    assert flat.token_ids.tolist() == flat.positions.tolist()
    assert flat.sequence_of.tolist() == [0, 1, 2, 2, 2, 3, 3]
    assert flat.rows.tolist() == [1, 2, 3, 0]
    assert flat.seq_lens.tolist() == [10, 21, 7, 2]
    (decodes, short) = flat.spans
    assert (decodes.sequences, decodes.tokens, decodes.starts) == (slice(0, 2), slice(0, 2), None)
    assert (short.sequences, short.tokens, short.max_query_len) == (slice(2, 4), slice(2, 7), 8)
    assert short.starts is not None and short.starts.tolist() == [0, 3, 5]
    assert flat.emitting.tolist() == [0, 1, 6]  # chunk a leaves some of its input for later
    assert [chunk.sequence.request.id for chunk in flat.emitting_chunks] == ["b", "d", "c"]


def test_a_batch_of_decodes_alone_has_no_prefill() -> None:
    flat = flatten([chunk_of("b", 2, 1, is_prefill=False)], {"b": torch.arange(9).numpy()}, {"b": 0}, CPU)
    assert flat.spans == [Span(slice(0, 1), slice(0, 1))]
    assert flat.num_decodes == 1
