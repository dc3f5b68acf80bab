"""Lesson 6: who joins a batch when, and how long a step takes."""

from collections.abc import Callable, Iterator, Sequence
from random import Random

from lessons.checks.core import check
from lessons.pictures_batching import seats
from lessons.pictures_card import card_of
from sim import Config, Request, Run, Trace, simulate
from sim.hardware import HARDWARE, Hardware
from sim.models import MODELS, ModelSpec
from sim.timing import RooflineTiming

POOL_TOKENS = 4096


def serve(outputs: Sequence[int], num_seats: int, batching: str) -> Run:
    """Requests a, b, c, ... that all come at once, in a server with so many seats and memory enough."""
    requests = (
        Request(id=chr(ord("a") + place), arrival_s=0.0, prompt=4, output=output, max_tokens=output)
        for place, output in enumerate(outputs)
    )
    config = Config(batching=batching, max_seqs=num_seats, pool_tokens=POOL_TOKENS, timing="unit")
    return simulate(Trace("batching", tuple(requests)), config)


def num_steps(batching: str) -> Callable[[list[int], int], int]:
    """The function that asks the simulator."""
    return lambda outputs, num_seats: serve(outputs, num_seats, batching).num_steps


def crowds(seed: int = 0, count: int = 40) -> Iterator[tuple[list[int], int]]:
    """Output lengths in order of arrival, and seats; few at first."""
    random = Random(seed)
    for place in range(count):
        outputs = [random.randint(1, 12) for _ in range(random.randint(1, 3 + place // 4))]
        yield outputs, random.randint(1, 4)


def static_steps(answer: Callable[[list[int], int], int]) -> None:
    """Checks `answer(outputs, num_seats) -> steps` of static batching."""
    check(answer, num_steps("static"), crowds(), picture=lambda *case: seats(serve(*case[:2], "static")))


def continuous_steps(answer: Callable[[list[int], int], int]) -> None:
    """Checks `answer(outputs, num_seats) -> steps` of continuous batching."""
    check(
        answer, num_steps("continuous"), crowds(), picture=lambda *case: seats(serve(*case[:2], "continuous"))
    )


def decode_seconds(batch: int, context: int, model: ModelSpec, device: Hardware) -> float:
    """What the simulator's roofline says of a decode step; `context` tokens are read in all."""
    return RooflineTiming(model, device, "fp16", 16).cost(batch, batch, context, context)


def steps(seed: int = 0, count: int = 40) -> Iterator[tuple[int, int, ModelSpec, Hardware]]:
    """Decode steps from one sequence to so many that computing is the bound."""
    random = Random(seed)
    for place in range(count):
        batch = random.randint(1, 4) << min(place // 4, 9)
        model = MODELS[random.choice(("opt-13b", "llama-2-7b", "llama-3-8b"))]
        device = HARDWARE[random.choice(("a100-40gb", "h100", "t4"))]
        yield batch, batch * random.randint(1, 60), model, device


def roofline(answer: Callable[[int, int, ModelSpec, Hardware], float]) -> None:
    """Checks `answer(batch, context, model, device) -> seconds`, to a millionth."""

    def same(one: float | None, other: float) -> bool:
        return one is not None and abs(one - other) <= 1e-6 * other

    check(answer, decode_seconds, steps(), same=same, picture=card_of(answer))
