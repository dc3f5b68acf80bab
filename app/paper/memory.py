"""Figures 1, 2 and 13: who holds the memory, and how many requests run at once."""

from collections.abc import Iterator

from app.paper.point import Point
from app.paper.published import FIGURE_1, FIGURE_1_THROUGHPUT, FIGURE_2, FIGURE_13, GROUPS, SYSTEMS
from app.paper.servers import GIB, SEED, saturated, waiting_at_start, while_waiting
from sim import Config, simulate
from sim.hardware import get_hardware
from sim.models import get_model


def figure_1() -> Iterator[Point]:
    """Where an A100's memory goes, and what a request takes of it."""
    model, memory = get_model("opt-13b"), get_hardware("a100-40gb").memory_bytes
    token = model.kv_bytes_per_token("fp16")
    batch, shares = while_waiting(saturated("sharegpt", "paged"))
    held = (100 - shares["free"] - shares["external"]) / 100 * saturated("sharegpt", "paged").config.num_slots
    ours = (
        100 * model.weights_bytes() / memory,
        100 * saturated("sharegpt", "paged").config.num_slots * token / memory,
        2048 * token / GIB,
        held / batch * token / GIB,
    )
    for (name, paper), value in zip(FIGURE_1.items(), ours, strict=True):
        yield Point("1", name, "%" if "A100" in name else "GB", paper, value)
    yield from throughputs()


def throughputs() -> Iterator[Point]:
    """What more batched requests bring, over four."""
    rates = {number: tokens_per_s(number) for number in FIGURE_1_THROUGHPUT}
    (first, slowest), *others = FIGURE_1_THROUGHPUT.items()
    for number, paper in others:
        yield Point(
            "1",
            f"throughput of {number} batched requests over {first}'s",
            "x",
            paper / slowest,
            rates[number] / rates[first],
        )


def tokens_per_s(batch: int) -> float:
    """Tokens a second with at most so many requests at once, ShareGPT lengths."""
    config = Config(max_seqs=batch, seed=SEED)
    run = simulate(waiting_at_start("sharegpt", 50 * batch), config, record=False)
    return run.report()["throughput"]["tokens_per_s"]


def figure_2() -> Iterator[Point]:
    """Who holds the pool: ShareGPT lengths, OPT-13B."""
    for allocator, paper in FIGURE_2.items():
        _, shares = while_waiting(saturated("sharegpt", allocator))
        others = shares["rounding"] + shares["external"] + shares["free"]
        ours = (shares["live"], shares["reserved"], shares["internal"], others)
        for group, printed, value in zip(GROUPS, paper, ours, strict=True):
            yield Point("2", f"{SYSTEMS[allocator]}, {group}", "%", printed, value)


def figure_13() -> Iterator[Point]:
    """Mean number of batched requests."""
    for lengths, batches in FIGURE_13.items():
        for allocator, paper in batches.items():
            batch, _ = while_waiting(saturated(lengths, allocator))
            yield Point("13", f"{lengths}, {SYSTEMS[allocator]}", "requests", paper, batch)
