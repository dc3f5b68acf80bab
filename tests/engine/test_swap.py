"""Host memory for swapped blocks. A GPU's copy stream is played by one that does not wait."""

from contextlib import nullcontext
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.sentinel import bits_of, is_written, new_pool
from engine.swap import HostBlocks, runs

SHAPE = (20, 2, 3, 4)


@pytest.fixture(params=["cpu", "stream"])
def host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> HostBlocks:
    host = HostBlocks(new_pool(SHAPE, torch.float32, torch.device("cpu")), 12)
    if request.param == "stream":
        stream: Any = SimpleNamespace(wait_stream=lambda _: None, synchronize=lambda: None)
        monkeypatch.setattr(host, "_stream", stream)
        monkeypatch.setattr(torch.cuda, "stream", nullcontext)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda _: stream)
        monkeypatch.setattr(torch.Tensor, "record_stream", lambda *_: None)
    return host


@pytest.mark.parametrize("seed", range(20))
def test_what_leaves_comes_back_where_it_is_told_to(host: HostBlocks, seed: int) -> None:
    random = Random(seed)
    device = host._device_pool
    device[:] = torch.randn(SHAPE)
    before = bits_of(device).clone()
    count = random.randint(1, 12)
    left, host_blocks = (random.sample(range(size), count) for size in (20, 12))
    host.store(left, host_blocks)
    assert torch.equal(bits_of(host.pool)[host_blocks], before[left])
    assert is_written(host.pool).flatten(1).any(dim=1).sum() == count
    back = random.sample(range(20), count)
    device[:] = 0.0
    host.restore(host_blocks, back)
    assert torch.equal(bits_of(device)[back], before[left])
    assert int((device != 0).flatten(1).any(dim=1).sum()) == count
    assert not is_written(host.pool).any()


def test_blocks_side_by_side_are_one_transfer() -> None:
    assert list(runs([3, 4, 5, 8, 10, 11])) == [
        (slice(0, 3), slice(3, 6)),
        (slice(3, 4), slice(8, 9)),
        (slice(4, 6), slice(10, 12)),
    ]
    assert list(runs([])) == []
