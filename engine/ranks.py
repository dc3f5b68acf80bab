"""Tensor parallelism: which share of a model each rank has, and how shares become sums.

As in Megatron-LM (arXiv 1909.08053): the matrices that make queries, keys, values and the MLP's inner vector
are cut by rows, so that each rank has whole heads; the two that lead back are cut by columns, so that each
rank has a part of every sum, and one all-reduce after each adds them up. With more ranks than kv heads, each
kv head stands on several ranks. Embedding, norms and output projection stand on every rank.
"""

from typing import Protocol

import torch
import torch.distributed as distributed
from torch import Tensor

from engine.parameters import CutLayer, Layer
from sim.errors import InputError
from sim.models import ModelSpec
from sim.parallel import shard


class Ranks(Protocol):
    """The ranks that compute one model together, as one of them sees them."""

    rank: int
    size: int

    def sum(self, part: Tensor) -> Tensor:
        """The sum over all ranks of their `part`; every rank gets the same bits."""
        ...


class Alone:
    """One rank, which has everything."""

    rank = 0
    size = 1

    def sum(self, part: Tensor) -> Tensor:
        """The part is the whole."""
        return part


class ProcessGroup:
    """The processes that `torchrun` started. Needs `torch.distributed.init_process_group` before."""

    def __init__(self) -> None:
        self.rank = distributed.get_rank()
        self.size = distributed.get_world_size()

    def sum(self, part: Tensor) -> Tensor:
        """All-reduces `part` in place."""
        distributed.all_reduce(part)
        return part


ALONE = Alone()


def cut_for(spec: ModelSpec, ranks: Ranks) -> CutLayer:
    """What takes the rank's share of a layer. Raises InputError when the model cannot be dealt out evenly."""
    own = shard(spec, ranks.size)
    if spec.intermediate % ranks.size:
        raise InputError(
            f"{ranks.size} ranks with model {spec.name}: its MLP of {spec.intermediate} cannot be dealt out "
            f"evenly; give a divisor of {spec.intermediate}"
        )

    def cut(layer: Layer) -> Layer:
        return layer if ranks.size == 1 else cut_layer(layer, spec, own, ranks)

    return cut


def cut_layer(layer: Layer, spec: ModelSpec, own: ModelSpec, ranks: Ranks) -> Layer:
    """The rank's share of a whole layer; copies, so that the whole can be given up."""
    size = spec.head_dim
    heads = slice(ranks.rank * own.num_heads * size, (ranks.rank + 1) * own.num_heads * size)
    first_kv = ranks.rank * spec.num_kv_heads // ranks.size * size
    kv_heads = slice(first_kv, first_kv + own.num_kv_heads * size)
    share = spec.intermediate // ranks.size
    inner = slice(ranks.rank * share, (ranks.rank + 1) * share)
    sizes = [spec.num_heads * size, spec.num_kv_heads * size, spec.num_kv_heads * size]

    def cut_qkv(whole: Tensor) -> Tensor:
        query, key, value = whole.split(sizes)
        return torch.cat([query[heads], key[kv_heads], value[kv_heads]])

    whole = _plain(layer)
    gate, up = whole["gate_up"].chunk(2)
    return Layer(
        attention_norm=layer.attention_norm,
        qkv=cut_qkv(whole["qkv"]),
        output=whole["output"][:, heads].clone(),
        mlp_norm=layer.mlp_norm,
        gate_up=torch.cat([gate[inner], up[inner]]),
        down=whole["down"][:, inner].clone(),
        qkv_bias=None if layer.qkv_bias is None else cut_qkv(layer.qkv_bias),
    )


def _plain(layer: Layer) -> dict[str, Tensor]:
    matrices = {name: getattr(layer, name) for name in ("qkv", "output", "gate_up", "down")}
    assert all(isinstance(matrix, Tensor) for matrix in matrices.values()), "cut before packing"
    return matrices
