"""One model over several devices of one server (tensor parallelism, as Megatron-LM and vLLM cut it).

Every rank has all layers and a slice of each: its share of the query heads, of the feed-forward matrices and
of the embedding, and the keys and values of its own kv heads. With fewer kv heads than ranks each head stands
on several ranks, so that the cache of the whole server is larger than the model's:

    kv heads    ranks    on each rank    copies of a head
    8           4        2               1
    8           16       1               2

Block tables are the same on all ranks, and a block is a block of every rank: the pool that `--memory` leaves
on one of them is the pool.
"""

from dataclasses import dataclass, replace
from typing import Any

from sim.errors import InputError
from sim.hardware import Hardware
from sim.models import ModelSpec, element_bytes


def shard(spec: ModelSpec, ranks: int) -> ModelSpec:
    """The model as one of `ranks` ranks has it.

    Its parameters are counted as an equal share, rounded up; that norms, biases after a row-cut matrix and
    the projections of replicated kv heads stand on every rank (below 1 % of the weights) is left out.
    Raises InputError when the heads cannot be dealt out evenly.
    """
    if ranks == 1:
        return spec
    if spec.num_heads % ranks:
        raise InputError(
            f"--tensor-parallel {ranks} with --model {spec.name}: its {spec.num_heads} heads cannot be dealt "
            f"out evenly; give a divisor of {spec.num_heads}"
        )
    few, many = sorted((spec.num_kv_heads, ranks))
    if many % few:
        raise InputError(
            f"--tensor-parallel {ranks} with --model {spec.name}: {spec.num_kv_heads} kv heads can be neither"
            f" split nor copied evenly over {ranks} ranks; give a divisor or a multiple of them"
        )
    return replace(
        spec,
        num_heads=spec.num_heads // ranks,
        num_kv_heads=max(1, spec.num_kv_heads // ranks),
        num_parameters=-(-spec.num_parameters // ranks),
    )


def kv_copies(spec: ModelSpec, ranks: int) -> int:
    """On how many ranks each kv head stands."""
    return max(1, ranks // spec.num_kv_heads)


@dataclass(frozen=True, slots=True)
class AllReduce:
    """What ranks tell each other: two sums over all ranks in each layer, one activation vector a token.

    A ring sends 2 x (ranks - 1) / ranks of the data over each link (Patarasuk and Yuan 2009, "Bandwidth
    optimal all-reduce algorithms"); that is the floor of any algorithm, without latencies. Activations are
    fp16. Nothing is computed meanwhile, so the time adds to the roofline's.
    """

    spec: ModelSpec
    ranks: int
    hardware: Hardware

    def seconds(self, num_tokens: Any) -> Any:
        """Of one step, or of each with an int64 array of tokens; 0 on a single rank."""
        data = 2 * self.spec.num_layers * num_tokens * self.spec.hidden * element_bytes("fp16")
        return 2 * (self.ranks - 1) / self.ranks * data / self.hardware.peer_bytes_per_s
