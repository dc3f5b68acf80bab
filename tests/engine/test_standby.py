"""Helpers that stand by between products: they help, leave when they are needed, and are not waited for."""

import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random

import numpy as np
import pytest
import torch

from engine.packed import PackedMatrix
from engine.packed_loops import (
    BOARD_SIZE,
    IS_OPEN,
    IS_TAKEN,
    NUM_INSIDE,
    PRODUCT,
    TURN,
    WIDTH,
    multiply_with_help,
    stand_by,
)
from engine.team import Standby, team_size, together
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("three_threads")
FOR_SECONDS = 1 << 31  # looks: a helper that is not sent away stays


@pytest.fixture
def arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x, panels, room for the product, and what it is."""
    generator = np.random.default_rng(7)
    x, panels = (generator.standard_normal(shape, np.float32) for shape in ((5, 40), (6, 40, WIDTH)))
    product = np.einsum("rk,pkw->rpw", x, panels).reshape(5, -1)
    return x, panels, np.zeros((5, 6 * WIDTH), np.float32), product


def stand(standby: Standby, number: int) -> bool:
    return sum(one.running() for one in standby._standing) == number


def test_a_helper_computes_what_is_posted(arrays) -> None:
    x, panels, out, product = arrays
    board, counter = np.zeros(BOARD_SIZE, np.int64), np.zeros(1, np.int64)
    numbers = [x.ctypes.data, 5, 40, panels.ctypes.data, 6, out.ctypes.data, 2, counter.ctypes.data]
    board[PRODUCT : PRODUCT + 8] = numbers
    board[TURN] = board[IS_OPEN] = 1
    stand_by(board, 0, 100)
    np.testing.assert_allclose(out, product, rtol=1e-5, atol=1e-5)
    assert board[NUM_INSIDE] == 0
    assert counter[0] > 3, "three pieces were taken, and once there was none"


def test_a_product_without_a_helper_is_computed_and_taken_off_the_board(arrays) -> None:
    x, panels, out, product = arrays
    board = np.zeros(BOARD_SIZE, np.int64)
    multiply_with_help(board, x, panels, out, 2, np.zeros(1, np.int64))
    np.testing.assert_allclose(out, product, rtol=1e-5, atol=1e-5)
    assert board[IS_OPEN] == board[IS_TAKEN] == board[NUM_INSIDE] == 0
    assert board[TURN] == 1


def test_a_product_beside_another_is_computed_alone_and_leaves_the_board_as_it_is(arrays) -> None:
    x, panels, out, product = arrays
    board = np.zeros(BOARD_SIZE, np.int64)
    board[IS_TAKEN] = 1
    multiply_with_help(board, x, panels, out, 2, np.zeros(1, np.int64))
    np.testing.assert_allclose(out, product, rtol=1e-5, atol=1e-5)
    board[IS_TAKEN] -= 1
    assert not board.any()


@pytest.mark.parametrize("seed", range(3))
def test_many_products_of_several_callers_amid_other_work_have_the_bits_of_one_thread(seed: int) -> None:
    """The second caller finds the board taken; work done `together` sends the helpers away each time."""
    random = Random(seed)
    sizes = [(rows, depth) for rows in (1, 3, 17) for depth in (576, 1536)]
    generator = torch.Generator().manual_seed(seed)
    matrices = {depth: PackedMatrix(torch.randn(1000, depth, generator=generator)) for _, depth in sizes}
    given = {size: torch.randn(*size, generator=generator) for size in sizes}
    torch.set_num_threads(1)
    right = {(rows, depth): matrices[depth](x, None) for (rows, depth), x in given.items()}
    torch.set_num_threads(3)

    def call(order: list[tuple[int, int]]) -> int:
        wrong = 0
        for number, size in enumerate(order):
            wrong += not torch.equal(matrices[size[1]](given[size], None), right[size])
            if number % 7 == 6:
                pieces = iter(range(50))
                seen: list[int] = []
                together(lambda pieces=pieces, seen=seen: seen.extend(pieces))
                wrong += sorted(seen) != list(range(50))
        return wrong

    orders = [random.choices(sizes, k=150) for _ in range(2)]
    with ThreadPoolExecutor(2) as callers:
        assert list(callers.map(call, orders)) == [0, 0]


def test_helpers_that_stand_by_leave_as_soon_as_others_need_them() -> None:
    standby = Standby(stand_by, BOARD_SIZE, FOR_SECONDS)
    standby.call_up()
    wait_for(lambda: stand(standby, 2), seconds=60)
    met = threading.Barrier(team_size(), timeout=10)
    together(lambda: [met.wait()])  # breaks unless three are there at the same time
    assert not met.broken
    wait_for(lambda: stand(standby, 2), seconds=60)  # they have gone back
    assert standby.send_away()


def test_a_helper_that_is_sent_away_on_its_way_does_not_stay() -> None:
    on_its_way, sent_away = threading.Event(), threading.Event()

    def come(board: np.ndarray, leave: int, patience: int) -> None:
        on_its_way.set()
        sent_away.wait(60)
        stand_by(board, leave, patience)

    standby = Standby(come, BOARD_SIZE, FOR_SECONDS)
    standby.call_up()
    coming = list(standby._standing)
    assert on_its_way.wait(60)
    standby.send_away()
    sent_away.set()
    wait_for(lambda: all(one.done() for one in coming), seconds=5)


def test_helpers_leave_by_themselves_when_nothing_is_posted() -> None:
    stand_by(np.zeros(BOARD_SIZE, np.int64), 0, 1000)


def test_after_a_fork_nobody_stands_there_and_the_board_is_empty() -> None:
    standby = Standby(stand_by, BOARD_SIZE, 10)
    standby.call_up()
    standby.board[[IS_TAKEN, NUM_INSIDE]] = 1  # what another thread of the parent had going on
    standby.forget()
    assert not standby.board.any()
    assert not standby.send_away()
