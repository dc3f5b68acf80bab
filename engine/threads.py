"""Who may use how many threads while a model runs."""

from collections.abc import Generator
from contextlib import contextmanager

from engine.model import LlamaModel
from engine.team import team_size, torch_gives_way

SMALL_MODEL_BYTES = 32 * 2**20  # below it a matrix product ends sooner than a second thread wakes up


@contextmanager
def threads_for(model: LlamaModel) -> Generator[None]:
    """On a CPU, a small model runs on one thread, and a packed one leaves all threads to its own loops."""
    if model.device.type != "cpu":
        yield
        return
    is_small = model.num_weight_bytes < SMALL_MODEL_BYTES
    if not is_small and not model.is_packed:
        yield  # its products are torch's
        return
    with torch_gives_way(1 if is_small else team_size()):
        yield
