"""Named policies: what a known server does, as dials. What is given beside a preset wins."""

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "vllm": {  # v1: held against vLLM's own scheduler and block pool, step by step, by tests/peers
        "allocator": "paged",
        "block_size": 16,
        "chunked_prefill": True,
        "max_batch_tokens": 2048,
        "prefix_cache": "hash",
    },
    "paper": {"allocator": "paged", "block_size": 16, "step_rule": "prefill-first"},  # section 6, vLLM 0.1
    "orca": {"allocator": "max"},  # Orca (Max) of the paper: iteration-level batches over whole reservations
    "static": {"allocator": "max", "batching": "static"},  # a batch runs until its last member has ended
}
