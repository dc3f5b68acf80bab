"""Tensor parallelism: the logits and tokens of one rank, with heads split, and with kv heads copied."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import engine.__main__
from engine.attend import Reading
from engine.checkpoint import FileWeights
from engine.flat import flatten
from engine.graphs import DecodeGraphs
from engine.model import LlamaModel
from engine.pool import PagedPool
from engine.ranks import ALONE, Ranks
from sim import InputError
from sim.events import Kind
from sim.models import get_model
from tests.engine.checkpoint.making import reference
from tests.engine.test_attend import chunk_of, event
from tests.engine.test_graphs import Recorder

CPU = torch.device("cpu")
IDS = [5, 60, 3, 3, 77, 12, 90, 1, 44, 8, 19]


class ThreadRanks:
    """Ranks that are threads of this process: they meet at a barrier and add up what each brought."""

    def __init__(self, rank: int, size: int, table: list[Tensor | None], barrier: threading.Barrier) -> None:
        self.rank = rank
        self.size = size
        self._table = table
        self._barrier = barrier

    def sum(self, part: Tensor) -> Tensor:
        self._table[self.rank] = part
        self._barrier.wait()
        total = torch.stack([one for one in self._table if one is not None]).sum(dim=0)
        self._barrier.wait()
        return total


def logits_of(path: Path, ranks: Ranks) -> Tensor:
    """Logits [vocab] after a prefill of `IDS` over this rank's own pool."""
    model = LlamaModel(get_model(str(path)), 0, torch.float32, CPU, source=FileWeights(path), ranks=ranks)
    shape: dict[str, Any] = {
        "num_blocks": 8,
        "block_size": 8,
        "num_host_blocks": 0,
        "max_rows": 2,
        "max_len": 64,
    }
    pool = PagedPool(model.own, dtype=torch.float32, device=CPU, **shape)
    pool.alloc("r", event(Kind.ALLOC, "r", blocks=[5, 0]))
    pool.flush()
    flat = flatten([chunk_of("r", 0, len(IDS))], {"r": torch.tensor(IDS).numpy()}, pool.rows, CPU)
    return model.forward(flat.token_ids, flat.positions, pool.bind(flat, Reading("torch")), flat.emitting)[0]


@pytest.mark.parametrize(
    ("num_kv_heads", "size"), [(2, 2), (4, 2), (4, 4), (1, 2), (2, 4), (1, 4)], ids=lambda value: str(value)
)
@pytest.mark.parametrize("kind", ["Llama", "Qwen2"])
def test_ranks_together_give_the_logits_of_one(
    kind: str, num_kv_heads: int, size: int, tmp_path: Path
) -> None:
    reference(kind, num_key_value_heads=num_kv_heads).save_pretrained(tmp_path)
    table: list[Tensor | None] = [None] * size
    barrier, found = threading.Barrier(size, timeout=60), [torch.empty(0)] * size

    def work(rank: int) -> None:
        found[rank] = logits_of(tmp_path, ThreadRanks(rank, size, table, barrier))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = logits_of(tmp_path, ALONE)
    for logits in found:
        assert torch.equal(logits, found[0])
        torch.testing.assert_close(logits, alone, rtol=1e-4, atol=1e-4)


def test_heads_or_an_mlp_that_cannot_be_dealt_out_are_refused(tmp_path: Path) -> None:
    reference(intermediate_size=98).save_pretrained(tmp_path)
    barrier = threading.Barrier(1)
    with pytest.raises(InputError, match="4 heads cannot be dealt out evenly"):
        logits_of(tmp_path, ThreadRanks(0, 3, [None], barrier))
    with pytest.raises(InputError, match="its MLP of 98 cannot be dealt out evenly"):
        logits_of(tmp_path, ThreadRanks(0, 4, [None], barrier))


def test_two_processes_over_gloo_say_what_one_says(tmp_path: Path) -> None:
    reference().save_pretrained(tmp_path)
    command = ["-m", "engine", "--model", str(tmp_path), "--max-len", "128", "--pool-tokens", "256"]
    command += ["--ids", "5,60,3,77", "--ids", "9,9,9,44,1", "--max-tokens", "12", "--device", "cpu"]
    two = run("-m", "torch.distributed.run", "--nproc-per-node", "2", *command)
    one = run(*command)
    assert two["answers"] == one["answers"]
    assert (one["ranks"], two["ranks"], two["ranks_agree"]) == (1, 2, True)
    assert two["kv_pool_bytes_per_rank"] * 2 == one["kv_pool_bytes_per_rank"]
    assert two["weights_bytes_per_rank"] < one["weights_bytes_per_rank"]


def test_graphs_are_for_one_rank_on_a_gpu_and_the_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [
        "--model",
        "tiny",
        "--ids",
        "5,60,3",
        "--max-len",
        "64",
        "--max-tokens",
        "9",
        "--device",
        "cpu",
    ]
    monkeypatch.setattr(sys, "argv", ["engine", *options, "--graphs", "on"])
    assert engine.__main__.main() == 2
    assert "--graphs on: only a CUDA device records graphs" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["engine", *options])
    assert engine.__main__.main() == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["graphs"] is None

    recorder = Recorder()
    monkeypatch.setattr(engine.__main__, "make_graphs", lambda *choice: DecodeGraphs(choice[1], recorder))
    assert engine.__main__.main() == 0
    recorded = json.loads(capsys.readouterr().out)
    assert (recorded["graphs"], recorder.num_replays) == (1, 8)  # the first of nine tokens is the prompt's
    assert recorded["answers"] == plain["answers"]


def run(*arguments: str) -> dict[str, Any]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
