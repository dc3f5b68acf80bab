"""`torchrun --nproc-per-node 2 -m engine ...`: one model over several processes, each with some of its heads.

Without torchrun the same command runs on one rank. Every rank runs the same scheduler on the same requests,
so they need no word from each other about memory: a block is a block of every rank. What they exchange are
two sums in each layer. That all of them said the same is checked at the end.
"""

import argparse
import json
import sys
from typing import Any

from engine.checkpoint import TextSide, text_side
from engine.checkpoint.named import model_path
from engine.generate import Decoding, Generated, generate, warm_up
from engine.graphs import make_graphs
from engine.parallel import all_agree, joined
from engine.ranks import Ranks
from engine.setup import make_model, make_pool, pick_device, refuse_impossible
from sim.config import Config
from sim.errors import InputError


def main() -> int:
    """Exit codes: 0 done; 1 ranks disagree; 2 bad input, with one line on standard error."""
    options = parser().parse_args()
    try:
        device = pick_device(options.device)
        with joined(device) as ranks:
            return speak(options, device, ranks)
    except InputError as error:
        print(f"engine: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


def parser() -> argparse.ArgumentParser:
    """The command line; memory dials are called as those of `pagelab`."""
    made = argparse.ArgumentParser(prog="engine", description="Generate with one model over several ranks.")
    made.add_argument("prompts", nargs="*", help="texts, for a model that has a tokenizer")
    made.add_argument("--ids", action="append", default=[], help="a prompt as token ids, such as 5,60,3")
    made.add_argument("--model", default="smollm2-135m", help="name, folder or .gguf file")
    made.add_argument("--device", default="auto", help="auto | cpu | cuda")
    for name, default in (("allocator", "paged"), ("kv-dtype", "fp32"), ("graphs", "auto")):
        made.add_argument(f"--{name}", default=default)
    for name, default in (("pool-tokens", 4096), ("block-size", 16), ("max-tokens", 32), ("seed", 0)):
        made.add_argument(f"--{name}", type=int, default=default)
    for name in ("n", "beam"):
        made.add_argument(f"--{name}", type=int, default=1)
    made.add_argument("--max-len", type=int)
    made.add_argument("--temperature", type=float, default=0.0)
    return made


def speak(options: argparse.Namespace, device: Any, ranks: Ranks) -> int:
    """Answers the prompts on this rank; rank 0 prints one JSON document."""
    path = model_path(options.model)
    text = text_side(path) if path and options.prompts else None
    prompts = encode(options, text)
    config = Config(
        model=options.model,
        allocator=options.allocator,
        kv_dtype=options.kv_dtype,
        pool_tokens=options.pool_tokens,
        block_size=options.block_size,
        max_len=options.max_len or 2048,
        tensor_parallel=ranks.size,
        hardware="laptop",
    )
    refuse_impossible(config, device, ranks.size)
    decoding = Decoding(
        max_tokens=options.max_tokens,
        n=options.n,
        beam=options.beam,
        temperature=options.temperature,
        seed=options.seed,
    )
    model, pool = make_model(config, device, ranks), make_pool(config, device, is_marked=False)
    graphs = make_graphs(options.graphs, model, "auto")
    warm_up(config, model, pool)
    ends = text.end_ids if text else frozenset[int]()
    made = generate(prompts, config, decoding, model, pool, end_ids=ends, graphs=graphs)
    agree = all_agree(ranks, repr([answer.said for answer in made.answers]))
    if ranks.rank == 0:
        facts: dict[str, Any] = {"ranks": ranks.size, "ranks_agree": agree}
        facts["weights_bytes_per_rank"] = model.num_weight_bytes
        facts["graphs"] = graphs.num_recorded if graphs else None
        print(
            json.dumps({**facts, "kv_pool_bytes_per_rank": pool.num_bytes, **as_json(made, text)}, indent=2)
        )
    return 0 if agree else 1


def encode(options: argparse.Namespace, text: TextSide | None) -> list[list[int]]:
    """Token ids of all prompts. Raises InputError for none, and for ids that are no numbers."""
    if options.prompts and text is None:
        raise InputError(f"model {options.model}: has no tokenizer here; give prompts as --ids 5,60,3")
    try:
        ids = [[int(one) for one in prompt.split(",")] for prompt in options.ids]
    except ValueError:
        raise InputError(f"--ids {options.ids}: must be whole numbers with commas, such as 5,60,3") from None
    if text is not None:
        ids += [text.encode_chat(one) if text.chat_template else text.encode(one) for one in options.prompts]
    if not ids:
        raise InputError("no prompt: give texts, or --ids 5,60,3")
    return ids


def as_json(made: Generated, text: TextSide | None) -> dict[str, Any]:
    """Answers and measured seconds."""
    return {
        "seconds": made.seconds,
        "answers": [
            [{"tokens": said.tokens, "text": text.decode(said.tokens) if text else None} for said in one.said]
            for one in made.answers
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
