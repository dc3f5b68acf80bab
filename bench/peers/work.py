"""The work that every system gets: prompts cut from a real text, and how many tokens to emit after each."""

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch

from engine.checkpoint import FileWeights, text_side
from engine.checkpoint.export import export
from engine.checkpoint.named import need_model
from engine.model import LlamaModel
from sim.models import get_model

TEXT = Path(__file__).parents[2] / "LICENSE"
SHORTEST, LONGEST_PROMPT, LONGEST_OUTPUT = 20, 140, 118  # tokens; 50 requests: about 4,000 and 3,450


@dataclass(frozen=True, slots=True)
class Work:
    """Requests at t = 0. All emit exactly `outputs[i]` tokens, greedily; end tokens mean nothing."""

    prompts: list[list[int]]
    outputs: list[int]

    @property
    def num_prompt_tokens(self) -> int:
        return sum(map(len, self.prompts))

    @property
    def num_output_tokens(self) -> int:
        return sum(self.outputs)


def draw_work(model: str, num_requests: int, seed: int) -> Work:
    """Seeded lengths and places in the text."""
    random = Random(seed)
    ids = text_side(need_model(model)).encode(TEXT.read_text(encoding="utf-8"))
    prompts: list[list[int]] = []
    outputs: list[int] = []
    for _ in range(num_requests):
        length = random.randint(SHORTEST, LONGEST_PROMPT)
        start = random.randrange(len(ids) - length)
        prompts.append(ids[start : start + length])
        outputs.append(random.randint(SHORTEST, LONGEST_OUTPUT))
    return Work(prompts, outputs)


def write_work(work: Work, model: str, folder: Path, *, limits: dict[str, int]) -> Path:
    """A Hugging Face folder with the model, and beside it what to run: the file that systems read."""
    path = need_model(model)
    weights = LlamaModel(get_model(model), 0, torch.float32, "cpu", source=FileWeights(path))
    export(weights, folder / "model", text_side(path))
    file = folder / "work.json"
    content = {
        "model": model,
        "folder": str(folder / "model"),
        "prompts": work.prompts,
        "outputs": work.outputs,
    }
    file.write_text(json.dumps({**content, **limits}), encoding="utf-8")
    return file


def write_first(file: Path, num_requests: int | None) -> Path:
    """The same work with no more than its first requests, beside `file`; None: all of them."""
    if num_requests is None:
        return file
    content = json.loads(file.read_text(encoding="utf-8"))
    for name in ("prompts", "outputs"):
        content[name] = content[name][:num_requests]
    first = file.with_stem(f"first-{num_requests}")
    first.write_text(json.dumps(content), encoding="utf-8")
    return first
