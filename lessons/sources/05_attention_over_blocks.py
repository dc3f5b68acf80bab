# %% [markdown]
# # 5. Attention over blocks
#
# A query looks back at 32,768 tokens. Softmax needs all scores before it can give the first weight, so it seems: 32,768
# numbers to keep for each head, from blocks that lie all over the memory. **It needs 130.** That is why paging costs
# the kernel so little: it can take one block at a time, wherever it lies, and forget it.
#
# *You need*: lesson 4 (a block table says where each block of a sequence lies).
# *Time*: 45 minutes. *Runs on*: any laptop; the kernel runs in Triton's interpreter, or on a GPU if there is one.

# %%
import os
from importlib.util import find_spec
from inspect import getsource

import numpy as np
import torch

from lessons import pictures_attention as pictures
from lessons import recorded
from lessons.checks import attention

has_gpu = torch.cuda.is_available()
if not has_gpu:
    os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel's module is imported, so before `engine` is

context, head_dim = 32_768, 128
running_softmax = 2 + head_dim  # the largest score, the sum of weights, and the weighted sum of values
assert running_softmax == 130
print(f"all at once: {context} scores; block by block: {running_softmax} numbers")

# %% [markdown]
# ## Predict
#
# A block holds two tokens. The query's scores are `2, 0` in the first block and `3, 1` in the second. Softmax
# weighs a token by `exp(score)`, over the sum of all of them. Nobody computes that as it stands: `exp(89)` is too
# large for a 32-bit number. So every exponent is taken relative to the largest score.
#
# 1. After the first block: what is the largest score, and what is the sum of `exp(score - largest)`?
# 2. The second block brings a larger score. By what must the sum so far be multiplied before anything is added?
# 3. Of a third block everything is hidden: all scores are minus infinity. What changes?
#
# <details><summary>Answers</summary>
#
# 1. The largest is 2; the sum is exp(0) + exp(-2) = 1.135.
# 2. By exp(2 - 3) = 0.368: each of its terms was relative to 2 and must become relative to 3.
# 3. Nothing. (Mind the first block: minus infinity minus minus infinity is not a number.)
#
# </details>

# %%
with np.errstate(over="ignore"):
    assert np.isinf(np.exp(np.float32(89)))
assert np.isfinite(np.exp(np.float32(88)))
assert f"{np.exp(0) + np.exp(-2):.3f}" == "1.135"
assert f"{np.exp(2 - 3):.3f}" == "0.368"

# %% [markdown]
# ## Run
#
# Ten tokens in blocks of four. The block table says that the first block is number 5, then comes 0, then 3. First
# the whole at once, as a textbook does; then one block after the other. Three things are carried along: the largest
# score, the sum of the weights, and the sum of the weighted values.

# %% tags=["varies"]
random = np.random.default_rng(5)
block_size, table, length, dim = 4, [5, 0, 3], 10, 8
keys, values = random.standard_normal((2, 6, block_size, dim))  # 6 blocks; three of them are not ours
query = 2 * random.standard_normal(dim)

all_keys, all_values = np.concatenate(keys[table])[:length], np.concatenate(values[table])[:length]
expected = attention.dense(query, all_keys, all_values)

running, tops, all_scores = attention.start(dim), [], []
for index, block in enumerate(table):
    count = min(block_size, length - index * block_size)  # the last block is not full
    scores = keys[block, :count] @ query / np.sqrt(dim)
    running = attention.fold(running, scores, values[block, :count])
    tops.append(running[0])
    all_scores += scores.tolist()
    print(f"after block {block}: largest score {running[0]:6.3f}, sum of weights {running[1]:.3f}")

top, total, sums = running
assert np.abs(sums / total - expected).max() < 1e-14
print(f"largest difference from the textbook's way: {np.abs(sums / total - expected).max():.0e}")

# %% [markdown]
# ## Look
#
# The orange line is all that is remembered of the scores that have passed. Where it rises, older sums are scaled down.

# %%
pictures.scan(all_scores, block_size, table, tops)

# %% [markdown]
# Now the real kernel. This is its inner step, from `engine/attention/triton_tiles.py`: you will know each line. It
# takes many query rows and a tile of keys at a time, and counts exponents in powers of two, because that is what a GPU
# has an instruction for.

# %%
from engine import paged_attention

if find_spec("triton"):
    from engine.attention.triton_tiles import find_slots, weigh

    print(getsource(weigh.fn))
    print(getsource(find_slots.fn))
else:
    print("Triton has no package for this system: read engine/attention/triton_tiles.py")

# %% [markdown]
# Three sequences of 13, 16 and 5 tokens, with blocks strewn over the pool. What no query may see holds NaN, and table
# entries behind the last block are far outside the pool. One number read from a wrong place, and the answer is NaN too.

# %% tags=["varies"]
torch.manual_seed(0)
device = "cuda" if has_gpu else "cpu"
num_blocks, size, kv_heads, heads, width = 12, 4, 2, 4, 32
tables = torch.tensor([[7, 2, 9, 0], [1, 5, 4, 3], [8, 11, 2**30, 2**30]], dtype=torch.int32)
lengths = torch.tensor([13, 16, 5], dtype=torch.int32)
key_cache = torch.full((num_blocks, size, kv_heads, width), torch.nan)
value_cache = key_cache.clone()
for row, count in enumerate(lengths.tolist()):
    for position in range(count):
        at = tables[row, position // size], position % size
        key_cache[at], value_cache[at] = torch.randn(2, kv_heads, width)
batch = [t.to(device) for t in (torch.randn(3, heads, width), key_cache, value_cache, tables, lengths)]

exact = [t.double() if t.is_floating_point() else t for t in batch]
reference = paged_attention(*exact, backend="torch")
backends = ["torch", *(["triton"] if find_spec("triton") else []), *([] if has_gpu else ["cpu"])]
errors = {name: (paged_attention(*batch, backend=name) - reference).abs().max().item() for name in backends}
assert all(error < 2e-6 for error in errors.values())
where = "compiled for the GPU" if has_gpu else "in the interpreter, no GPU here"
print(f"the Triton kernel ran {where}")
pictures.error_bars(errors, 2e-6)

# %% [markdown]
# Order of summation differs, so the last bits do. Nothing else does.
#
# What does the table cost on a GPU? `python -m bench.gpu` times the kernel over blocks, and over the same tokens in one
# range.

# %%
print(recorded.block_sizes() or "no GPU's result is recorded in bench/results yet")

# %% [markdown]
# ## Build
#
# First the step that everything rests on. `running` is `(top, total, sums)`; before the first score it is
# `(-inf, 0.0, zeros)`. Hidden tokens have the score minus infinity. The scores can be large: never take `exp` of one as
# it stands.


# %% tags=["stub"]
def fold(running, scores, values):
    """The running softmax after more scores [n] with values [n, dim]. If all so far is hidden, no change."""
    ### BEGIN SOLUTION
    top, total, sums = running
    new_top = max(top, scores.max())
    if new_top == -np.inf:
        return running
    rescale, weights = np.exp(top - new_top), np.exp(scores - new_top)
    return new_top, total * rescale + weights.sum(), sums * rescale + weights @ values
    ### END SOLUTION


# %% tags=["check"]
attention.one_fold(fold)

# %% [markdown]
# Now a whole sequence. `keys` and `values` are the pool, `[num_blocks, block_size, dim]`; `table` has an entry for each
# block of the sequence, and rubbish behind. Use `attention.start` and `attention.fold`. Do not copy the sequence
# together, and read no slot that is not yours: the check has put NaN there.


# %% tags=["stub"]
def attend(query, keys, values, table, length):
    """Attention [dim] of `query` [dim] over the `length` tokens of the sequence, one block at a time."""
    ### BEGIN SOLUTION
    size, running = keys.shape[1], attention.start(len(query))
    for first in range(0, length, size):
        block, count = table[first // size], min(size, length - first)
        scores = keys[block, :count] @ query / np.sqrt(len(query))
        running = attention.fold(running, scores, values[block, :count])
    return running[2] / running[1]
    ### END SOLUTION


# %% tags=["check"]
attention.over_blocks(attend)

# %% [markdown]
# One sequence of 100,000 tokens and an idle GPU: cut it into chunks, let each be scanned by a processor of its own, and
# join what they bring. (The kernel does this; the name of the idea is split-KV, or flash-decoding.) A chunk may have
# seen nothing.


# %% tags=["stub"]
def join(parts):
    """Attention [dim] from the `(top, total, sums)` of all chunks; zeros if every one of them is empty."""
    ### BEGIN SOLUTION
    top = max(part[0] for part in parts)
    if top == -np.inf:
        return np.zeros_like(parts[0][2])
    shares = np.exp([part[0] - top for part in parts])
    return shares @ [part[2] for part in parts] / (shares @ [part[1] for part in parts])
    ### END SOLUTION


# %% tags=["check"]
attention.of_chunks(join)

# %% [markdown]
# ## Stretch
#
# 1. A guide to paging sketches a kernel in which each thread runs over the tokens, does `score += dot(query, key)`, and
#    at the end writes `output = score`. Write it in one line here and compare it with `attention.dense`. Name three
#    things that it lacks. Then read what `pagelab claims pseudo-kernel` computes.
# 2. Put `key_cache[6] = 0` above the comparison, then `key_cache[7] = 0`. Which of the two changes an answer, and why?
# 3. Time `paged_attention(*batch, backend="cpu")` with `%timeit`, for caches of block size 1 and of 16 that hold the same
#    tokens. What does a smaller block cost on your machine?
#
# <details><summary>Answer to 1</summary>
#
# `(keys @ query).sum()`: no scale, no softmax, and no values. It is a sum of scores, one number where attention has a
# vector. Double all values, and attention doubles; the sum stays. A query of zeros: every score is 0, attention is the
# mean of the values, and the sum is 0.
#
# </details>

# %%
still = np.zeros(dim)
assert np.allclose(attention.dense(still, all_keys, all_values), all_values.mean(axis=0))
assert (all_keys @ still).sum() == 0 != all_values.mean()
assert np.allclose(attention.dense(query, all_keys, 2 * all_values), 2 * expected)  # the sum knows no values
assert (all_keys @ query).sum().shape == () and expected.shape == (dim,)

# %% [markdown]
# **In the ledger**: two documents that explain paging stand at the beginning of this project, and `pagelab claims`
# computes a verdict for each thing that they state. One is that paging leaves the mathematics of attention unchanged:
# `pagelab claims math-unchanged`. Another is that a kernel reads the pages in place: `pagelab claims in-place`. You have
# shown both above. The third is the kernel of stretch 1.
#
# **In the app**: `pagelab app`, then open <http://localhost:8501/?trace=demo&a=paged&b=virtual&step=60>. Pin a request: its row
# of the block table is what the kernel walks along.
#
# ## What you proved, and what you did not
#
# You proved that attention can go over a sequence in pieces, in order or in parallel, from any places in memory, and that
# the answer is the same up to rounding; and that a kernel which does so reads nothing that is not its own. You did not
# prove that it is fast. The paper's text counts 20 to 26 % more time in the attention kernel than FasterTransformer's
# (section 7.1; its Figure 18a has 19 to 26 % at batch 32, and up to 44 % at batch 8). Lesson 10 looks at what the
# block size has to do with it.
