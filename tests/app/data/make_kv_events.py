"""How vllm_kv_events.msgpack was made: vLLM 0.32's own cache manager, a pool of 24 blocks, 40 requests in a row.

Run it in an environment with vllm; no model and no GPU are needed. Beside the stream it writes how many blocks
could be found after each batch, counted in vLLM's own table.
"""

import json
import random
from pathlib import Path

import msgspec
import torch
from vllm.distributed.kv_events import KVEventBatch
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request

BLOCK, NUM_BLOCKS = 16, 25  # one of them is vLLM's null block
HERE = Path(__file__).parent


def main() -> None:
    init_none_hash(sha256)
    spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=1, dtype=torch.float32)
    config = KVCacheConfig(
        num_blocks=NUM_BLOCKS, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["l"], spec)]
    )
    manager = KVCacheManager(
        config, max_model_len=512, scheduler_block_size=BLOCK, hash_block_size=BLOCK,
        enable_caching=True, enable_kv_cache_events=True,
    )  # fmt: skip
    hasher = get_request_block_hasher(BLOCK, sha256)
    draw = random.Random(0)
    prefixes = [[draw.randrange(1000) for _ in range(48)] for _ in range(3)]
    encoder, out, counts = msgspec.msgpack.Encoder(), bytearray(), []
    running: list[Request] = []

    def publish(step: int) -> None:
        events = manager.take_events()
        if events:
            out.extend(
                encoder.encode(KVEventBatch(ts=1000.0 + step / 10, events=events, data_parallel_rank=0))
            )
            blocks = manager.block_pool.blocks
            counts.append(sum(block.block_hash is not None for block in blocks))

    for step in range(120):
        if step % 3 == 0 and len(running) < 4:
            tail = [draw.randrange(1000) for _ in range(draw.randrange(8, 60))]
            tokens = draw.choice(prefixes)[: draw.choice((16, 32, 48))] + tail
            request = Request(
                request_id=f"r{step}", prompt_token_ids=tokens, sampling_params=SamplingParams(max_tokens=64),
                pooling_params=None, block_hasher=hasher,
            )  # fmt: skip
            found, num_found, *_ = manager.get_computed_blocks(request)
            if manager.allocate_slots(request, len(tokens) - num_found, num_found, found) is not None:
                request.num_computed_tokens = len(tokens)
                running.append(request)
        for request in list(running):
            request.append_output_token_ids(draw.randrange(1000))
            is_long = request.num_tokens - request.num_prompt_tokens > draw.randrange(10, 50)
            if is_long or manager.allocate_slots(request, 1) is None:
                manager.free(request)
                running.remove(request)
            else:
                request.num_computed_tokens += 1
        publish(step)
    for request in running:
        manager.free(request)
    assert manager.reset_prefix_cache()
    publish(120)
    (HERE / "vllm_kv_events.msgpack").write_bytes(out)
    (HERE / "vllm_kv_events.json").write_text(json.dumps({"cached_blocks": counts}) + "\n")
    print(len(counts), "batches", len(out), "bytes", counts)


if __name__ == "__main__":
    main()
