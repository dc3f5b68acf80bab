"""Lesson 8: who is preempted, and whether to recompute or to swap."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from lessons.checks.core import check
from lessons.pictures_preemption import prices, who_runs
from sim import Config, Request, Run, Trace, simulate

POOL_BLOCKS = 16
Case = tuple[list[int], int, int]  # stored tokens of the running requests, block size, free blocks


def decode_step(answer: Callable[[list[int], int, int], list[int]]) -> None:
    """Checks `answer(stored, block_size, free)` against the simulator's log: who ran in each step."""
    steps = list(_steps())
    right = {_key(case): running for case, running in steps}

    def library(stored: list[int], block_size: int, free: int) -> list[int]:
        return right[_key((stored, block_size, free))]

    def yours(stored: list[int], block_size: int, free: int) -> list[int]:
        return answer(stored[:], block_size, free)

    yours.__name__ = answer.__name__
    check(yours, library, [case for case, _ in steps], picture=who_runs)


def cheaper(answer: Callable[[int, int, int, float, float], str]) -> None:
    """Checks `answer(prompt, emitted, block_size, token_s, block_s)`: "recompute" or "swap"."""

    def draw(*case: Any) -> Any:
        *arguments, got, right = case
        return prices(*_seconds(*arguments), got, right)

    def slow(prompt: int, emitted: int, block_size: int, token_s: float, block_s: float) -> str:
        recompute, swap = _seconds(prompt, emitted, block_size, token_s, block_s)
        return "swap" if swap < recompute else "recompute"

    check(answer, slow, _prices(), picture=draw)


def _seconds(
    prompt: int, emitted: int, block_size: int, token_s: float, block_s: float
) -> tuple[float, float]:
    """Seconds to recompute and to swap out and in, counted token by token and block by block."""
    tokens, blocks, room = 0, 0, 0
    for place in range(prompt + emitted):
        tokens += 1
        if place == prompt + emitted - 1:
            break  # the token emitted last is not stored: nothing of it is swapped
        if not room:
            blocks, room = blocks + 1, block_size
        room -= 1
    return tokens * token_s, 2 * blocks * block_s


def _prices(seed: int = 4, count: int = 100) -> Iterator[tuple[int, int, int, float, float]]:
    random = Random(seed)
    for _ in range(count):
        block_size = random.choice((1, 4, 16))
        token_s = random.choice((0.25, 0.5, 1.0)) * 2**-12
        block_s = block_size * random.choice((0.125, 0.25, 0.5)) * 2**-12  # sums of these are exact
        yield random.randint(1, 40), random.randint(1, 40), block_size, token_s, block_s


def _steps() -> Iterator[tuple[Case, list[int]]]:
    """What the simulator decided in steps in which running requests decode."""
    for seed in range(12):
        run = _run(seed)
        for step in range(2, run.num_steps + 1):
            yield from _step(run, step)


def _step(run: Run, step: int) -> Iterator[tuple[Case, list[int]]]:
    before = run.at(step - 1)
    events = [event for event in run.events if event.kind in ("finish", "preempt")]
    ended = {event.request for event in events if event.kind == "finish" and event.step == step - 1}
    running = [name for name in before.running if name not in ended]
    if not running:
        return
    size = run.config.block_size
    stored = [before.stored[name] for name in running]
    free = POOL_BLOCKS - sum(-(-count // size) for count in stored)
    preempted = {event.request for event in events if event.kind == "preempt" and event.step == step}
    yield (stored, size, free), [place for place, name in enumerate(running) if name not in preempted]


def _run(seed: int) -> Run:
    """Requests that together need more than there is."""
    random = Random(seed)
    requests: list[Request] = []
    for index in range(8):
        prompt, output = random.randint(1, 12), random.randint(4, 20)
        requests.append(
            Request(id=f"r{index}", arrival_s=float(index), prompt=prompt, output=output, max_tokens=output)
        )
    config = Config(pool_blocks=POOL_BLOCKS, block_size=random.choice((2, 4)), timing="unit", max_len=32)
    return simulate(Trace(f"random {seed}", tuple(requests)), config)


def _key(case: Case) -> tuple[Any, ...]:
    stored, block_size, free = case
    return (*stored, block_size, free)
