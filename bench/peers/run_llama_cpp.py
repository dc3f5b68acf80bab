"""llama.cpp through llama-cpp-python, on a float32 GGUF: one by one, or many sequences in one context.

python run_llama_cpp.py one-by-one|batched WORK.json
"""

import ctypes
import json
import resource
import sys
import time
from typing import Any

import llama_cpp


class Batch:
    """Tokens of several sequences for one call of llama_decode."""

    def __init__(self, capacity: int) -> None:
        self.raw = llama_cpp.llama_batch_init(capacity, 0, 1)
        self.rows: list[int] = []  # sequence of each token that wants logits, in order

    def clear(self) -> None:
        self.raw.n_tokens, self.rows = 0, []

    def add(self, token: int, position: int, sequence: int, *, emits: bool) -> None:
        place = self.raw.n_tokens
        self.raw.token[place], self.raw.pos[place] = token, position
        self.raw.n_seq_id[place], self.raw.seq_id[place][0] = 1, sequence
        self.raw.logits[place] = emits
        self.rows.append(sequence if emits else -1)
        self.raw.n_tokens = place + 1


def serve(context: Any, vocab: int, work: dict[str, Any], width: int) -> tuple[list[list[int]], int]:
    """Greedy answers: at most `width` sequences side by side, a new one as soon as one has ended.

    And how many tokens the cache held at most.
    """
    prompts, outputs = work["prompts"], work["outputs"]
    said: list[list[int]] = [[] for _ in prompts]
    batch, waiting = Batch(work["max_batch_tokens"]), list(range(len(prompts)))
    places: dict[int, int] = {}  # sequence in the context -> request
    most = 0
    while waiting or places:
        batch.clear()
        for sequence, request in places.items():
            position = len(prompts[request]) + len(said[request]) - 1
            batch.add(said[request][-1], position, sequence, emits=True)
        free = [sequence for sequence in range(width) if sequence not in places]
        while waiting and free and batch.raw.n_tokens + len(prompts[waiting[0]]) <= work["max_batch_tokens"]:
            request, sequence = waiting.pop(0), free.pop(0)
            places[sequence] = request
            for position, token in enumerate(prompts[request]):
                batch.add(token, position, sequence, emits=position == len(prompts[request]) - 1)
        if llama_cpp.llama_decode(context, batch.raw) != 0:
            raise RuntimeError("llama_decode failed")
        for row, sequence in enumerate(batch.rows):
            if sequence >= 0:
                logits = llama_cpp.llama_get_logits_ith(context, row)
                said[places[sequence]].append(argmax(logits, vocab))
        held = sum(len(prompts[request]) + len(said[request]) - 1 for request in places.values())
        most = max(most, held)
        for sequence, request in list(places.items()):
            if len(said[request]) == outputs[request]:
                llama_cpp.llama_memory_seq_rm(llama_cpp.llama_get_memory(context), sequence, -1, -1)
                del places[sequence]
    return said, most


def argmax(logits: Any, vocab: int) -> int:
    import numpy as np

    pointer = ctypes.cast(logits, ctypes.POINTER(ctypes.c_float))
    return int(np.ctypeslib.as_array(pointer, (vocab,)).argmax())


def main() -> None:
    how, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        work = json.load(file)
    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(
        work["gguf"].encode(), llama_cpp.llama_model_default_params()
    )
    width = 1 if how == "one-by-one" else work["max_seqs"]
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx = work["pool_slots"]
    settings.n_batch = settings.n_ubatch = work["max_batch_tokens"]
    settings.n_seq_max = width
    settings.n_threads = settings.n_threads_batch = work["threads"]
    settings.type_k = settings.type_v = 0  # float32
    settings.kv_unified = True
    context = llama_cpp.llama_init_from_model(model, settings)
    vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    serve(context, vocab, {**work, "prompts": work["prompts"][:1], "outputs": [2]}, 1)
    started = time.perf_counter()
    said, most = serve(context, vocab, work, width)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        json.dumps(
            {
                "tokens": said,
                "seconds": seconds,
                "peak_resident_bytes": peak,
                "kv_reserved_bytes": work["pool_slots"] * work["kv_bytes_per_slot"],
                "kv_peak_bytes": most * work["kv_bytes_per_slot"],
                "versions": {"llama-cpp-python": llama_cpp.__version__},
            }
        )
    )


if __name__ == "__main__":
    main()
