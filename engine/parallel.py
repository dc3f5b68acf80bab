"""Processes that run one model together: joining them, and making sure that all said the same."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import blake2b

import torch
import torch.distributed as distributed

from engine.ranks import ALONE, ProcessGroup, Ranks


@contextmanager
def joined(device: torch.device) -> Generator[Ranks]:
    """The ranks that `torchrun` started (gloo on a CPU, nccl on GPUs); one rank alone without it."""
    if "WORLD_SIZE" not in os.environ or int(os.environ["WORLD_SIZE"]) == 1:
        yield ALONE
        return
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield ProcessGroup()
    finally:
        distributed.destroy_process_group()


def all_agree(ranks: Ranks, said: str) -> bool:
    """Whether every rank came to the same text."""
    if ranks.size == 1:
        return True
    digests: list[str | None] = [None] * ranks.size
    distributed.all_gather_object(digests, blake2b(said.encode(), digest_size=16).hexdigest())
    return len(set(digests)) == 1
