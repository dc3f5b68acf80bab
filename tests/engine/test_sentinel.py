"""The sentinel cannot be computed, and nothing else is taken for it."""

import pytest
import torch

from engine.sentinel import SENTINELS, fill, is_written, new_pool

CPU = torch.device("cpu")
DTYPES = pytest.mark.parametrize("dtype", [dtype for dtype in SENTINELS if dtype.itemsize > 1])


@DTYPES
def test_a_new_pool_is_unwritten_and_every_element_is_a_nan(dtype: torch.dtype) -> None:
    pool = new_pool((3, 5), dtype, CPU)
    assert not is_written(pool).any()
    assert pool.isnan().all()


@DTYPES
def test_arithmetic_on_the_sentinel_never_gives_the_sentinel(dtype: torch.dtype) -> None:
    pool = new_pool((64,), dtype, CPU)
    one = torch.ones(64, dtype=dtype)
    for result in (
        pool + 0,
        pool * 1,
        pool - pool,
        pool + one,
        torch.fmax(pool, pool),
        pool @ torch.eye(64, dtype=dtype),
    ):
        assert is_written(result).all()
    for other in SENTINELS:
        if other is not dtype:
            assert is_written(pool.to(other)).all()


@DTYPES
def test_an_ordinary_nan_and_infinity_count_as_written(dtype: torch.dtype) -> None:
    values = torch.tensor([torch.nan, -torch.nan, torch.inf, -torch.inf, 0.0, -0.0], dtype=dtype)
    assert is_written(values).all()


@DTYPES
def test_copies_keep_the_sentinel(dtype: torch.dtype) -> None:
    pool = new_pool((4, 3), dtype, CPU)
    pool[1] = 1.0
    assert is_written(pool.clone()[[2, 1]]).tolist() == [[False] * 3, [True] * 3]


@DTYPES
def test_filling_touches_only_what_is_named(dtype: torch.dtype) -> None:
    pool = torch.ones(4, 3, dtype=dtype)
    fill(pool, torch.tensor([3, 1]))
    assert is_written(pool).all(dim=1).tolist() == [True, False, True, False]
    assert (pool[0] == 1).all()
