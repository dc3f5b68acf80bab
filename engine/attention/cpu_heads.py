"""What decode computes: the query heads of a kv head against its keys, and against its values.

Up to four query heads at a time meet UNROLL rows, or half of them where registers are few: a number of a row
that is in a register serves all the heads, a query or a sum all the rows.

All loops over a tile are in one function, which makes no array and hands none on: numba counts references
with locked instructions, and these hold up every load behind them, so that memory would stand still.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from engine.attention.cpu_jit import compiled
from engine.attention.cpu_rows import UNROLL, ask_for_rows, rows_at
from engine.attention.cpu_vectors import (
    INDEX,
    LANES,
    NUM_REGISTERS,
    VECTOR,
    Builder,
    Value,
    add_product,
    load,
    loop,
    pick,
    spread,
    variables,
    vector_at,
)

MAX_HEADS = 4  # at a time
AHEAD = 8192  # bytes: memory answers in time, and they fit in the first-level cache with all else


class Pointers:
    """To where each head, each of its scores and each row begins; `whole` vectors, then single numbers."""

    def __init__(self, context: Any, builder: Builder, kinds: Any, given: Any, num_heads: int) -> None:
        heads, cache, offsets, scores = (
            context.make_array(kinds[i])(context, builder, given[i]) for i in (0, 2, 3, 6)
        )
        head, t, offset = given[1], given[4], given[5]
        _, self.width = cgutils.unpack_tuple(builder, heads.shape, 2)
        _, tile = cgutils.unpack_tuple(builder, scores.shape, 2)
        self.whole = builder.and_(self.width, INDEX(-LANES))
        numbers = [builder.add(head, INDEX(h)) for h in range(num_heads)]
        self.heads = [builder.gep(heads.data, [builder.mul(number, self.width)]) for number in numbers]
        first = [builder.add(builder.mul(number, tile), t) for number in numbers]
        self.scores = [builder.gep(scores.data, [index]) for index in first]
        self.dtype = kinds[2].dtype
        self.rows = rows_at(builder, cache.data, offsets.data, t, offset)

    @contextmanager
    def rest(self, builder: Builder) -> Generator[Value]:
        """A loop over what whole vectors leave of a head: seldom anything, so it is out of the way."""
        is_left = builder.icmp_unsigned("!=", self.whole, self.width)
        with builder.if_then(is_left, likely=False), loop(builder, self.whole, self.width, 1) as (d, _):
            yield d


def _of_heads(emit_body: Callable[[Builder, Pointers], None]) -> Any:
    """`emit_body` for one to MAX_HEADS heads, as the number that comes last says."""

    @intrinsic
    def function(
        typing: Any, heads: Any, head: Any, cache: Any, offsets: Any, t: Any, offset: Any, scores: Any,
        number: Any,
    ) -> Any:  # fmt: skip
        def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
            for number in range(1, MAX_HEADS + 1):
                with builder.if_then(builder.icmp_unsigned("==", arguments[-1], INDEX(number))):
                    emit_body(builder, Pointers(context, builder, signature.args, arguments, number))
            return context.get_dummy_value()

        index = types.intp
        return types.void(heads, index, cache, offsets, index, index, scores, index), emit

    return function


def _keys_at_once(num_heads: int) -> int:
    """For so many heads: sums of as many keys as registers hold, besides the queries and a key."""
    return UNROLL if num_heads * (UNROLL + 1) < NUM_REGISTERS else UNROLL // 2


def _score(builder: Builder, given: Pointers) -> None:
    """scores[h, j] = heads[h] . rows[j]."""
    zero, at_once = ir.Constant(VECTOR, [0.0] * LANES), _keys_at_once(len(given.heads))
    sums: list[list[Value]] = [[] for _ in given.heads]
    for first in range(0, UNROLL, at_once):
        rows = given.rows[first : first + at_once]
        places = [variables(builder, [zero] * at_once) for _ in given.heads]
        with loop(builder, INDEX(0), given.whole, LANES) as (d, _):
            queries = [load(builder, builder.gep(head, [d])) for head in given.heads]
            for j, row in enumerate(rows):
                key = load(builder, builder.gep(row, [d]), given.dtype)
                for query, own in zip(queries, places, strict=True):
                    builder.store(add_product(builder, query, key, builder.load(own[j])), own[j])
        for own, done in zip(places, sums, strict=True):
            done += [builder.load(place) for place in own]
    for own, place in zip(sums, given.scores, strict=True):
        total = add_up(builder, *own)
        builder.store(total, builder.bitcast(place, total.type.as_pointer()), align=4)
    with given.rest(builder) as d:
        for head, scores in zip(given.heads, given.scores, strict=True):
            query = builder.load(builder.gep(head, [d]))
            for j, row in enumerate(given.rows):
                key, place = (
                    load(builder, builder.gep(row, [d]), given.dtype, 1),
                    builder.gep(scores, [INDEX(j)]),
                )
                builder.store(add_product(builder, query, key, builder.load(place)), place)


def add_up(builder: Builder, a: Value, b: Value, c: Value, d: Value) -> Value:
    """The sum of the lanes of each, as a vector of four: together, not one after the other."""

    def fold(x: Value, y: Value, low: list[int], high: list[int]) -> Value:
        return builder.fadd(pick(builder, x, y, low), pick(builder, x, y, high))

    def in_quarters(*lanes: int) -> list[int]:
        return [quarter + lane for quarter in range(0, LANES, 4) for lane in lanes]

    low, high = in_quarters(0, LANES, 1, LANES + 1), in_quarters(2, LANES + 2, 3, LANES + 3)
    ab, cd = fold(a, b, low, high), fold(c, d, low, high)
    low, high = in_quarters(0, 1, LANES, LANES + 1), in_quarters(2, 3, LANES + 2, LANES + 3)
    sums, width = fold(ab, cd, low, high), LANES
    while width > UNROLL:
        width //= 2
        sums = fold(sums, sums, list(range(width)), list(range(width, 2 * width)))
    return sums


def _add(builder: Builder, given: Pointers) -> None:
    """heads[h] += scores[h, j] * rows[j], summed over j."""
    at_once = _keys_at_once(len(given.heads))
    weights = [
        [builder.load(builder.gep(place, [INDEX(j)])) for j in range(UNROLL)] for place in given.scores
    ]
    for first in range(0, UNROLL, at_once):
        rows = given.rows[first : first + at_once]
        spread_out = [[spread(builder, weight) for weight in own[first : first + at_once]] for own in weights]
        with loop(builder, INDEX(0), given.whole, LANES) as (d, _):
            places = [builder.gep(head, [d]) for head in given.heads]
            sums = [load(builder, place) for place in places]
            for j, row in enumerate(rows):
                value = load(builder, builder.gep(row, [d]), given.dtype)
                sums = [
                    add_product(builder, own[j], value, one)
                    for own, one in zip(spread_out, sums, strict=True)
                ]
            for place, one in zip(places, sums, strict=True):
                builder.store(one, vector_at(builder, place), align=4)
    with given.rest(builder) as d:
        for head, own in zip(given.heads, weights, strict=True):
            place = builder.gep(head, [d])
            for weight, row in zip(own, given.rows, strict=True):
                value = load(builder, builder.gep(row, [d]), given.dtype, 1)
                builder.store(add_product(builder, weight, value, builder.load(place)), place)


score, add = _of_heads(_score), _of_heads(_add)


@numba.njit(inline="always")
def how_many(left: Any) -> Any:
    """Of so many heads that are left, those to take together: of five three and two, not four and one."""
    return 3 if left == 5 or left == 6 else min(left, MAX_HEADS)


@compiled
def read_tile(
    are_values: bool, heads: Any, cache: Any, offsets: Any, stride: int, end: int, next_cache: Any,
    next_offsets: Any, next_stride: int, num_next: int, group: int, scores: Any,
) -> None:  # fmt: skip
    """The tokens t < end of a tile, with row = cache[offsets[t] + h // group * stride :], for all heads h:

        keys      scores[h, t] = heads[h] . row
        values    heads[h] += scores[h, t] * row

    heads [num_heads, head_dim] and scores [num_heads, tile] are float32, the caches flat; all contiguous. A
    tile is whole groups of UNROLL.

    Memory is asked for rows AHEAD bytes before they are read, and at the end for the first of the next tile,
    which has num_next tokens.
    """
    num_kv_heads, width = heads.shape[0] // group, heads.shape[1]
    ahead = max(AHEAD // (UNROLL * width * cache.itemsize), 1)
    ask_t, ask_head = ahead // num_kv_heads * UNROLL, ahead % num_kv_heads
    for t in range(0, end, UNROLL):
        for kv_head in range(num_kv_heads):
            if ask_t < end:
                ask_for_rows(cache, offsets, ask_t, ask_head * stride, width)  # pyright: ignore[reportCallIssue]
            elif ask_t - end < num_next:
                at = ask_t - end
                ask_for_rows(next_cache, next_offsets, at, ask_head * next_stride, width)  # pyright: ignore[reportCallIssue]
            ask_head += 1
            if ask_head == num_kv_heads:
                ask_t, ask_head = ask_t + UNROLL, 0
            head, stop = kv_head * group, kv_head * group + group
            while head < stop:
                number = how_many(stop - head)
                if are_values:
                    add(heads, head, cache, offsets, t, kv_head * stride, scores, number)
                else:
                    score(heads, head, cache, offsets, t, kv_head * stride, scores, number)
                head += number
