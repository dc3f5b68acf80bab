"""Padded, recorded decode steps give the tokens of plain ones, and are recorded once for each bucket.

A graph needs a GPU. Here a stand-in records by keeping the function, and replays by calling it.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.attend import Reading
from engine.flat import flatten
from engine.graphs import DecodeGraphs, bucket_of, make_graphs
from engine.measure import execute
from engine.model import LlamaModel
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


@pytest.mark.parametrize(("kv_dtype", "num_tokens"), [("fp32", 2), ("int8", 1)], ids=["prompt", "quantized"])
def test_steps_with_a_prompt_or_a_quantized_cache_run_as_they_are(kv_dtype: str, num_tokens: int) -> None:
    model = LlamaModel(get_model("tiny"), 0, torch.float32, CPU)
    recorder = Recorder()
    pool = small_pool(model, kv_dtype)
    pool.alloc("a", event(Kind.ALLOC, "a", blocks=[0]))
    pool.flush()
    chunks = [chunk_of("a", 0, num_tokens, is_prefill=num_tokens > 1)]
    flat = flatten(chunks, {"a": torch.arange(9).numpy()}, pool.rows, CPU)
    logits = DecodeGraphs(model, recorder).forward(flat, pool.bind(flat, Reading("cpu")))
    assert logits.shape == (1, model.spec.vocab)
    assert recorder.num_recorded == 0


def test_on_a_cpu_graphs_are_off_and_asking_for_them_is_refused() -> None:
    model = LlamaModel(get_model("tiny"), 0, torch.float32, CPU)
    assert make_graphs("auto", model, "auto") is None
    with pytest.raises(InputError, match=r"--graphs on: only a CUDA device .* use --graphs auto"):
        make_graphs("on", model, "auto")
    with pytest.raises(InputError, match="graphs"):
        make_graphs("always", model, "auto")
