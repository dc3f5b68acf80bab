"""What decode computes: the query heads of a kv head against UNROLL of its keys, and of its values.

Up to three query heads at a time: a number of a row that is in a register serves them all, and 12 sums or
weights, with what they meet, fill the 16 registers of AVX2.
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
from engine.attention.cpu_rows import UNROLL, ask_for
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

MAX_HEADS = 4


class Pointers:
    """To where each head, each of its scores and each row begins; `whole` vectors, then single numbers."""

    def __init__(self, context: Any, builder: Builder, kinds: Any, given: Any, num_heads: int) -> None:
        heads, rows, starts, scores = (
            context.make_array(kinds[i])(context, builder, given[i]) for i in (0, 2, 3, 6)
        )
        head, at, offset, t = given[1], given[4], given[5], given[7]
        _, self.width = cgutils.unpack_tuple(builder, heads.shape, 2)
        _, tile = cgutils.unpack_tuple(builder, scores.shape, 2)
        self.whole = builder.and_(self.width, INDEX(-LANES))
        self.dtype = kinds[2].dtype
        numbers = [builder.add(head, INDEX(h)) for h in range(num_heads)]
        self.heads = [builder.gep(heads.data, [builder.mul(number, self.width)]) for number in numbers]
        first = [builder.add(builder.mul(number, tile), t) for number in numbers]
        self.scores = [builder.gep(scores.data, [index]) for index in first]
        places = [builder.gep(starts.data, [builder.add(at, INDEX(j))]) for j in range(UNROLL)]
        self.rows = [builder.gep(rows.data, [builder.add(builder.load(one), offset)]) for one in places]

    @contextmanager
    def rest(self, builder: Builder) -> Generator[Value]:
        """A loop over what whole vectors leave of a head: seldom anything, so it is out of the way."""
        is_left = builder.icmp_unsigned("!=", self.whole, self.width)
        with builder.if_then(is_left, likely=False), loop(builder, self.whole, self.width, 1) as (d, _):
            yield d


def _of_heads(emit_body: Callable[[Builder, Pointers], None]) -> Any:
    """`emit_body` for one to four heads, as the number that comes last says."""

    @intrinsic
    def function(
        typing: Any, heads: Any, head: Any, rows: Any, starts: Any, at: Any, offset: Any, scores: Any, t: Any,
        number: Any,
    ) -> Any:  # fmt: skip
        def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
            for number in range(1, MAX_HEADS + 1):
                with builder.if_then(builder.icmp_unsigned("==", arguments[-1], INDEX(number))):
                    emit_body(builder, Pointers(context, builder, signature.args, arguments, number))
            return context.get_dummy_value()

        index = types.intp
        return types.void(heads, index, rows, starts, index, index, scores, index, index), emit

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
def score_tokens(
    queries: Any, rows: Any, starts: Any, at: int, stride: int, group: int, scores: Any, t: int, stop: int,
    end: int, asked: Any, asked_starts: Any, asked_stride: int, num_asked: int,
) -> None:  # fmt: skip
    """scores[h, t] = queries[h] . rows[starts[at + i] + h // group * stride :] for the tokens [t, stop).

    Meanwhile memory is asked for the heads of t / end of the tokens at `asked_starts` of `asked`.
    queries [heads, head_dim] and scores [heads, tile] are float32, `rows` a flat cache; all contiguous.
    """
    while t < stop:
        ask_at = num_asked * t // end // UNROLL * UNROLL
        ask_until = num_asked * (t + UNROLL) // end // UNROLL * UNROLL
        for kv_head in range(queries.shape[0] // group):
            for token in range(ask_at, ask_until, UNROLL):
                ask_for(asked, asked_starts, token, kv_head * asked_stride, queries.shape[1])
            head = kv_head * group
            while head < kv_head * group + group:
                number = how_many(kv_head * group + group - head)
                score(queries, head, rows, starts, at, kv_head * stride, scores, t, number)
                head += number
        t += UNROLL
        at += UNROLL


@compiled
def add_tokens(
    sums: Any, rows: Any, starts: Any, at: int, stride: int, group: int, weights: Any, t: int, stop: int,
    end: int, asked: Any, asked_starts: Any, asked_stride: int, num_asked: int,
) -> None:  # fmt: skip
    """sums[h] += weights[h, t] * rows[starts[at] + h // group * stride :], summed over [t, stop); as above."""
    while t < stop:
        ask_at = num_asked * t // end // UNROLL * UNROLL
        ask_until = num_asked * (t + UNROLL) // end // UNROLL * UNROLL
        for kv_head in range(sums.shape[0] // group):
            for token in range(ask_at, ask_until, UNROLL):
                ask_for(asked, asked_starts, token, kv_head * asked_stride, sums.shape[1])
            head = kv_head * group
            while head < kv_head * group + group:
                number = how_many(kv_head * group + group - head)
                add(sums, head, rows, starts, at, kv_head * stride, weights, t, number)
                head += number
        t += UNROLL
        at += UNROLL
