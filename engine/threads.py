"""How many threads torch may use for a model."""

from collections.abc import Generator
from contextlib import contextmanager

import torch

from engine.model import LlamaModel

SMALL_MODEL_BYTES = 32 * 2**20  # below it a matrix product ends sooner than a second thread wakes up


@contextmanager
def threads_for(model: LlamaModel) -> Generator[None]:
    """One thread for a small model on a CPU; torch's own number, restored afterwards, otherwise."""
    if model.device.type != "cpu" or model.num_weight_bytes >= SMALL_MODEL_BYTES:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
