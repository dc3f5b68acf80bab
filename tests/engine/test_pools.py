"""The paged pool and the contiguous arena under memory events."""

import pytest
import torch

from engine.arena import ContiguousArena
from engine.measure import execute
from engine.model import LlamaModel
from engine.pool import PagedPool
from engine.sentinel import is_written
from engine.setup import make_model, make_pool
from engine.snapshot import EMPTY
from sim.events import Kind
from tests.engine.running import CROWD, PRESSED, ROOMY, tiny
from tests.engine.test_attend import event, small_pool

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model() -> LlamaModel:
    return make_model(tiny(), CPU)


@pytest.fixture
def pool(model: LlamaModel) -> PagedPool:
    return small_pool(model)


@pytest.fixture
def arena(model: LlamaModel) -> ContiguousArena:
    return ContiguousArena(model.spec, num_slots=64, max_rows=3, dtype=torch.float32, device=CPU)


def test_a_block_is_one_run_of_memory_across_all_layers(pool: PagedPool) -> None:
    block = pool.storage[3]
    assert block.is_contiguous()
    for layer in range(2):
        for view in pool.stored(layer)[:2]:
            assert block.data_ptr() <= view[3].data_ptr() < block.data_ptr() + block.nbytes


def test_a_table_row_grows_by_appending_and_the_tensor_follows(pool: PagedPool) -> None:
    pool.alloc("a", event(Kind.ALLOC, "a", blocks=[4, 2]))
    pool.alloc("b", event(Kind.ALLOC, "b", blocks=[0]))
    pool.alloc("a", event(Kind.ALLOC, "a", blocks=[7]))
    assert pool.block_tables() == {"a": [], "b": []}  # the tensor, which is not up to date yet
    pool.flush()
    assert pool.block_tables() == {"a": [4, 2, 7], "b": [0]}
    assert (pool.table.tensor != EMPTY).sum() == 4


def test_a_row_freed_and_taken_again_before_the_tensor_is_written_holds_the_new_blocks_only(
    pool: PagedPool,
) -> None:
    """Within one schedule a victim's row and blocks go to the next sequence."""
    pool.alloc("a", event(Kind.ALLOC, "a", blocks=[4, 2, 6]))
    pool.flush()
    pool.free("a", event(Kind.FREE, "a", blocks=[6, 2, 4]))
    pool.alloc("b", event(Kind.ALLOC, "b", blocks=[4]))
    pool.flush()
    assert pool.block_tables() == {"b": [4]}
    assert (pool.table.tensor != EMPTY).sum() == 1


def test_freed_blocks_hold_the_sentinel_again_and_no_other_block_does(pool: PagedPool) -> None:
    pool.alloc("a", event(Kind.ALLOC, "a", blocks=[4, 2]))
    pool.storage[:] = 1.0
    pool.free("a", event(Kind.FREE, "a", blocks=[2, 4]))
    pool.settle()
    assert is_written(pool.storage).flatten(1).any(dim=1).tolist() == [
        True,
        True,
        False,
        True,
        False,
        True,
        True,
        True,
    ]


def test_swap_brings_back_every_bit_and_leaves_no_copy_on_the_host(pool: PagedPool) -> None:
    pool.alloc("a", event(Kind.ALLOC, "a", blocks=[4, 2]))
    pool.storage[[4, 2]] = torch.randn_like(pool.storage[[4, 2]])
    pool.storage[2, :, :, 5:] = pool.storage[0, :, :, 5:]  # the tail of the last block was never written
    before = pool.storage[[4, 2]].view(torch.int32).clone()
    pool.swap_out("a", event(Kind.SWAP_OUT, "a", blocks=[4, 2], host_blocks=[3, 0]))
    pool.free("a", event(Kind.FREE, "a", blocks=[2, 4]))
    pool.settle()
    assert not is_written(pool.storage).any()
    pool.alloc("a", event(Kind.ALLOC, "a", blocks=[1, 5, 6]))
    pool.swap_in("a", event(Kind.SWAP_IN, "a", blocks=[1, 5], host_blocks=[3, 0]))
    assert torch.equal(pool.storage[[1, 5]].view(torch.int32), before)
    assert not is_written(pool.storage[6]).any()
    assert not is_written(pool.host.pool).any()


def test_freeing_blocks_that_the_row_does_not_hold_is_our_own_bug_and_says_so(pool: PagedPool) -> None:
    pool.alloc("a", event(Kind.ALLOC, "a", blocks=[4, 2]))
    with pytest.raises(AssertionError, match=r"a frees \[3\], its row holds \[4, 2\]"):
        pool.free("a", event(Kind.FREE, "a", blocks=[3]))


def test_a_range_keeps_what_was_asked_for_apart_from_what_is_held(arena: ContiguousArena) -> None:
    arena.alloc("a", event(Kind.ALLOC, "a", slots=[32, 16], reserved=11))
    assert arena.block_tables() == {"a": (32, 16, 11)}
    holdings = arena.holdings()
    assert holdings.slot.tolist() == list(range(32, 48))
    assert holdings.position.tolist() == list(range(16))
    assert holdings.num_asked[arena.rows["a"]] == 11


def test_a_freed_range_holds_the_sentinel_again_in_all_layers(arena: ContiguousArena) -> None:
    arena.alloc("a", event(Kind.ALLOC, "a", slots=[32, 16], reserved=11))
    arena.storage[:] = 1.0
    arena.free("a", event(Kind.FREE, "a", slots=[32, 16]))
    written = is_written(arena.storage).movedim(2, 0).flatten(1)
    assert (
        written.any(dim=1).tolist() == written.all(dim=1).tolist() == [True] * 32 + [False] * 16 + [True] * 16
    )
    assert arena.block_tables() == {}


@pytest.mark.parametrize(
    "dials", [PRESSED, {**PRESSED, "preempt": "swap"}, {"allocator": "pow2", "pool_tokens": 600}], ids=str
)
def test_at_the_end_of_a_run_every_slot_is_the_sentinel_and_every_table_empty(
    dials: dict[str, object],
) -> None:
    config = tiny(**dials)
    pool = make_pool(config, CPU)
    run = execute(CROWD, config, make_model(config, CPU), pool, backend="cpu")
    assert run.num_steps > 0
    assert not is_written(pool.storage).any()
    assert not pool.holdings().is_held.any()
    assert pool.rows == {}
    if isinstance(pool, PagedPool):
        assert not is_written(pool.host.pool).any()


def test_a_pool_in_use_is_really_written(model: LlamaModel) -> None:
    """Guards the test above: the same reduction sees slots during the run."""
    config = tiny(**ROOMY)
    run = execute(CROWD, config, model, make_pool(config, CPU), backend="cpu")
    assert max(observation.ledger.live for observation in run.observations) > 200
