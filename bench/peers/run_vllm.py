"""vLLM on the CPU, in its own environment.

python run_vllm.py WORK.json
"""

import json
import os
import resource
import sys
import time
from typing import Any

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # one process, whose memory can be read
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB, the least that it takes

import vllm

KV_BYTES = int(os.environ["VLLM_CPU_KVCACHE_SPACE"]) * 2**30


class Gauge:
    """The largest share of its KV blocks that was ever in use, by its own count after each schedule."""

    def __init__(self, engine: Any) -> None:
        self.most = 0.0
        scheduler = engine.llm_engine.engine_core.engine_core.scheduler
        schedule = scheduler.schedule

        def counted(*given: Any, **named: Any) -> Any:
            decided = schedule(*given, **named)
            self.most = max(self.most, scheduler.kv_cache_manager.usage)
            return decided

        scheduler.schedule = counted


def main() -> None:
    with open(sys.argv[-1], encoding="utf-8") as file:
        work = json.load(file)
    engine = vllm.LLM(
        model=work["folder"],
        dtype="float32",
        skip_tokenizer_init=True,
        enforce_eager=True,
        max_model_len=2048,
        max_num_seqs=work["max_seqs"],
        block_size=32,  # on a CPU it takes multiples of 32
        enable_prefix_caching=False,
    )
    prompts = [{"prompt_token_ids": prompt} for prompt in work["prompts"]]
    rules = [
        vllm.SamplingParams(temperature=0.0, max_tokens=count, ignore_eos=True, detokenize=False)
        for count in work["outputs"]
    ]
    engine.generate(prompts[:1], [vllm.SamplingParams(temperature=0.0, max_tokens=2)], use_tqdm=False)
    gauge = Gauge(engine)
    started = time.perf_counter()
    found = engine.generate(prompts, rules, use_tqdm=False)
    seconds = time.perf_counter() - started
    said = [list(one.outputs[0].token_ids) for one in found]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    result = {
        "tokens": said,
        "seconds": seconds,
        "peak_resident_bytes": peak,
        "kv_reserved_bytes": KV_BYTES,
        "kv_peak_bytes": round(gauge.most * KV_BYTES),
    }
    print(json.dumps({**result, "versions": {"vllm": vllm.__version__}}))


if __name__ == "__main__":
    main()
