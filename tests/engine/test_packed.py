"""Matrices in oneDNN's layout multiply as plain ones do."""

import pytest
import torch

from engine.model import LlamaModel
from engine.packed import PackedMatrix, can_pack, project
from tests.engine.checkpoint.making import served_logits
from tests.engine.running import tiny

CPU = torch.device("cpu")
needs_packing = pytest.mark.skipif(
    not can_pack(torch.float32, CPU), reason="this build of torch packs no matrices for the CPU"
)


@needs_packing
@pytest.mark.parametrize("num_rows", [1, 2, 31, 32, 33, 200])
@pytest.mark.parametrize(("num_out", "num_in"), [(960, 576), (7, 3), (1, 1), (33, 65)])
def test_a_packed_matrix_multiplies_as_a_plain_one(num_rows: int, num_out: int, num_in: int) -> None:
    random = torch.Generator().manual_seed(num_rows)
    x = torch.randn(num_rows, num_in, generator=random)
    matrix, bias = torch.randn(num_out, num_in, generator=random), torch.randn(num_out, generator=random)
    for one in (bias, None):
        torch.testing.assert_close(
            project(x, PackedMatrix(matrix), one), project(x, matrix, one), rtol=1e-5, atol=1e-4
        )


@needs_packing
def test_a_packed_model_gives_the_logits_of_a_plain_one_and_counts_the_same_bytes() -> None:
    plain, packed = (LlamaModel(tiny().spec, 0, torch.float32, CPU) for _ in range(2))
    packed.pack()
    packed.pack()
    ids = list(range(3, 30))
    torch.testing.assert_close(served_logits(packed, ids), served_logits(plain, ids), rtol=0, atol=5e-5)
    assert packed.num_weight_bytes == plain.num_weight_bytes


def test_only_float32_on_a_cpu_is_packed() -> None:
    assert not can_pack(torch.bfloat16, CPU)
    assert not can_pack(torch.float32, torch.device("cuda"))
    model = LlamaModel(tiny().spec, 0, torch.bfloat16, CPU)
    model.pack()
    assert isinstance(model.lm_head, torch.Tensor)
