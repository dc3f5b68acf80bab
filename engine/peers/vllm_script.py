"""vLLM serves a trace, and its block pool is read at every step: python vllm_script.py WORK.json

Runs in an interpreter that has vLLM and imports nothing of ours; the last line of standard output is the
answer. Between a step's forward pass and its bookkeeping, when finished requests still hold their blocks, it
notes which blocks each running request has and how many tokens are computed. Seen with vLLM 0.32 on a CPU.
"""

import json
import os
import resource
import sys
import time
from importlib import import_module
from typing import Any

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # one process, whose scheduler can be seen
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault(
    "VLLM_CPU_KVCACHE_SPACE", "1"
)  # GiB, the least that it takes; the pool is set by blocks


class Watched:
    """vLLM's scheduler, with a look at its pool before each step is booked."""

    def __init__(self, scheduler: Any, work: dict[str, Any]) -> None:
        self.rows: list[dict[str, Any]] = []
        self._scheduler = scheduler
        self._work = work
        self._final = [len(prompt) + output - 1 for _, prompt, output, _ in work["requests"]]
        self._book = scheduler.update_from_output
        scheduler.update_from_output = self._look

    def _look(self, *arguments: Any, **named: Any) -> Any:
        self.rows.append(self._ledger())
        return self._book(*arguments, **named)

    def _ledger(self) -> dict[str, Any]:
        """Slots by class: a shared block counts once, as full as its fullest owner has it."""
        size = self._work["block_size"]
        filled: dict[int, int] = {}
        wanted: dict[int, int] = {}
        for request in self._scheduler.running:
            final = self._final[place_of(request.request_id)]
            [blocks] = self._scheduler.kv_cache_manager.get_block_ids(request.request_id)
            for place, block in enumerate(blocks):
                for slots, tokens in ((filled, request.num_computed_tokens), (wanted, final)):
                    slots[block] = max(slots.get(block, 0), min(size, max(0, tokens - place * size)))
        live, held = sum(filled.values()), size * len(filled)
        reserved = sum(max(0, wanted[block] - filled[block]) for block in filled)
        return {
            "live": live,
            "reserved": reserved,
            "internal": held - live - reserved,
            "free": self._work["num_blocks"] * size - held,
            "batch": len(self._scheduler.running),
        }


def place_of(request_id: str) -> int:
    """Of the request in the work: vLLM adds letters of its own to the name that it gets."""
    return int(request_id.split("-")[0])


def main() -> None:
    """Serves the work and prints what came of it."""
    answers, sys.stdout = sys.stdout, sys.stderr
    with open(sys.argv[-1], encoding="utf-8") as file:
        work = json.load(file)
    vllm: Any = import_module("vllm")
    llm = vllm.LLM(
        model=work["folder"],
        dtype=work["dtype"],
        skip_tokenizer_init=True,
        enforce_eager=True,
        max_model_len=work["max_len"],
        max_num_seqs=work["max_seqs"],
        max_num_batched_tokens=work["budget"],
        block_size=work["block_size"],
        num_gpu_blocks_override=work["num_blocks"] + 1,  # block 0 is nobody's
        enable_prefix_caching=work["prefix_cache"],
    )
    engine = llm.llm_engine
    warm = vllm.SamplingParams(temperature=0.0, max_tokens=2, ignore_eos=True, detokenize=False)
    llm.generate([{"prompt_token_ids": [1, 2, 3]}], [warm], use_tqdm=False)
    watched = Watched(engine.engine_core.engine_core.scheduler, work)
    tokens: dict[str, list[int]] = {}
    waiting = list(enumerate(work["requests"]))  # in order of arrival
    now = 0.0
    while waiting or engine.has_unfinished_requests():
        if not engine.has_unfinished_requests():
            now = max(now, waiting[0][1][3])
        while waiting and waiting[0][1][3] <= now:
            place, (_, prompt, output, _) = waiting.pop(0)
            rules = vllm.SamplingParams(temperature=0.0, max_tokens=output, ignore_eos=True, detokenize=False)
            engine.add_request(str(place), {"prompt_token_ids": prompt}, rules)
        num_rows, started = len(watched.rows), time.perf_counter()
        found = engine.step()
        seconds = time.perf_counter() - started
        if len(watched.rows) > num_rows:
            watched.rows[-1]["seconds"] = seconds
            now += seconds if work["step_s"] is None else work["step_s"]
        for one in found:
            if one.finished:
                name = work["requests"][place_of(one.request_id)][0]
                tokens[name] = list(one.outputs[0].token_ids)
    result = {
        "version": vllm.__version__,
        "rows": watched.rows,
        "tokens": tokens,
        "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    print(json.dumps(result), file=answers)


if __name__ == "__main__":
    main()
