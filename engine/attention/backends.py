"""Which backend runs a call. Modules are imported on first use: numba and Triton take a while."""

from collections.abc import Callable
from importlib import import_module

from torch import Tensor

from engine.attention.checks import require
from engine.attention.features import Features
from engine.attention.kv import KV, Stored

BACKENDS = {
    "torch": "engine.attention.reference",
    "cpu": "engine.attention.cpu_backend",
    "triton": "engine.attention.triton_backend",
}

MAX_SHORT = 8  # query tokens of a sequence that operation `short` packs into one tile, as in decoding
Run = Callable[[Tensor, Stored, Tensor], None]  # query, a layer's cache, out


def choose(backend: str, tensor: Tensor) -> str:
    """The name of the backend that works on the tensor."""
    if backend == "auto":
        backend = "triton" if tensor.is_cuda else "cpu"
    require(backend in BACKENDS, f'backend "{backend}": must be one of auto, {", ".join(BACKENDS)}')
    return backend


def pick(operation: str, backend: str, tensor: Tensor) -> Callable[..., None]:
    """The backend's function."""
    return getattr(import_module(BACKENDS[choose(backend, tensor)]), operation)


def plan(
    operation: str, backend: str, query: Tensor, kv: KV, step: tuple[Tensor, ...], feats: Features
) -> Run:
    """The backend's function over one step's table, lengths and starts, for the tensors of any layer.

    Operations are `decode` of one query for each sequence, `short` of a few, `prefill` of any number. A
    backend that can do part of the work once has a `plan_decode` and so on.
    """
    module = import_module(BACKENDS[choose(backend, query)])
    planner = getattr(module, f"plan_{operation}", None)
    if planner:
        return planner(query, kv, *step, feats)
    function: Callable[..., None] = getattr(module, operation)

    def run(query: Tensor, stored: Stored, out: Tensor) -> None:
        function(query, kv.over(stored), *step, feats, out)

    return run
