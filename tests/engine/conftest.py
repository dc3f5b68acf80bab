"""One thread for torch: the matrices here are small, threads waiting for a core are slow."""

from collections.abc import Generator

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture
def two_threads() -> Generator[None]:
    """Torch, and so the team, has two threads in this test."""
    yield from with_threads(2)


@pytest.fixture
def three_threads() -> Generator[None]:
    """Torch, and so the team, has three threads in this test."""
    yield from with_threads(3)


def with_threads(number: int) -> Generator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    yield
    torch.set_num_threads(before)
