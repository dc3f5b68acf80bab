"""The simulations that claims rest on, each run once."""

from functools import cache

from app.paper.servers import while_waiting
from sim import Config, Request, Run, Trace, simulate
from sim.alloc import RESERVATIONS
from sim.trace import LENGTHS, PAPER_FILTER, generate
from sim.trace.arrivals import AllAtOnce

NUM_REQUESTS = {"sharegpt": 600, "alpaca": 2_000}
RESERVING = tuple(RESERVATIONS)


def request(
    id: str, prompt: int, output: int, arrival_s: float = 0.0, max_tokens: int | None = None
) -> Request:
    """A request of so many tokens; `max_tokens` is the output unless given."""
    return Request(id=id, arrival_s=arrival_s, prompt=prompt, output=output, max_tokens=max_tokens or output)


@cache
def saturated(lengths: str, allocator: str, block_size: int = 16) -> Run:
    """OPT-13B on an A100-40GB, roofline time, every request there from the start, the paper's lengths."""
    trace = generate(
        name=lengths,
        seed=1,
        num_requests=NUM_REQUESTS[lengths],
        keep=PAPER_FILTER,
        arrivals=AllAtOnce(),
        lengths=LENGTHS[lengths],
    )
    return simulate(trace, Config(allocator=allocator, block_size=block_size, seed=1), record=False)


@cache
def one_by_one(lengths: str) -> Run:
    """The same requests, one after the other."""
    config = Config(batching="sequential", seed=1)
    return simulate(saturated(lengths, "paged").trace, config, record=False)


def shares_while_waiting(run: Run) -> dict[str, float]:
    """Mean share of the pool by class, in %, over the steps in which somebody waits."""
    return while_waiting(run)[1]


def waste(run: Run) -> float:
    """1 - live / (pool - free) while somebody waits, in %."""
    shares = shares_while_waiting(run)
    return 100 * (1 - shares["live"] / (100 - shares["free"] - shares["external"]))


def tokens_per_s(run: Run) -> float:
    return run.report()["throughput"]["tokens_per_s"]


def four_requests(allocator: str, *arrivals: Request) -> Run:
    """The guide's example: reservations of 4,096 in a pool of 16,384 slots."""
    rows = [request(f"r{k}", tokens // 2, tokens // 2 + 1, max_tokens=4097 - tokens // 2)
            for k, tokens in enumerate((256, 512, 128, 1024), start=1)]  # fmt: skip
    config = Config(
        allocator=allocator,
        placement="first-fit",
        pool_tokens=16_384,
        max_len=4096,
        timing="unit",
        model="llama-2-7b",
    )
    return simulate(Trace("four requests", (*rows, *arrivals)), config)
