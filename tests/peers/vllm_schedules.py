"""What vLLM's own scheduler and block pool do with scenarios, step by step, without a model or a GPU.

Runs in an interpreter that has vLLM, and imports nothing of ours: scenarios come as JSON lines on standard
input, and for each one line goes to standard output, `{"steps": [...]}`. A step has

    scheduled   tokens that each request computes
    free        blocks that nobody holds, cached ones included, after the step's allocations
    preempted   requests that lost their blocks in this step
    hits        tokens that each newly admitted request found in the prefix cache
    finished    requests that end with this step

A scenario is `blocks`, `block_size`, `budget`, `max_seqs`, `prefix`, and `rows`: id, prompt's token ids,
output tokens, and the step in which it arrives. Seen with vLLM 0.32.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8, "intermediate_size": 8,
    "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "vocab_size": 32000,
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "torch_dtype": "float32",
}  # fmt: skip
FIRST_OUTPUT = 1_000_000  # emitted token ids start here: no prompt has them


class Referee:
    """vLLM's scheduler, fed with one scenario after the other."""

    def __init__(self, folder: str) -> None:
        from vllm.config import ModelConfig
        from vllm.utils.hashing import sha256
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash

        Path(folder, "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
        init_none_hash(sha256)
        self._hasher = lambda block_size: get_request_block_hasher(block_size, sha256)
        self._model = ModelConfig(model=folder, tokenizer=folder, skip_tokenizer_init=True, dtype="float32")

    def play(self, scenario: dict[str, Any]) -> dict[str, Any]:
        """All steps of one scenario."""
        scheduler = self._scheduler(scenario)
        rows = sorted(scenario["rows"], key=lambda row: row[3])
        left = {row[0]: row[2] for row in rows}
        requests: dict[str, Any] = {}
        steps: list[dict[str, Any]] = []
        now = 0
        while rows or scheduler.has_unfinished_requests():
            if not scheduler.has_unfinished_requests():
                now = max(now, rows[0][3])
            while rows and rows[0][3] <= now:
                request = self._request(rows.pop(0), scenario["block_size"])
                requests[request.request_id] = request
                scheduler.add_request(request)
            before = {name: request.num_preemptions for name, request in requests.items()}
            output = scheduler.schedule()
            steps.append(
                {
                    "step": now + 1,
                    "scheduled": dict(output.num_scheduled_tokens),
                    "free": scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
                    "preempted": [
                        name for name, request in requests.items() if request.num_preemptions > before[name]
                    ],
                    "hits": {new.req_id: new.num_computed_tokens for new in output.scheduled_new_reqs},
                    "finished": self._update(scheduler, output, requests, left),
                }
            )
            now += 1
        return {"steps": steps, "free_at_end": scheduler.kv_cache_manager.block_pool.get_num_free_blocks()}

    def _update(
        self, scheduler: Any, output: Any, requests: dict[str, Any], left: dict[str, int]
    ) -> list[str]:
        """Gives a token to every request that has computed all it knows; returns those that end with it."""
        from vllm.v1.outputs import ModelRunnerOutput

        names = list(output.num_scheduled_tokens)
        tokens: list[list[int]] = []
        finished: list[str] = []
        for place, name in enumerate(names):
            request = requests[name]
            if request.num_computed_tokens < request.num_tokens:
                tokens.append([])
                continue
            left[name] -= 1
            tokens.append([FIRST_OUTPUT + 1000 * (list(requests).index(name) + 1) + left[name]])
            if not left[name]:
                finished.append(names[place])
        made_up = ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: place for place, name in enumerate(names)},
            sampled_token_ids=tokens,
        )
        scheduler.update_from_output(output, made_up)
        return finished

    def _request(self, row: list[Any], block_size: int) -> Any:
        from vllm import SamplingParams
        from vllm.v1.request import Request

        name, prompt, output, arrival = row
        params = SamplingParams(max_tokens=output, ignore_eos=True)
        return Request(
            request_id=name,
            prompt_token_ids=list(prompt),
            sampling_params=params,
            pooling_params=None,
            arrival_time=float(arrival),
            block_hasher=self._hasher(block_size),
        )

    def _scheduler(self, scenario: dict[str, Any]) -> Any:
        import torch
        from vllm.config import CacheConfig, SchedulerConfig, VllmConfig
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
        from vllm.v1.structured_output import StructuredOutputManager

        block_size, num_blocks = scenario["block_size"], scenario["blocks"] + 1  # block 0 is nobody's
        scheduling = SchedulerConfig(
            max_num_seqs=scenario["max_seqs"],
            max_num_batched_tokens=scenario["budget"],
            max_model_len=CONFIG["max_position_embeddings"],
            enable_chunked_prefill=True,
            async_scheduling=False,
            is_encoder_decoder=False,
        )
        cache = CacheConfig(block_size=block_size, enable_prefix_caching=scenario["prefix"])
        cache.num_gpu_blocks = num_blocks
        config = VllmConfig(model_config=self._model, scheduler_config=scheduling, cache_config=cache)
        spec = FullAttentionSpec(block_size=block_size, num_kv_heads=1, head_size=1, dtype=torch.float32)
        return Scheduler(
            vllm_config=config,
            kv_cache_config=KVCacheConfig(
                num_blocks=num_blocks,
                kv_cache_tensors=[],
                kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)],
            ),
            structured_output_manager=StructuredOutputManager(config),
            block_size=block_size,
        )


def main() -> None:
    """Answers each scenario with one line."""
    answers, sys.stdout = sys.stdout, sys.stderr  # vLLM prints what it likes
    with tempfile.TemporaryDirectory() as folder:
        referee = Referee(folder)
        for line in sys.stdin:
            print(json.dumps(referee.play(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
