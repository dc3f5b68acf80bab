"""Out of memory on the device or the host, told to people: what was asked for, and what to make smaller."""

from collections.abc import Generator
from contextlib import contextmanager

import torch

from sim.errors import InputError

CPU_SIGNS = (
    "can't allocate memory",
    "not enough memory",
)  # PyTorch's CPU allocator raises a plain RuntimeError
REMEDY = "use a smaller pool (--pool-tokens, --pool-blocks), fewer --max-seqs, or a smaller --model"


@contextmanager
def memory_told() -> Generator[None]:
    """Also a decorator. Raises InputError in place of what PyTorch and Python raise when memory is out."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise InputError(f"out of memory on the device: {_first_sentence(error)}; {REMEDY}") from error
    except MemoryError as error:
        raise InputError(f"out of memory on this machine; {REMEDY}") from error
    except RuntimeError as error:
        if not any(sign in str(error) for sign in CPU_SIGNS):
            raise
        raise InputError(f"out of memory on this machine: {_first_sentence(error)}; {REMEDY}") from error


def _first_sentence(error: Exception) -> str:
    text = str(error).rpartition("DefaultCPUAllocator: ")[2]
    return text.split(". ")[0].strip().rstrip(".")[:200]
