"""What decode computes: the query heads of a kv head against UNROLL of its keys, and of its values.

Up to three query heads at a time: a number of a row that is in a register serves them all, and 12 sums or
weights, with what they meet, fill the 16 registers of AVX2.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from engine.attention.cpu_jit import compiled
from engine.attention.cpu_rows import UNROLL
from engine.attention.cpu_vectors import (
    INDEX,
    LANES,
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


def _of_heads(num_heads: int, emit_body: Callable[[Builder, Pointers], None]) -> Any:
    @intrinsic
    def function(
        typing: Any, heads: Any, head: Any, rows: Any, starts: Any, at: Any, offset: Any, scores: Any, t: Any
    ) -> Any:
        def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
            emit_body(builder, Pointers(context, builder, signature.args, arguments, num_heads))
            return context.get_dummy_value()

        index = types.intp
        return types.void(heads, index, rows, starts, index, index, scores, index), emit

    return function


def _score(builder: Builder, given: Pointers) -> None:
    """scores[h, j] = heads[h] . rows[j]."""
    zero = ir.Constant(VECTOR, [0.0] * LANES)
    sums = [variables(builder, [zero] * UNROLL) for _ in given.heads]
    with loop(builder, INDEX(0), given.whole, LANES) as (d, _):
        queries = [load(builder, builder.gep(head, [d])) for head in given.heads]
        for j, row in enumerate(given.rows):
            key = load(builder, builder.gep(row, [d]), given.dtype)
            for query, own in zip(queries, sums, strict=True):
                builder.store(add_product(builder, query, key, builder.load(own[j])), own[j])
    for own, place in zip(sums, given.scores, strict=True):
        total = add_up(builder, *(builder.load(one) for one in own))
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

    pairs = [0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15]
    ab, cd = fold(a, b, *pairs), fold(c, d, *pairs)
    abcd = fold(ab, cd, [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15])
    return fold(abcd, abcd, [0, 1, 2, 3], [4, 5, 6, 7])


def _add(builder: Builder, given: Pointers) -> None:
    """heads[h] += scores[h, j] * rows[j], summed over j."""
    weights = [
        [builder.load(builder.gep(place, [INDEX(j)])) for j in range(UNROLL)] for place in given.scores
    ]
    spread_out = [[spread(builder, weight) for weight in own] for own in weights]
    with loop(builder, INDEX(0), given.whole, LANES) as (d, _):
        places = [builder.gep(head, [d]) for head in given.heads]
        sums = [load(builder, place) for place in places]
        for j, row in enumerate(given.rows):
            value = load(builder, builder.gep(row, [d]), given.dtype)
            sums = [
                add_product(builder, own[j], value, one) for own, one in zip(spread_out, sums, strict=True)
            ]
        for place, one in zip(places, sums, strict=True):
            builder.store(one, vector_at(builder, place), align=4)
    with given.rest(builder) as d:
        for head, own in zip(given.heads, weights, strict=True):
            place = builder.gep(head, [d])
            for weight, row in zip(own, given.rows, strict=True):
                value = load(builder, builder.gep(row, [d]), given.dtype, 1)
                builder.store(add_product(builder, weight, value, builder.load(place)), place)


score_one, score_two, score_three = (_of_heads(number, _score) for number in (1, 2, 3))
add_one, add_two, add_three = (_of_heads(number, _add) for number in (1, 2, 3))


@compiled
def how_many(left: int) -> int:
    """Of so many heads that are left, those to take together: of four two and two, not three and one."""
    if left == 3 or left > 4:
        return 3
    return 2 if left > 1 else 1


@compiled
def score_heads(
    queries: Any, head: int, stop: int, rows: Any, starts: Any, at: int, offset: int, scores: Any, t: int
) -> None:
    """scores[h, t + j] = queries[h] . rows[starts[at + j] + offset :], for heads [head, stop) and j < UNROLL.

    queries [heads, head_dim] and scores [heads, tile] are float32, `rows` a flat cache; all contiguous.
    """
    while head < stop:
        number = how_many(stop - head)
        if number == 3:
            score_three(queries, head, rows, starts, at, offset, scores, t)
        elif number == 2:
            score_two(queries, head, rows, starts, at, offset, scores, t)
        else:
            score_one(queries, head, rows, starts, at, offset, scores, t)
        head += number


@compiled
def add_heads(
    sums: Any, head: int, stop: int, rows: Any, starts: Any, at: int, offset: int, weights: Any, t: int
) -> None:
    """sums[h] += weights[h, t + j] * rows[starts[at + j] + offset :], summed over j < UNROLL; as above."""
    while head < stop:
        number = how_many(stop - head)
        if number == 3:
            add_three(sums, head, rows, starts, at, offset, weights, t)
        elif number == 2:
            add_two(sums, head, rows, starts, at, offset, weights, t)
        else:
            add_one(sums, head, rows, starts, at, offset, weights, t)
        head += number
