"""The decoder against a plain forward pass, and what its random weights must be like."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine import measure
from engine.executor import TorchExecutor
from engine.measure import execute
from engine.model import LlamaModel
from engine.setup import make_model, make_pool
from engine.weights import hashed_uniform
from sim import Trace
from tests.engine.attention.processes import outside_the_interpreter
from tests.engine.dense import dense_logits
from tests.engine.running import CROWD, PRESSED, ROOMY, crowd, tiny
from tests.making import requests

CPU = torch.device("cpu")
TRACE = requests((37, 9), (5, 20), (64, 3), (1, 12))


class Recorder(LlamaModel):
    """A model that keeps the logits of every forward pass."""

    recorded: list[Tensor]

    def forward(self, *args: object) -> Tensor:
        logits = super().forward(*args)  # type: ignore[arg-type]
        self.recorded.append(logits)
        return logits


def served_logits(
    trace: Trace, monkeypatch: pytest.MonkeyPatch, **dials: object
) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs (logits as served, dense logits), one for each emitted token."""
    config = tiny(**dials)
    model = make_model(config, CPU)
    model.__class__, model.recorded = Recorder, []  # type: ignore[assignment,attr-defined]
    emitted_by: list[list[str]] = []
    original = TorchExecutor._emit

    def emit(executor: TorchExecutor, flat: object, logits: Tensor) -> None:
        emitted_by.append([chunk.sequence.request.id for chunk in flat.emitting_chunks])  # type: ignore[attr-defined]
        original(executor, flat, logits)  # type: ignore[arg-type]
        tokens.update(executor.histories.tokens)

    tokens: dict[str, Tensor] = {}
    monkeypatch.setattr(TorchExecutor, "_emit", emit)
    execute(trace, config, model, make_pool(config, CPU), backend="cpu")
    dense = {id: dense_logits(model, ids.tolist()) for id, ids in tokens.items()}
    num_seen = {request.id: request.prompt - 1 for request in trace.requests}
    for ids, logits in zip(emitted_by, model.recorded, strict=True):  # type: ignore[attr-defined]
        for id, row in zip(ids, logits, strict=True):
            yield row, dense[id][num_seen[id]]
            num_seen[id] += 1


@pytest.mark.parametrize(
    "dials", [{}, {"allocator": "max"}, {"chunked_prefill": True, "max_batch_tokens": 16}]
)
def test_served_logits_equal_those_of_a_dense_forward_pass_without_a_cache(
    dials: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = list(served_logits(TRACE, monkeypatch, pool_tokens=1024, **dials))
    assert len(pairs) == TRACE.output_tokens
    for served, dense in pairs:
        torch.testing.assert_close(served.double(), dense, rtol=0, atol=5e-5)


@pytest.mark.parametrize(("kv_dtype", "atol"), [("fp16", 0.02), ("bf16", 0.15)])
def test_a_narrow_cache_changes_the_logits_by_its_rounding_and_no_more(
    kv_dtype: str, atol: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for served, dense in served_logits(TRACE, monkeypatch, pool_tokens=1024, kv_dtype=kv_dtype):
        torch.testing.assert_close(served.double(), dense, rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_in_a_narrow_dtype_stays_near_the_dense_forward_pass(dtype: torch.dtype) -> None:
    from tests.engine.test_attend import serve_one  # the whole prompt in one chunk

    config = tiny(**ROOMY)
    model = LlamaModel(config.spec, 0, dtype, CPU)
    ids = list(range(3, 40))
    served = serve_one(model, ids, {torch.bfloat16: "bf16", torch.float16: "fp16"}[dtype])
    deviation = (served.double() - dense_logits(model, ids)[-1]).abs().max()
    assert served.dtype is dtype
    assert 0 < deviation < (0.3 if dtype is torch.bfloat16 else 0.05)


def test_greedy_decoding_does_not_collapse_to_a_few_tokens() -> None:
    by_request = crowd(**ROOMY).tokens.values()
    assert all(len(set(emitted)) > len(emitted) // 3 for emitted in by_request)
    assert len({token for emitted in by_request for token in emitted}) > 60  # of about 200 emitted


def test_what_is_emitted_hangs_on_the_first_token_of_the_prompt() -> None:
    model = LlamaModel(tiny().spec, 0, torch.float32, CPU)
    prompt = list(range(60))
    changed = dense_logits(model, [7, *prompt[1:]])[-1] - dense_logits(model, prompt)[-1]
    assert changed.abs().max() > 0.01  # a thousand times the tolerance of the test against the dense pass


def test_no_chosen_token_was_a_close_call() -> None:
    """The runner-up is behind by several times what any other order of sums can change."""
    assert crowd(**ROOMY).min_margin > 2e-5


def test_weights_do_not_depend_on_the_chunk_in_which_they_were_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = hashed_uniform(5, "w", (30, 7), 0.5, torch.float32, CPU)
    monkeypatch.setattr("engine.weights.CHUNK", 16)
    assert torch.equal(hashed_uniform(5, "w", (30, 7), 0.5, torch.float32, CPU), whole)


def test_weights_have_the_deviation_asked_for_and_differ_by_seed_and_name() -> None:
    drawn = [
        hashed_uniform(*key, (200, 200), 0.5, torch.float32, CPU) for key in ((0, "a"), (1, "a"), (0, "b"))
    ]
    for weights in drawn:
        assert abs(weights.mean()) < 0.01
        assert abs(weights.std() - 0.5) < 0.01
    correlations = torch.corrcoef(torch.stack([weights.flatten() for weights in drawn])).fill_diagonal_(0)
    assert correlations.abs().max() < 0.02


ON_BOTH = """
import torch
from engine.model import LlamaModel
from tests.engine.running import tiny

one, other = (LlamaModel(tiny().spec, 0, torch.float32, torch.device(name)) for name in ("cpu", {other!r}))
pairs = [(one.lm_head, other.lm_head), (one.layers[1].qkv, other.layers[1].qkv)]
print("true" if all(torch.equal(ours, theirs.cpu()) for ours, theirs in pairs) else "false")
"""


@pytest.mark.gpu
@pytest.mark.skipif(not Path("/dev/nvidia0").exists(), reason="needs a CUDA device")
def test_weights_are_the_same_bits_on_a_gpu() -> None:
    assert outside_the_interpreter("-c", ON_BOTH.format(other="cuda")) is True


def test_two_runs_of_one_seed_emit_the_same_and_another_seed_does_not() -> None:
    again = measure(CROWD, tiny(**PRESSED), backend="cpu", device="cpu", clock="modelled")
    assert crowd(**PRESSED).tokens == again.tokens
    assert crowd(**PRESSED, seed=1).tokens != crowd(**PRESSED).tokens
    assert set(crowd(**PRESSED).tokens) == {request.id for request in CROWD.requests}
