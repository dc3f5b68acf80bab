# %% [markdown]
# # 4. Paging: the allocator and the block table
#
# The same 60 requests, the same memory, the same model. With one range for each request (lesson 2) **8** of them run
# at once at most, and 81 % of the memory that they hold holds nothing. With paging **57** run at once, and 7 % is
# wasted. No number in the model changes. What changes is two lists, and you will write them in this lesson.
#
# *You need*: slots, `p + o - 1` stored tokens (lesson 1), the classes of waste (lesson 2), holes (lesson 3).
# *Time*: 45 minutes. *Runs on*: any laptop.

# %%
import numpy as np

from app.player.notebook import play
from lessons import pictures, pictures_blocks
from lessons.checks import paging as checks
from sim import Config, Request, Trace, simulate
from sim.models import MODELS

trace = Trace.read("demo")
dials = {"pool_tokens": 4096, "max_len": 512}
runs = [simulate(trace, Config(allocator=name, **dials), record=name == "paged") for name in ("max", "paged")]
for report in (run.report() for run in runs):
    most, waste = report["batch"]["max"], report["waste_percent"]
    print(f"{report['allocator']:6} at most {most:2} at once, {waste:.0f} % wasted")
assert [run.report()["batch"]["max"] for run in runs] == [8, 57]
assert [f"{run.report()['waste_percent']:.0f}" for run in runs] == ["81", "7"]

# %% [markdown]
# ## Predict
#
# Cut the pool into **blocks** of 4 slots, and number them 0, 1, 2, ... A request need not hold blocks that lie side by
# side. It keeps a **block table**: the numbers of its blocks, in the order of its tokens. It takes a block only when
# its next token has no room.
#
# A request has a prompt of 7 tokens and will answer with 4. Write down:
#
# 1. How many blocks does it hold after its prefill? After its second token? After its third?
# 2. Its table is `[7, 1, 3]`. In which slot of the pool are the keys and values of its token at position 8 (counted
#    from 0)?
# 3. Answers are of any length, and the block size is 16. How many slots can a request hold in vain at most?

# %% [markdown]
# ## Run
#
# The request alone, step by step. Every slot shows the position of the token in it; under each block are its number
# and its owner; pale slots are held and empty.

# %%
alone = Trace("alone", (Request(id="a", arrival_s=0.0, prompt=7, output=4, max_tokens=4),))
small = Config(allocator="paged", pool_blocks=8, block_size=4, timing="unit", max_len=32)
run = simulate(alone, small)
tables = [run.at(step).block_tables["a"] for step in range(1, run.num_steps + 1)]
print("tables after steps 1 to 4:", tables)
assert [len(table) for table in tables] == [2, 2, 3, 3]
pictures_blocks.pool_at(run, 3)

# %% [markdown]
# The prefill stores 7 tokens in 2 blocks. The second token fills the last slot of the second block. The third needs
# a third block: the request takes it in that step and not before.
#
# Now with company: `a`, `b` and `c` arrive together. Look at step 3, in which `a` and `b` both need one more.

# %%
company = Trace(
    "company",
    tuple(
        Request(id=name, arrival_s=0.0, prompt=prompt, output=output, max_tokens=output)
        for name, prompt, output in (("a", 7, 6), ("b", 3, 9), ("c", 10, 3))
    ),
)
run = simulate(company, small)
assert run.at(3).block_tables == {"a": [0, 1, 6], "b": [2, 7], "c": [3, 4, 5]}
pictures_blocks.pool_at(run, 3)

# %% [markdown]
# Every block is taken, and `c` ends in this step. It gives its blocks back. At step 7 `b` needs a third block. Which
# one it gets does not matter to `b`: any free block is as good as any other. So **no hole is ever too small**, and
# there is no external fragmentation.

# %%
assert run.at(7).block_tables == {"b": [2, 7, 0]}
assert run.ledger["external"] == 0
pictures_blocks.pool_at(run, 7)

# %% [markdown]
# But attention wants a token's keys in order. It finds them through the table: position `i` is in the block
# `table[i // block_size]`, at offset `i % block_size`. Here we scatter the keys of `b` as its table says, and gather
# them again.

# %%
state = run.at(9)
slots = state.slots("b", 4)
keys = np.random.default_rng(0).normal(size=(len(slots), 8))
pool = np.full((32, 8), np.nan)  # slots that nobody wrote
pool[slots] = keys
query = keys[-1]
assert np.array_equal(pool[slots] @ query, keys @ query)
print("positions 0 to 10 of b are in slots", slots.tolist())
assert slots.tolist() == [8, 9, 10, 11, 28, 29, 30, 31, 0, 1, 2]

# %% [markdown]
# ## Look
#
# The demo again, both runs side by side on one clock.

# %%
play(*(simulate(trace, Config(allocator=name, **dials)) for name in ("max", "paged")))

# %% [markdown]
# Play it, or go on event by event with Shift and the arrow keys. The strip over each memory is what one request sees;
# the arrows are its block table. Point at a block to follow it. *Predict* stops before an event and asks you.
#
# Now the step at which most slots are live, slot by slot. It is not the step at which 57 run at once: that
# came earlier, when their texts were shorter.

# %%
live, batch = (runs[1].series.column(name) for name in ("live", "batch"))
crowded, busiest = int(np.argmax(batch)) + 1, int(np.argmax(live)) + 1
tokens_each = live / batch
for step in (crowded, busiest):
    print(f"step {step}: {batch[step - 1]} requests, {tokens_each[step - 1]:.0f} tokens each on average")
assert crowded < busiest and tokens_each[crowded - 1] < tokens_each[busiest - 1]
pictures_blocks.crowd(runs[1], busiest)

# %%
assert runs[1].ledger["reserved"] > 10 * runs[1].ledger["internal"]
pictures.ledgers(runs)

# %% [markdown]
# What is wasted now is the empty end of each request's last block, 15 slots of 16 at most, whatever the
# length of the answer. Nearly all of that is *reserved*: the request will still fill it. The price is the
# table: 4 bytes a block.
#
# <details><summary>Check: how large is that price for OPT-13B with blocks of 16 tokens?</summary>
#
# A block takes 13,107,200 bytes and its table entry 4: less than one in three million. The next cell
# computes it. The real cost of the table is elsewhere: every read of a key goes through it (lesson 5).
# </details>
#
# <details><summary>Check: the answers to <i>Predict</i></summary>
#
# 2, 2 and 3 blocks. Position 8 is the first of the third block, block 3: slot 3 x 4 + 0 = 12. And 15 slots: the last
# block holds one token at least.
# </details>

# %%
block_bytes = MODELS["opt-13b"].kv_bytes_per_block(16, "fp16")
assert f"{block_bytes:,}" == "13,107,200" and block_bytes / 4 > 3_000_000
assert [7, 1, 3][8 // 4] * 4 + 8 % 4 == 12
print(f"a block: {block_bytes:,} bytes; its entry in a table: 4 bytes")

# %% [markdown]
# ## Build
#
# **First**, the way from a position to a slot. A kernel does this for every key it reads.


# %% tags=["stub"]
def slot_of(table: list[int], position: int, block_size: int) -> int:
    """The slot of the pool that holds the sequence's token at `position`, counted from 0."""
    ### BEGIN SOLUTION
    return table[position // block_size] * block_size + position % block_size
    ### END SOLUTION


# %% tags=["check"]
checks.slot_of(slot_of)

# %% [markdown]
# **Second**, growth. `free` is the list of free blocks. Take from its **end** (`free.pop()`), and append to the table.
# The sequence has `stored` tokens and is to store `num_tokens` more. It may have room in its last block. It gets
# all the blocks that it needs, or none: a request that holds a part of what it needs keeps others waiting for nothing.


# %% tags=["stub"]
def grow(table: list[int], stored: int, num_tokens: int, block_size: int, free: list[int]) -> bool:
    """Makes room for `num_tokens` more tokens. False, with nothing changed, if `free` is too short."""
    ### BEGIN SOLUTION
    needed = -(-(stored + num_tokens) // block_size) - len(table)  # -(-a // b) rounds up
    if needed > len(free):
        return False
    for _ in range(needed):
        table.append(free.pop())
    return True
    ### END SOLUTION


# %% tags=["check"]
checks.grow(grow)

# %% [markdown]
# **Third**, the end. All blocks go to the end of `free`, the last block of the table first, and the table is empty
# afterwards. (Any order would do here. Lesson 9 needs this one.)


# %% tags=["stub"]
def release(table: list[int], free: list[int]) -> None:
    """Gives all blocks back, the last one first."""
    ### BEGIN SOLUTION
    while table:
        free.append(table.pop())
    ### END SOLUTION


# %% tags=["check"]
checks.release(release)

# %% [markdown]
# That is an allocator. The next cell puts your `grow` and `release` into a small server
# (`lessons/checks/tiny_server.py`), sends it ten random traces, and compares every block table at every step
# with the simulator's.

# %% tags=["check"]
checks.whole_server(grow, release)

# %% [markdown]
# Now you can read the real thing: this project's in `sim/alloc/paged.py` and `sim/alloc/blocks.py`, vLLM's in
# `vllm/v1/core/kv_cache_manager.py` and `block_pool.py` beside it.
#
# | yours | here | in vLLM (0.32) |
# |---|---|---|
# | `free` | `BlockPool`, `FreshBlocks` | `BlockPool.free_block_queue` |
# | `free.pop()` | `BlockPool.take` | `BlockPool.get_new_blocks` |
# | `free.append(block)` | `BlockPool.drop` | `BlockPool.free_blocks` |
# | `table` | `PagedAllocator.tables` | `SingleTypeKVCacheManager.req_to_blocks` |
# | a block's number | an `int` | `KVCacheBlock.block_id` |
# | `grow(...)` | `PagedAllocator.grow` | `KVCacheManager.allocate_slots` |
# | `False` | `Short(needed, free)` | `None` |
# | `release(...)` | `PagedAllocator.release` | `KVCacheManager.free` |
# | lesson 7: owners of a block | `BlockPool.num_refs` | `KVCacheBlock.ref_cnt` |
# | lesson 8: who must go | `Scheduler._preempt` | `Scheduler._preempt_request` |
# | lesson 9: a prompt's known start | `PrefixIndex.find` | `KVCacheManager.get_computed_blocks` |
# | lesson 9: a block taken over | `BlockPool.share` | `BlockPool.touch` |
#
# vLLM's free list is a queue: blocks leave it in front and come back at its end. Any free block is as good as any
# other, so requests run in the same steps with either.

# %% [markdown]
# ## Stretch
#
# 1. In the server above nobody ever runs out of blocks. What should happen when `grow` returns False for a request that
#    is in the middle of its answer? Write down two ways; lesson 8 has both.
# <!-- installed -->
# 2. `pagelab simulate demo --pool-tokens 4096 --max-len 512 --block-size 1` wastes nothing. Why does nobody use
#    blocks of one token? Try `--block-size 128`. With which block size does paging waste as much as
#    `max` does, to the digit, and why?
# <!-- page -->
# 2. `simulate(trace, Config(block_size=1, **dials)).report()["waste_percent"]` is 0. Why does nobody use
#    blocks of one token? Try `block_size=128`. With which block size does paging waste as much as
#    `max` does, to the digit, and why?
# <!-- end -->
# 3. Two requests begin with the same 200 tokens. Could their tables name the same blocks? What must never be done to
#    such a block? (Lesson 7.)
#
# <!-- installed -->
# **In the ledger**: a guide to paging takes a new page when `length % page_size == 1`. For which page size does a
# sequence never get one? `pagelab claims modulo-rule` tries them.
#
# **In the app**: `pagelab app`, then open <http://localhost:8501/?trace=demo&a=oracle&b=paged&step=60>. Point at a block
# to see its row in the block table.
# <!-- page -->
# 4. A guide to paging takes a new page when `length % page_size == 1`. For which page size does a sequence never get one?
#
# **In [the simulator](#simulator)**: put `pictures.memory_map(runs[1], 60)` into a cell, and then `runs[0]`.
# <!-- end -->
#
# ## What you proved, and what you did not
#
# You proved, block for block, that a free list and a table are enough to serve requests of unknown length, with less
# than one block wasted for each. You did not prove that attention over blocks is as fast as over a range:
# that is lesson 5. And you did not yet run out of memory. Paging admits requests without knowing what they
# will need, so sooner or later it must take memory back: lesson 8.
