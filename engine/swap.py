"""Host memory for swapped blocks. On a GPU it is pinned, and copies run on a stream of their own:

    compute stream   ... | gather blocks | step | step ...            ... | scatter blocks | step
    copy stream                          | to host, run by run |      | to device |

A gathered copy is what leaves, so the blocks may be given to the next sequence at once. It is gathered in the
order of the host's blocks, so that those side by side there (a run) are one transfer: each costs time
before its first byte. Coming back, the compute stream waits for the copy; swaps of one run are
in order on the copy stream, so what comes back has left before. On a CPU both are plain copies.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from engine.attention import swap_blocks
from engine.sentinel import bits_of, fill, new_pool


class HostBlocks:
    """Blocks like those of `device_pool`, in host memory."""

    def __init__(self, device_pool: Tensor, num_blocks: int) -> None:
        self._device_pool = device_pool
        is_cuda = device_pool.is_cuda
        shape = (num_blocks, *device_pool.shape[1:])
        self.pool = new_pool(shape, device_pool.dtype, torch.device("cpu"), pinned=is_cuda)
        self._stream = torch.cuda.Stream(device_pool.device) if is_cuda and num_blocks else None

    @property
    def num_bytes(self) -> int:
        """Bytes of all blocks."""
        return self.pool.nbytes

    def store(self, blocks: list[int], host_blocks: list[int]) -> None:
        """Device blocks over host blocks."""
        if self._stream is None:
            swap_blocks([self._device_pool], [self.pool], _pairs(blocks, host_blocks))
            return
        blocks, host_blocks = _by_host(blocks, host_blocks)
        staged = bits_of(self._device_pool)[torch.tensor(blocks, device=self._device_pool.device)]
        self._stream.wait_stream(torch.cuda.current_stream(self._device_pool.device))
        host = bits_of(self.pool)
        with torch.cuda.stream(self._stream):
            for ours, theirs in runs(host_blocks):
                host[theirs].copy_(staged[ours], non_blocking=True)
        staged.record_stream(self._stream)  # not to be reused before the copies have read it

    def restore(self, host_blocks: list[int], blocks: list[int]) -> None:
        """Host blocks over device blocks; the host's hold the sentinel afterwards."""
        if self._stream is None:
            swap_blocks([self.pool], [self._device_pool], _pairs(host_blocks, blocks))
        else:
            self._restore_from_pinned(host_blocks, blocks, self._stream)
        fill(self.pool, torch.tensor(host_blocks, dtype=torch.int64))

    def _restore_from_pinned(
        self, host_blocks: list[int], blocks: list[int], stream: torch.cuda.Stream
    ) -> None:
        device, host = self._device_pool.device, bits_of(self.pool)
        blocks, host_blocks = _by_host(blocks, host_blocks)
        current = torch.cuda.current_stream(device)
        staged = torch.empty((len(blocks), *host.shape[1:]), dtype=host.dtype, device=device)
        stream.wait_stream(current)  # the memory of `staged` may be somebody's who is not done yet
        with torch.cuda.stream(stream):
            for ours, theirs in runs(host_blocks):
                staged[ours].copy_(host[theirs], non_blocking=True)
        staged.record_stream(stream)
        current.wait_stream(stream)
        bits_of(self._device_pool)[torch.tensor(blocks, device=device)] = staged
        stream.synchronize()  # the fill that follows is the host's own


def runs(numbers: Sequence[int]) -> Iterator[tuple[slice, slice]]:
    """Places in `numbers` and what stands there, as two slices for each stretch that counts up by one."""
    first = 0
    for place in range(1, len(numbers) + 1):
        if place == len(numbers) or numbers[place] != numbers[place - 1] + 1:
            yield slice(first, place), slice(numbers[first], numbers[place - 1] + 1)
            first = place


def _by_host(blocks: list[int], host_blocks: list[int]) -> tuple[list[int], list[int]]:
    order = sorted(range(len(blocks)), key=host_blocks.__getitem__)
    return [blocks[place] for place in order], [host_blocks[place] for place in order]


def _pairs(sources: list[int], destinations: list[int]) -> Tensor:
    return torch.tensor([sources, destinations], dtype=torch.int64).T
