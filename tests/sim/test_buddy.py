"""Buddy placement: powers of two, aligned, in a pool of any size."""

from random import Random

import pytest

from sim.alloc.buddy import BuddyPlacement, next_pow2


@pytest.mark.parametrize(
    ("value", "power"), [(1, 1), (2, 2), (3, 4), (25, 32), (32, 32), (33, 64), (2048, 2048)]
)
def test_next_power_of_two(value, power):
    assert next_pow2(value) == power


def test_the_papers_pool_is_cut_into_the_binary_form_of_its_size():
    sizes = [size for _, size in BuddyPlacement(15_728).holes()]
    assert sizes == [8192, 4096, 2048, 1024, 256, 64, 32, 16]


def test_the_papers_pool_gives_exactly_seven_chunks_of_2048():
    pool = BuddyPlacement(15_728)
    starts = [pool.place(2048) for _ in range(8)]
    assert starts[-1] is None
    assert sorted(starts[:7]) == [2048 * index for index in range(7)]
    assert pool.num_free == 15_728 - 7 * 2048


def test_a_pool_of_12_is_8_and_4_and_never_merges_to_16():
    pool = BuddyPlacement(12)
    assert pool.holes() == [(0, 8), (8, 4)]
    assert pool.place(9) is None
    for length in (8, 4):
        pool.place(length)
    pool.release(8, 4)
    pool.release(0, 8)
    assert pool.holes() == [(0, 8), (8, 4)]
    assert pool.largest_possible == 8


def test_a_split_keeps_the_lower_half_and_frees_the_upper_ones():
    pool = BuddyPlacement(16)
    assert pool.place(3) == 0
    assert pool.holes() == [(4, 4), (8, 8)]


def test_buddies_merge_but_mere_neighbours_do_not():
    pool = BuddyPlacement(16)
    starts = [pool.place(4) for _ in range(4)]
    assert starts == [0, 4, 8, 12]
    pool.release(4, 4)
    pool.release(8, 4)
    assert pool.holes() == [(4, 4), (8, 4)]  # 8 free slots in a row, yet no chunk of 8
    assert pool.find(5) is None
    pool.release(0, 4)
    assert pool.holes() == [(0, 8), (8, 4)]
    pool.release(12, 4)
    assert pool.holes() == [(0, 16)]


def test_every_chunk_starts_at_a_multiple_of_its_size():
    random = Random(3)
    pool, held = BuddyPlacement(1000), []
    for _ in range(3000):
        if held and random.random() < 0.5:
            pool.release(*held.pop(random.randrange(len(held))))
        else:
            length = random.randint(1, 90)
            start = pool.place(length)
            if start is not None:
                assert start % pool.rounded(length) == 0
                held.append((start, length))
        assert all(start % size == 0 for start, size in pool.holes())
