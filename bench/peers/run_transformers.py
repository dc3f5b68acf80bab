"""transformers: one by one, in static batches, and with its continuous batching. Runs in its own environment.

python run_transformers.py one-by-one|static|continuous WORK.json
"""

import json
import logging
import resource
import sys
import time
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, GenerationConfig

STATIC_BATCH = 8


def load(work: dict[str, Any], attention: str) -> Any:
    return AutoModelForCausalLM.from_pretrained(
        work["folder"], dtype=torch.float32, attn_implementation=attention
    ).eval()


def settings(num_tokens: int) -> dict[str, Any]:
    return {"max_new_tokens": num_tokens, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}


def one_by_one(model: Any, prompts: list[list[int]], outputs: list[int]) -> list[list[int]]:
    said: list[list[int]] = []
    for prompt, count in zip(prompts, outputs, strict=True):
        found = model.generate(torch.tensor([prompt]), **settings(count))
        said.append(found[0, len(prompt) :].tolist())
    return said


def static(model: Any, prompts: list[list[int]], outputs: list[int]) -> list[list[int]]:
    """Batches in order of arrival, padded on the left; each runs until its longest answer ends."""
    said: list[list[int]] = []
    for start in range(0, len(prompts), STATIC_BATCH):
        batch, counts = prompts[start : start + STATIC_BATCH], outputs[start : start + STATIC_BATCH]
        width = max(map(len, batch))
        ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in batch])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in batch])
        found = model.generate(ids, attention_mask=mask, **settings(max(counts)))
        said += [row[width : width + count].tolist() for row, count in zip(found, counts, strict=True)]
    return said


def static_kv_slots(prompts: list[list[int]], outputs: list[int]) -> dict[str, float]:
    """Sums over steps of slots held, and of those that hold what an unfinished request will still read."""
    held = useful = 0
    for start in range(0, len(prompts), STATIC_BATCH):
        lengths = [len(prompt) for prompt in prompts[start : start + STATIC_BATCH]]
        counts = outputs[start : start + STATIC_BATCH]
        for step in range(max(counts)):
            held += len(lengths) * (max(lengths) + step)
            useful += sum(p + step for p, o in zip(lengths, counts, strict=True) if step < o)
    return {"waste_percent": 100.0 * (1 - useful / held)}


def continuous(
    model: Any, prompts: list[list[int]], outputs: list[int], work: dict[str, Any]
) -> list[list[int]]:
    from transformers import ContinuousBatchingConfig

    config = ContinuousBatchingConfig(
        page_size=work["block_size"],
        num_blocks=work["pool_slots"] // work["block_size"],
        max_batch_tokens=work["max_batch_tokens"],
        max_requests_per_batch=work["max_seqs"],
    )
    generation = GenerationConfig(
        max_new_tokens=max(outputs), do_sample=False, eos_token_id=-1, pad_token_id=0
    )
    said: dict[str, list[int]] = {}
    with model.continuous_batching_context_manager(
        generation_config=generation, continuous_batching_config=config, block=True, timeout=5
    ) as manager:
        for index, (prompt, count) in enumerate(zip(prompts, outputs, strict=True)):
            manager.add_request(prompt, request_id=f"r{index}", max_new_tokens=count, eos_token_id=-1)
        while len(said) < len(prompts):
            result = manager.get_result(timeout=1)
            if result is not None and result.is_finished():
                said[result.request_id] = list(result.generated_tokens)
            elif result is None and not manager.is_running():
                raise RuntimeError("its generation thread has stopped")
    return [said[f"r{index}"] for index in range(len(prompts))]


def main() -> None:
    how, path = sys.argv[1:]
    logging.getLogger("transformers").setLevel(logging.ERROR)
    with open(path, encoding="utf-8") as file:
        work = json.load(file)
    torch.set_num_threads(work["threads"])
    prompts, outputs = work["prompts"], work["outputs"]
    model = load(work, "sdpa")
    kv: dict[str, Any] = {"waste_percent": 0.0}  # one by one: a cache of exactly what is there
    with torch.inference_mode():
        one_by_one(model, prompts[:1], [2])  # what is set up once is not counted
        started = time.perf_counter()
        if how == "one-by-one":
            said = one_by_one(model, prompts, outputs)
        elif how == "static":
            said, kv = static(model, prompts, outputs), static_kv_slots(prompts, outputs)
        else:
            said = continuous(model, prompts, outputs, work)
            kv = {"kv_reserved_bytes": work["pool_slots"] * work["kv_bytes_per_slot"]}
        seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    print(
        json.dumps(
            {"tokens": said, "seconds": seconds, "peak_resident_bytes": peak, "versions": versions, **kv}
        )
    )


if __name__ == "__main__":
    main()
