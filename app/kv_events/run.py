"""The chains of a stream as a finished run, which reports, exports and the player take like any other."""

import numpy as np

from app.kv_events.chains import Chains
from app.kv_events.stream import Batch
from sim import Config, InputError, Request, Run, Trace
from sim.alloc import Traffic
from sim.clock import to_ps
from sim.events import Kind
from sim.ledger import Ledger
from sim.outcomes import Outcomes
from sim.series import Row, Series
from sim.work import Work


def run_of(name: str, batches: list[Batch], num_blocks: int | None = None) -> tuple[Run, Chains]:
    """The run that the batches of the stream called `name` tell of, in a pool of `num_blocks`.

    Without that number the pool is as large as the most that was ever cached. All that is cached counts as
    live: the stream does not say who still reads it. Raises InputError for a stream that stores nothing.
    """
    chains = Chains()
    for batch in batches:
        chains.take(batch)
    if not chains.num_blocks:
        raise InputError(f"{name}: no block was stored, there is nothing to show")
    num_blocks = chains.num_blocks if num_blocks is None else num_blocks
    if num_blocks < chains.num_blocks:
        raise InputError(
            f"--blocks {num_blocks}: the stream caches {chains.num_blocks} at once; give at least that"
        )
    config = Config(block_size=chains.block_size, pool_blocks=num_blocks, prefix_cache="hash", timing="unit")
    trace = _trace(name, chains)
    series = _series(chains, config.num_slots)
    end_s = chains.ledgers[-1][0]
    left = chains.ledgers[-1][4] * chains.block_size
    run = Run(
        trace=trace, config=config, source="measured", clock="measured", outcomes=_outcomes(trace),
        series=series, log=chains.log, time_s=end_s, idle_s=0.0, num_preemptions=0, work=Work(),
        traffic=Traffic(),
        peak_slots=chains.num_blocks * chains.block_size, table_bytes=0, free_at_end=config.num_slots - left,
        meta={"from": "vLLM's KV-cache events"},
    )  # fmt: skip
    return run, chains


def _trace(name: str, chains: Chains) -> Trace:
    """A request a chain, as long as the chain ever was."""
    size = chains.block_size
    requests = [
        Request(
            id=chain.name,
            arrival_s=chain.arrival_s,
            prompt=max(1, chain.most_blocks * size),
            output=1,
            max_tokens=1,
        )
        for chain in chains.chains
    ]
    return Trace(name, tuple(requests))


def _series(chains: Chains, num_slots: int) -> Series:
    """The rows, and the ledgers of the log's steps, now that the pool is known."""
    series = Series()
    steps = (event for event in chains.log if event.kind is Kind.STEP)
    for event, (time, duration, tokens, alive, blocks) in zip(steps, chains.ledgers, strict=True):
        live = blocks * chains.block_size
        ledger = Ledger(num_slots, live, 0, 0, 0, 0, 0, num_slots - live)
        event.changes["ledger"] = {name: getattr(ledger, name) for name in ledger.__slots__}
        row = Row(
            step=event.step, time=time, duration_ps=to_ps(duration), batch=event.changes["batch"],
            tokens=tokens, running=alive, waiting=0, swapped=0, ledger=ledger, blocks=blocks,
            table_entries=blocks,
        )  # fmt: skip
        series.add(row)
    return series


def _outcomes(trace: Trace) -> Outcomes:
    """Of requests nothing is known."""
    never = np.full(len(trace), np.nan)
    zeros = [0] * len(trace)
    return Outcomes(
        requests=trace.requests, reject_reasons={}, first_token_s=never, finish_s=never, emitted=zeros,
        preemptions=zeros, prefills=[[] for _ in zeros], hit_tokens=zeros,
    )  # fmt: skip
