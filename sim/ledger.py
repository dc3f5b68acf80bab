"""The ledger: at every step each slot of the pool is in exactly one class (DESIGN section 5)."""

from dataclasses import dataclass, fields

from sim.alloc import Usage
from sim.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class Ledger:
    """Slots of the pool by class. The seven classes sum to `pool`.

    Taken after a step's writes and before finished requests leave. As an observer it may look at
    true output lengths: `reserved` slots will be filled by their owner, `internal` ones never.
    """

    pool: int
    live: int
    reserved: int
    internal: int
    rounding: int
    cached: int
    external: int
    free: int

    @property
    def held(self) -> int:
        """Slots that are not available to anyone else."""
        return self.live + self.reserved + self.internal + self.rounding

    def check(self, step: int) -> None:
        """Raises AssertionError when the classes do not sum to the pool, or one is negative."""
        counts = [getattr(self, name) for name in CLASSES]
        assert sum(counts) == self.pool and min(counts) >= 0, (
            f"step {step}: ledger does not add up: {dict(zip(CLASSES, counts, strict=True))} "
            f"sum to {sum(counts)}, the pool has {self.pool} slots"
        )


CLASSES = tuple(field.name for field in fields(Ledger) if field.name != "pool")


def waste_percent(pool: float, live: float, free: float) -> float:
    """`1 - live / (pool - free)` in percent: the share of slots in use that holds no live KV."""
    return max(0.0, 100.0 * (1.0 - live / (pool - free))) if pool > free else 0.0  # means round


def take_ledger(scheduler: Scheduler, usage: Usage | None = None) -> Ledger:
    """The ledger of this moment, from what running sequences hold and have stored (their `usage`)."""
    allocator = scheduler.allocator
    usage = usage or scheduler.usage()
    cached = allocator.num_cached_slots
    available = allocator.num_free_slots - cached
    head = scheduler.waiting[0] if scheduler.waiting else None
    is_stranded = head is not None and available > 0 and allocator.is_stranded(head)
    return Ledger(
        pool=allocator.num_slots,
        live=usage.live,
        reserved=usage.reserved,
        internal=usage.internal,
        rounding=usage.rounding,
        cached=cached,
        external=available if is_stranded else 0,
        free=0 if is_stranded else available,
    )
