"""The slow way to the ledger and to what attention reads: by definition, token by token, slot by slot."""

from random import Random

from sim.ledger import CLASSES
from sim.tables import HOLE


def readable(config, sequence) -> set[int]:
    """Stored positions that the query at position `stored`, or a later one, reads."""
    stored = range(sequence.stored)
    if config.window is not None:
        sinks = config.sinks or 0
        return {at for at in stored if at > sequence.stored - config.window or at < sinks}
    if config.keep_recent is not None and not sequence.is_prefilling:
        recent = {at for at in stored if at > sequence.stored - config.keep_recent}
        older = sorted(set(stored) - recent)
        return recent | set(heaviest(config, sequence.request.id, older, config.keep_heavy))
    return set(stored)


def reads(config, request_id: str, query: int, *, is_prefill: bool) -> set[int]:
    """Positions that the query at position `query` reads, its own included."""
    upto = range(query + 1)
    if config.window is not None:
        return {at for at in upto if at > query - config.window or at < (config.sinks or 0)}
    if config.keep_recent is not None and not is_prefill:
        recent = {at for at in upto if at > query - config.keep_recent}
        return recent | set(heaviest(config, request_id, sorted(set(upto) - recent), config.keep_heavy))
    return set(upto)


def heaviest(config, request_id: str, positions: list[int], count: int) -> list[int]:
    random = Random(f"{config.seed} weight {request_id}")
    weight = [random.paretovariate(1.0) for _ in range(max(positions, default=-1) + 1)]
    return sorted(positions, key=lambda at: (weight[at], at), reverse=True)[:count]


def classify(scheduler, config) -> dict[str, int]:
    """The ledger of a paged pool, from block tables and the definition of each class."""
    allocator = scheduler.allocator
    size = allocator.block_size
    slots: list[set[str]] = [set() for _ in range(allocator.num_slots)]
    members = [(one, group.sequences[0]) for group in scheduler.running for one in group.active]
    for sequence, first in members:
        written = min(sequence.stored, first.stored)  # the first fills what all share
        live = readable(config, sequence)
        for place, block in enumerate(allocator.tables[sequence]):
            if block == HOLE:
                assert not live & set(range(place * size, (place + 1) * size)), "a hole where tokens are read"
                continue
            assert can_be_used(live, sequence, place, size), f"{sequence.name} holds {place} to no use"
            for at in range(place * size, (place + 1) * size):
                marks = slots[block * size + at % size]
                marks.add("held")
                if at in live and at < written:
                    marks.add("live")
                if at < written:
                    marks.add("written")
                elif at < sequence.request.final_tokens:
                    marks.add("awaited")
    return {name: sum(name == of_slot(marks) for marks in slots) for name in CLASSES} | free(scheduler, slots)


def can_be_used(live: set[int], sequence, place: int, size: int) -> bool:
    """A held block has a token that is read, or a slot that is not written yet."""
    return bool(live & set(range(place * size, (place + 1) * size))) or sequence.stored < (place + 1) * size


def of_slot(marks: set[str]) -> str:
    if "live" in marks:
        return "live"
    if "awaited" in marks and "written" not in marks:
        return "reserved"
    return "internal" if "held" in marks else "free"


def free(scheduler, slots: list[set[str]]) -> dict[str, int]:
    cached = scheduler.allocator.num_cached_slots
    return {"cached": cached, "free": sum(not marks for marks in slots) - cached}
