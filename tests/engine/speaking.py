"""A tiny model that speaks: random weights of `transformers`, loaded by the engine, over any pool."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from engine.generate import Decoding, Generated, generate
from engine.model import LlamaModel
from engine.setup import make_pool
from sim import Config
from tests.engine.checkpoint.making import loaded, reference

CPU = torch.device("cpu")
PROMPTS = [[5, 60, 3, 77, 12], [9] * 21, [44, 8, 19], [7, 7, 31, 50, 2, 71, 36, 9, 10, 85, 4, 58], [66]]


@cache
def twins() -> tuple[Any, LlamaModel, str]:
    """The model of `transformers`, the engine's with the same weights, and the folder's path."""
    theirs = reference()
    folder = TemporaryDirectory()
    KEPT.append(folder)
    theirs.save_pretrained(folder.name)
    return theirs, loaded(Path(folder.name)), folder.name


KEPT: list[TemporaryDirectory[str]] = []


def speak(
    decoding: Decoding,
    end_ids: frozenset[int] = frozenset(),
    prompts: list[list[int]] = PROMPTS,
    look: bool = True,
    **dials: Any,
) -> Generated:
    """What the engine's twin answers; if we `look`, its memory is as the log says at every step."""
    _, model, path = twins()
    config = Config(**{"model": path, "kv_dtype": "fp32", "pool_tokens": 1024, "max_len": 128, **dials})
    made = generate(
        prompts, config, decoding, model, make_pool(config, CPU), end_ids=end_ids, backend="cpu", check=look
    )
    if look:
        assert made.agreement is not None
        assert made.agreement["first_difference"] is None, made.agreement
        assert made.agreement["steps_compared"] == made.run.num_steps
    return made


def tokens_of(made: Generated) -> list[list[list[int]]]:
    """Tokens of every answer to every prompt."""
    return [[said.tokens for said in answer.said] for answer in made.answers]
