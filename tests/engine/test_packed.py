"""Matrices in panels multiply as plain ones do, and no row of a product knows of the others."""

import weakref

import pytest
import torch
from torch import Tensor

from engine.model import LlamaModel
from engine.packed import PackedMatrix, can_pack, project
from engine.packed_loops import BLOCK
from tests.engine.checkpoint.making import served_logits
from tests.engine.running import tiny

CPU = torch.device("cpu")


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("num_rows", [0, 1, 2, 3, 4, 31, BLOCK + 5, 2 * BLOCK])
@pytest.mark.parametrize(("num_out", "num_in"), [(960, 576), (7, 3), (1, 1), (33, 193), (24, 200)])
def test_a_packed_matrix_multiplies_as_a_plain_one(num_rows: int, num_out: int, num_in: int) -> None:
    x, matrix, bias = drawn(num_rows, num_in), drawn(num_out, num_in), drawn(num_out)
    for one in (bias, None):
        torch.testing.assert_close(
            project(x, PackedMatrix(matrix), one), project(x, matrix, one), rtol=1e-5, atol=1e-4
        )


def test_rows_that_do_not_lie_one_after_another_are_multiplied_too() -> None:
    matrix, wide = drawn(30, 16), drawn(5, 40)
    torch.testing.assert_close(PackedMatrix(matrix)(wide[:, 3:19], None), wide[:, 3:19] @ matrix.T)


def test_a_row_gets_the_same_bits_in_every_batch_and_on_any_number_of_threads(two_threads: None) -> None:
    x, matrix = drawn(BLOCK + 7, 300), PackedMatrix(drawn(500, 300))
    whole = matrix(x, None)
    for first, last in [(0, 1), (3, 5), (2, 9), (BLOCK - 1, BLOCK + 3)]:
        assert torch.equal(matrix(x[first:last], None), whole[first:last])
    torch.set_num_threads(1)
    assert torch.equal(matrix(x, None), whole)


def test_rows_of_a_packed_matrix_are_those_of_the_plain_one() -> None:
    matrix, index = drawn(50, 9), torch.tensor([49, 0, 23, 24, 24])
    assert torch.equal(PackedMatrix(matrix)[index], matrix[index])


@pytest.mark.parametrize("is_tied", [True, False])
def test_a_packed_model_gives_the_logits_of_a_plain_one(is_tied: bool) -> None:
    plain, packed = (model_of_its_own(is_tied) for _ in range(2))
    packed.pack()
    packed.pack()
    ids = list(range(3, 30))
    torch.testing.assert_close(served_logits(packed, ids), served_logits(plain, ids), rtol=0, atol=5e-5)
    assert packed.num_weight_bytes == plain.num_weight_bytes


def test_packing_keeps_no_second_copy_of_any_matrix() -> None:
    """The embedding of a tied model stood beside its packed self once: 113 MB of SmolLM2's 538."""
    model = model_of_its_own(is_tied=True)
    layer = model.layers[0]
    plain = [
        weakref.ref(one) for one in (model.embedding, layer.qkv, layer.output, layer.gate_up, layer.down)
    ]
    del layer
    model.pack()
    assert [one() for one in plain] == [None] * 5
    assert model.embedding is model.lm_head


def test_tokens_that_go_through_an_mlp_few_at_a_time_get_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wide step's inner vectors took 38 MB at 2,048 tokens when all went through at once."""
    model, ids = model_of_its_own(is_tied=False), list(range(3, 30))
    model.pack()
    whole = served_logits(model, ids)
    monkeypatch.setattr("engine.model.CPU_MLP_ROWS", 5)
    assert torch.equal(served_logits(model, ids), whole)


def model_of_its_own(is_tied: bool) -> LlamaModel:
    """Of the size of `tiny`, not shared with any other test."""
    model = LlamaModel(tiny().spec, 0, torch.float32, CPU)
    if is_tied:
        model.lm_head = model.embedding
        model.weights = type(model.weights)(model.embedding, model.layers, model.final_norm, model.embedding)
    return model


def test_only_float32_on_a_cpu_is_packed() -> None:
    assert not can_pack(torch.bfloat16, CPU)
    assert not can_pack(torch.float32, torch.device("cuda"))
    model = LlamaModel(tiny().spec, 0, torch.bfloat16, CPU)
    model.pack()
    assert isinstance(model.lm_head, torch.Tensor)


def test_what_does_not_fit_a_matrix_is_an_error_not_a_read_beyond_it() -> None:
    matrix = PackedMatrix(torch.randn(50, 8))
    for x in (torch.randn(1, 9), torch.randn(1, 5), torch.randn(8)):
        with pytest.raises(ValueError, match=r"must be \[rows, 8\]"):
            matrix(x, None)
    for index in (-1, 50):
        with pytest.raises(IndexError, match="the matrix has 0 to 49"):
            matrix[torch.tensor([3, index])]
    with pytest.raises(ValueError, match="with something in it"):
        PackedMatrix(torch.randn(5, 0))
