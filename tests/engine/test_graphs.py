"""Padded, recorded decode steps give the tokens of plain ones, and are recorded once for each bucket.

A graph needs a GPU. Here a stand-in records by keeping the function, and replays by calling it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.attend import Reading, reach_of
from engine.flat import flatten
from engine.graphs import DecodeGraphs, bucket_of, make_graphs
from engine.measure import execute
from engine.model import LlamaModel
from engine.pool import PagedPool
from engine.setup import make_model, make_pool
from sim.errors import InputError
from sim.events import Kind
from sim.models import get_model
from tests.engine.running import CROWD, PRESSED, crowd, tiny
from tests.engine.test_attend import CPU, chunk_of, event, small_pool


class Recorder:
    """Stands in for CUDA graphs."""

    def __init__(self) -> None:
        self.num_recorded = self.num_replays = 0

    def __call__(self, run: Callable[[], Tensor]) -> "Recorder.Kept":
        self.num_recorded += 1
        return Recorder.Kept(self, run)

    class Kept:
        def __init__(self, recorder: "Recorder", run: Callable[[], Tensor]) -> None:
            self._recorder, self._run = recorder, run

        def replay(self) -> Tensor:
            self._recorder.num_replays += 1
            return self._run()


def test_buckets_are_1_2_4_8_and_then_multiples_of_8() -> None:
    assert [bucket_of(n) for n in range(1, 10)] == [1, 2, 4, 4, 8, 8, 8, 8, 16]
    assert [bucket_of(n) for n in (16, 17, 63, 64, 65)] == [16, 24, 64, 64, 72]


@pytest.mark.parametrize(
    "dials", [PRESSED, {"allocator": "oracle", "pool_tokens": 200}], ids=["paged", "contiguous"]
)
def test_recorded_steps_emit_the_tokens_of_plain_ones_and_are_recorded_once_a_bucket(
    dials: dict[str, Any],
) -> None:
    config, recorder = tiny(**dials), Recorder()
    model = make_model(config, CPU)
    graphs = DecodeGraphs(model, recorder)
    run = execute(CROWD, config, model, make_pool(config, CPU), backend="cpu", graphs=graphs)
    assert run.tokens == crowd(**dials).tokens
    assert recorder.num_replays > 20
    assert 3 <= recorder.num_recorded <= 5  # 1, 2, 4, 8 and 16
    assert graphs.num_recorded == recorder.num_recorded


def test_padding_writes_nothing_and_what_a_larger_batch_left_in_the_buffers_is_not_read() -> None:
    model = LlamaModel(get_model("tiny"), 0, torch.float32, CPU)
    recorder = Recorder()
    graphs = DecodeGraphs(model, recorder)
    ids = dict.fromkeys("abcd", torch.arange(40).numpy())
    plain, padded = small_pool(model), small_pool(model)
    prompts = [chunk_of(name, 0, 9) for name in "abcd"]
    for pool in (plain, padded):
        for block, name in enumerate("abcd"):
            pool.alloc(name, event(Kind.ALLOC, name, blocks=[block, block + 4]))
        pool.flush()
        flat = flatten(prompts, ids, pool.rows, CPU)
        model.forward(flat.token_ids, flat.positions, pool.bind(flat, Reading("cpu")), flat.emitting)
    for position, names in enumerate(("abcd", "abc", "bca"), start=9):  # all in the bucket of 4
        chunks = [chunk_of(name, position, 1, is_prefill=False) for name in names]
        flat = flatten(chunks, ids, plain.rows, CPU)
        wanted = model.forward(
            flat.token_ids, flat.positions, plain.bind(flat, Reading("cpu")), flat.emitting
        )
        flat = flatten(chunks, ids, padded.rows, CPU)
        got = graphs.forward(flat, padded.bind(flat, Reading("cpu")))
        torch.testing.assert_close(got, wanted)
        torch.testing.assert_close(padded.storage, plain.storage, equal_nan=True)
    assert (recorder.num_recorded, recorder.num_replays) == (1, 3)


@pytest.mark.parametrize("kind", ["prompt", "drafts", "heavy hitters"])
def test_steps_that_are_no_plain_decodes_run_as_they_are(kind: str) -> None:
    model = LlamaModel(get_model("tiny"), 0, torch.float32, CPU)
    recorder, pool = Recorder(), small_pool(model)
    pool.alloc("a", event(Kind.ALLOC, "a", blocks=[0]))
    pool.flush()
    chunks = [chunk_of("a", 0, 1 if kind == "heavy hitters" else 2, is_prefill=kind == "prompt")]
    flat = flatten(chunks, {"a": torch.arange(9).numpy()}, pool.rows, CPU)
    until = torch.full((4, 64), 99, dtype=torch.int32) if kind == "heavy hitters" else None
    logits = DecodeGraphs(model, recorder).forward(flat, pool.bind(flat, Reading("cpu", seen_until=until)))
    assert logits.shape == (1, model.spec.vocab)
    assert recorder.num_recorded == 0


@pytest.mark.parametrize("kv_dtype", ["int8", "fp8"])
def test_steps_over_codes_are_recorded_too_and_emit_the_same_tokens(kv_dtype: str) -> None:
    config, recorder = tiny(**PRESSED, kv_dtype=kv_dtype), Recorder()
    model = make_model(config, CPU)
    pool, graphs = make_pool(config, CPU), DecodeGraphs(model, recorder)
    run = execute(CROWD, config, model, pool, backend="cpu", graphs=graphs)
    assert run.tokens == crowd(**PRESSED, kv_dtype=kv_dtype).tokens
    assert recorder.num_replays > 20


def test_tables_are_cut_to_a_power_of_two_of_tokens_that_holds_the_longest_sequence() -> None:
    assert [reach_of(longest) for longest in (1, 1024, 1025, 2048, 2049)] == [1024, 1024, 2048, 2048, 4096]


def test_a_sequence_that_outgrows_its_reach_gets_a_graph_with_longer_tables() -> None:
    """A graph goes on reading the columns that it was recorded with."""
    model = LlamaModel(get_model("tiny"), 0, torch.float32, CPU)
    recorder = Recorder()
    graphs = DecodeGraphs(model, recorder)
    pool = PagedPool(
        model.spec, num_blocks=40, block_size=64, num_host_blocks=0, max_rows=2, max_len=2560,
        dtype=torch.float32, device=CPU,
    )  # fmt: skip
    pool.alloc("a", event(Kind.ALLOC, "a", blocks=list(range(39, 10, -1))))
    pool.flush()
    pool.storage.normal_(generator=torch.Generator().manual_seed(3))
    for position in (1022, 1023, 1024, 1500):
        flat = flatten(
            [chunk_of("a", position, 1, is_prefill=False)], {"a": np.arange(2000) % 90}, pool.rows, CPU
        )
        kv = pool.bind(flat, Reading("cpu"))
        wanted = model.forward(flat.token_ids, flat.positions, kv, flat.emitting)
        torch.testing.assert_close(graphs.forward(flat, pool.bind(flat, Reading("cpu"))), wanted)
    assert recorder.num_recorded == graphs.num_recorded == 2


def test_on_a_cpu_graphs_are_off_and_asking_for_them_is_refused() -> None:
    model = LlamaModel(get_model("tiny"), 0, torch.float32, CPU)
    assert make_graphs("auto", model, "auto") is None
    with pytest.raises(InputError, match=r"--graphs on: only a CUDA device .* use --graphs auto"):
        make_graphs("on", model, "auto")
    with pytest.raises(InputError, match="graphs"):
        make_graphs("always", model, "auto")
