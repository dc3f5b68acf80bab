# %% [markdown]
# # 13. A museum of real bugs
#
# Fifteen faults that were found in public servers and kernels, each restated in a few lines. None is exotic. **Most of
# them pass every test that is written on a quiet day**: short sequences, small pools, nobody preempted, nothing hidden.
# You will see each one fail, and repair it.
#
# *You need*: lessons 4, 5, 7 and 9. *Time*: 45 minutes; do as many as you like. *Runs on*: any laptop.
#
# The code is not the projects' own. It is rewritten so that the fault, and only the fault, is there; names of issues
# say where to read the true story.

# %%
import numpy as np

from lessons import pictures_museum
from lessons.checks import museum
from lessons.checks import museum_caches as caches
from lessons.checks import museum_numbers as numbers

# %% [markdown]
# ## Predict
#
# Which of these tests could have found a fault that only shows when a pool holds more than 2**31 numbers?
#
# 1. A unit test with a pool of 64 blocks.
# 2. The same test with block ids near the end of a pretended pool, comparing addresses only.
# 3. A chat with the finished server.
#
# <details><summary>Answer</summary>
#
# The second. The first never leaves the small numbers, and the third may give a plausible but wrong answer. A good test
# goes to where the limits are, not to where the code is.
#
# </details>
#
# ## Run
#
# A piece of the museum is a broken function, and a check that it fails. `museum.fails` runs the check and shows the first
# case that goes wrong. Here is how that looks with a fault of our own.


# %%
def takes_from_the_middle(free, count):
    return (free[1 : count + 1], free[:1] + free[count + 1 :]) if count < len(free) else (None, free)


museum.fails(museum.allocate, takes_from_the_middle)

# %% [markdown]
# ## Look
#
# The card shows what was given, the answer, and the right answer. Read it before you read the code again: it is usually
# the smallest case that the check could find early.
#
# But no small case shows the fault of *Predict*. Here are the addresses of blocks in a pool as large as a real one, in
# elements from its start. For 7,767 blocks all is well, and each test that uses fewer is green.

# %%
pictures_museum.wrapped(np.arange(7740, 7796, dtype=np.int32), 480 * 576)

# %% [markdown]
# A negative address is somebody else's memory. Piece 3 is this one.
#
# ## Build
#
# ### 1. A smallest number that was not small enough
#
# A running maximum has to start somewhere, and the kernel started it at -50,000. Scores below that exist.
# *FlashInfer issue 4267: zeros came out, silently.*


# %%
def total_weight_broken(scores):
    top = -5e4
    for score in scores:
        top = max(top, score)
    return sum(np.exp(score - top) for score in scores)


museum.fails(numbers.total_weight, total_weight_broken)


# %% tags=["stub"]
def total_weight(scores: list[float]) -> float:
    """The sum of exp(score - largest score); at least 1."""
    ### BEGIN SOLUTION
    top = max(scores)
    return sum(np.exp(score - top) for score in scores)
    ### END SOLUTION


# %% tags=["check"]
numbers.total_weight(total_weight)

# %% [markdown]
# ### 2. Nothing to see
#
# Hidden tokens have the score minus infinity. If all of them are hidden, the largest is minus infinity too.
# *FlashInfer issues 4451 and 4452, found when piece 1 was repaired.*


# %%
def weights_broken(scores):
    with np.errstate(invalid="ignore"):
        shares = np.exp(scores - scores.max())
        return shares / shares.sum()


museum.fails(numbers.weights, weights_broken)


# %% tags=["stub"]
def weights(scores: np.ndarray) -> np.ndarray:
    """Softmax of the scores; a hidden token weighs nothing, even if all of them are hidden."""
    ### BEGIN SOLUTION
    top = scores.max()
    shares = np.exp(scores - (0.0 if top == -np.inf else top))
    return shares / (shares.sum() or 1.0)
    ### END SOLUTION


# %% tags=["check"]
numbers.weights(weights)

# %% [markdown]
# ### 3. Block 7,767 is the last good one
#
# A block table holds 32-bit numbers. Block id times the size of a block, in 32 bits, wraps around. In this server a block
# had 480 slots of 576 numbers. *vLLM pull request 47671: the crash was reported by another kernel, later.*

# %%
assert 7767 * 480 * 576 < 2**31 <= 7768 * 480 * 576


def offsets_broken(blocks, stride):
    return (blocks * np.int32(stride)).tolist()


museum.fails(numbers.offsets, offsets_broken)


# %% tags=["stub"]
def offsets(blocks: np.ndarray, stride: int) -> list[int]:
    """Where each block begins, in elements from the start of the pool; `blocks` is int32."""
    ### BEGIN SOLUTION
    return (blocks.astype(np.int64) * stride).tolist()
    ### END SOLUTION


# %% tags=["check"]
numbers.offsets(offsets)

# %% [markdown]
# ### 4. Codes are not numbers
#
# A quantized cache stores small integers and a scale. This backend took the integers for the keys and values themselves.
# *FlashInfer issue 4979: one of its two ways to run forgot the scales.*


# %%
def attend_broken(query, keys, values, k_scale, v_scale):
    scores = keys @ query
    shares = np.exp(scores - scores.max())
    return shares @ values / shares.sum()


museum.fails(numbers.attend, attend_broken)


# %% tags=["stub"]
def attend(query, keys, values, k_scale: float, v_scale: float) -> np.ndarray:
    """Attention of one query [dim] over keys and values [tokens, dim], which are codes: number = code * scale."""
    ### BEGIN SOLUTION
    scores = keys @ query * k_scale  # a scale for all keys can wait until after the product
    shares = np.exp(scores - scores.max())
    return shares @ values / shares.sum() * v_scale
    ### END SOLUTION


# %% tags=["check"]
numbers.attend(attend)

# %% [markdown]
# ### 5. Your answer depends on your neighbours
#
# With few sequences a kernel cuts each into more chunks, to keep the device busy. Sums in another order are rounded
# otherwise, so the same prompt may give other tokens in another batch. *FlashAttention issue 1897, pull request 2450.*


# %%
def steady_sum_broken(terms, batch):
    chunks = np.array_split(terms, max(1, 8 // batch))
    return np.float32(sum((chunk.sum(dtype=np.float32) for chunk in chunks), np.float32(0)))


museum.fails(numbers.steady_sum, steady_sum_broken)


# %% tags=["stub"]
def steady_sum(terms: np.ndarray, batch: int) -> np.float32:
    """The sum of float32 numbers, in chunks; the same to the bit whatever the batch is."""
    ### BEGIN SOLUTION
    chunks = [terms[first : first + 8] for first in range(0, len(terms), 8)]  # by the length alone
    return np.float32(sum((chunk.sum(dtype=np.float32) for chunk in chunks), np.float32(0)))
    ### END SOLUTION


# %% tags=["check"]
numbers.steady_sum(steady_sum)

# %% [markdown]
# ### 6. The last block of nobody
#
# Batches are padded with sequences of length 0. The last token of such a one sits at position -1, and -1 is a valid index.
# *vLLM issue 35969.*


# %%
def last_block_broken(table, length, block_size):
    return table[(length - 1) // block_size]


museum.fails(museum.last_block, last_block_broken)


# %% tags=["stub"]
def last_block(table: list[int], length: int, block_size: int) -> int | None:
    """The block that holds the last of `length` tokens; None if there is none."""
    ### BEGIN SOLUTION
    return table[(length - 1) // block_size] if length else None
    ### END SOLUTION


# %% tags=["check"]
museum.last_block(last_block)

# %% [markdown]
# ### 7. A window of how many?
#
# With a sliding window of `w`, does a query read `w` tokens, or `w` and itself? Implementations differed by one
# (*vLLM issue 3385*), and a block manager that counts one less than the kernel gives back what is still read. Here the query counts itself.


# %%
def blocks_to_free_broken(stored, window, block_size):
    return max(0, stored + 2 - window) // block_size


museum.fails(museum.blocks_to_free, blocks_to_free_broken)


# %% tags=["stub"]
def blocks_to_free(stored: int, window: int, block_size: int) -> int:
    """How many of the first blocks no query will read again; the next one sits at position `stored`."""
    ### BEGIN SOLUTION
    return max(0, stored + 1 - window) // block_size
    ### END SOLUTION


# %% tags=["check"]
museum.blocks_to_free(blocks_to_free)

# %% [markdown]
# ### 8. Freed twice
#
# A sliding window was kept by using blocks in a ring, so one block stands in several places of a table. *vLLM issue 1556:
# "Double free!"*


# %%
def release_broken(table, free):
    return free + table


museum.fails(museum.release, release_broken)


# %% tags=["stub"]
def release(table: list[int], free: list[int]) -> list[int]:
    """The free list with the blocks of `table` behind, each once, in the order of their first place."""
    ### BEGIN SOLUTION
    return free + list(dict.fromkeys(table))
    ### END SOLUTION


# %% tags=["check"]
museum.release(release)

# %% [markdown]
# ### 9. The table still points there
#
# Two requests computed the same blocks at the same time. When the second came to put its own into the cache, they were
# there already. It freed its copies, and went on reading them. *mini-sglang pull request 142.*


# %%
def adopt_broken(table, cached):
    freed = [mine for mine, kept in zip(table, cached, strict=False) if mine != kept]
    return table, freed


museum.fails(caches.adopt, adopt_broken)


# %% tags=["stub"]
def adopt(table: list[int], cached: list[int]) -> tuple[list[int], list[int]]:
    """`cached` are the cache's blocks for the first places of `table`. The table from now on, and what it frees."""
    ### BEGIN SOLUTION
    freed = [mine for mine, kept in zip(table, cached, strict=False) if mine != kept]
    return cached + table[len(cached) :], freed
    ### END SOLUTION


# %% tags=["check"]
caches.adopt(adopt)

# %% [markdown]
# ### 10. Half a grant
#
# Blocks are taken one by one until there are none. Then the request is refused, and what it took is nobody's.
# *inference-sim issue 200: it slept there behind another check, until that should drift.*


# %%
def allocate_broken(free, count):
    left, taken = list(free), []
    for _ in range(count):
        if not left:
            return None, left
        taken.append(left.pop(0))
    return taken, left


museum.fails(museum.allocate, allocate_broken)


# %% tags=["stub"]
def allocate(free: list[int], count: int) -> tuple[list[int] | None, list[int]]:
    """The first `count` free blocks and the free list after it. Nothing changes (None) if they are too few."""
    ### BEGIN SOLUTION
    if count > len(free):
        return None, free
    return free[:count], free[count:]
    ### END SOLUTION


# %% tags=["check"]
museum.allocate(allocate)

# %% [markdown]
# ### 11. An undo that does not undo
#
# The first of the free list is the one to be reused next, because it was used longest ago. Blocks that were taken in vain
# came back at the end: the right blocks, in the wrong order. *inference-sim issue 354.*


# %%
def undo_broken(free, taken):
    return free + taken


museum.fails(museum.undo, undo_broken)


# %% tags=["stub"]
def undo(free: list[int], taken: list[int]) -> list[int]:
    """The free list as it was before `taken` were taken from its front, in this order."""
    ### BEGIN SOLUTION
    return taken + free
    ### END SOLUTION


# %% tags=["check"]
museum.undo(undo)

# %% [markdown]
# ### 12. All found, nothing to do
#
# A prompt of full blocks only, all of them in the cache: no token is left to compute. But the first answer token comes out
# of the computation of the last prompt token. *nano-vllm issue 144.*


# %%
def to_compute_broken(prompt, cached_blocks, block_size):
    return prompt - cached_blocks * block_size


museum.fails(caches.to_compute, to_compute_broken)


# %% tags=["stub"]
def to_compute(prompt: int, cached_blocks: int, block_size: int) -> int:
    """Tokens of the prompt that a prefill has to compute, so that it can emit one."""
    ### BEGIN SOLUTION
    return max(1, prompt - cached_blocks * block_size)
    ### END SOLUTION


# %% tags=["check"]
caches.to_compute(to_compute)

# %% [markdown]
# ### 13. Counted from the wrong place
#
# A long prompt is computed in chunks. Blocks were cut from where the chunk begins, not from where the sequence does, and
# their keys did not know what stood before. *inference-sim issue 196.*


# %%
def block_keys_broken(tokens, start, stop, block_size):
    ends = range(start + block_size, stop + 1, block_size)
    return [tuple(tokens[start:end]) for end in ends]


museum.fails(caches.block_keys, block_keys_broken)


# %% tags=["stub"]
def block_keys(tokens: list[int], start: int, stop: int, block_size: int) -> list[tuple[int, ...]]:
    """The keys of the blocks that tokens [start, stop) complete: all tokens up to the block's end, as a tuple."""
    ### BEGIN SOLUTION
    first, last = start // block_size, stop // block_size
    return [tuple(tokens[: (block + 1) * block_size]) for block in range(first, last)]
    ### END SOLUTION


# %% tags=["check"]
caches.block_keys(block_keys)

# %% [markdown]
# ### 14. Two names in one drawer
#
# Keys and values depend on more than the tokens: on the adapter of the model, and on a salt by which a customer keeps to
# himself. Both were put into the key as plain words. *vLLM issue 44701.*


# %%
def cache_key_broken(tokens, adapter, salt):
    return tokens, tuple(word for word in (adapter, salt) if word)


museum.fails(caches.cache_key, cache_key_broken)


# %% tags=["stub"]
def cache_key(tokens: tuple[int, ...], adapter: str | None, salt: str | None):
    """A key that is equal for two requests if tokens, adapter and salt all are, and otherwise not."""
    ### BEGIN SOLUTION
    return tokens, ("adapter", adapter), ("salt", salt)
    ### END SOLUTION


# %% tags=["check"]
caches.cache_key(cache_key)

# %% [markdown]
# ### 15. Everyone is guarded but you
#
# While a request uses a node of the prefix tree, that node and all above it must not be evicted. One line stood too high in
# the loop. *mini-sglang pull request 52.*


# %%
def lock_broken(parents, node):
    locked = []
    while node != "root":
        node = parents[node]
        if node != "root":
            locked.append(node)
    return locked


museum.fails(caches.lock, lock_broken)


# %% tags=["stub"]
def lock(parents: dict[str, str], node: str) -> list[str]:
    """The nodes to guard, from `node` upwards, without "root"."""
    ### BEGIN SOLUTION
    locked = []
    while node != "root":
        locked.append(node)
        node = parents[node]
    return locked
    ### END SOLUTION


# %% tags=["check"]
caches.lock(lock)

# %% [markdown]
# ## Stretch
#
# 1. Sort the fifteen by what would have found them: extreme numbers, empty input, a second owner, an interrupted
#    operation, a boundary. Which kind is missing from the tests that *you* write?
# 2. Pieces 10 and 11 are about operations that fail half-way. This project's allocators promise to change nothing when they
#    refuse (`sim/alloc/protocol.py`). Find the test that holds them to it.
# 3. Two more for the hunt: a server counted the tokens that it computed again after a preemption as prefix hits (vLLM issue
#    25780), and a loop that should evict so many tokens never counted them (SGLang issue 4987). Restate one as a piece:
#    broken function, check, repair.
#
# **In the app**: `pagelab app`, then open <http://localhost:8501/?trace=thrashing&a=paged&b=paged&step=60>: preemption is where many
# of these live.
#
# ## What you proved, and what you did not
#
# You proved that each of these faults is a fault and that your repair passes a check with random cases. You did not prove
# that it is right: a check with sixty cases sees what those cases see. Nor is the museum complete; faults between threads,
# and on real devices, do not fit into ten lines.
