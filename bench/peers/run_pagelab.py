"""PageLab's engine, in a process of its own like the others.

python -m bench.peers.run_pagelab WORK.json
"""

import json
import resource
import sys

import torch

from engine.generate import Decoding, generate, warm_up
from engine.setup import make_model, make_pool
from sim import Config


def main() -> None:
    with open(sys.argv[-1], encoding="utf-8") as file:
        work = json.load(file)
    torch.set_num_threads(work["threads"])
    config = Config(
        model=work["model"],
        kv_dtype="fp32",
        pool_tokens=work["pool_slots"],
        block_size=work["block_size"],
        max_seqs=work["max_seqs"],
        max_batch_tokens=max(work["max_batch_tokens"], 2048),
        hardware="laptop",
    )
    device = torch.device("cpu")
    model, pool = make_model(config, device), make_pool(config, device, is_marked=False)
    warm_up(config, model, pool)
    made = generate(work["prompts"], config, Decoding(), model, pool, max_tokens=work["outputs"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    slot = work["kv_bytes_per_slot"]
    report = made.run.report()
    result = {
        "tokens": [answer.said[0].tokens for answer in made.answers],
        "seconds": made.seconds,
        "peak_resident_bytes": peak,
        "kv_reserved_bytes": pool.num_bytes,
        "kv_peak_bytes": made.run.peak_slots * slot,
        "waste_percent": report["waste_percent"],
        "steps": made.run.num_steps,
        "preemptions": made.run.num_preemptions,
        "versions": {"torch": torch.__version__},
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
