# %% [markdown]
# # 9. Prefix caching: what was computed once need not be computed again
#
# Forty requests begin with the same 256 tokens: a system prompt. Together their prompts have 11,871 tokens. With a prefix
# cache the server computes **1,887** of them. It finds the other 84 % in blocks that earlier requests filled. The modelled mean time to the first token falls from 0.19 s to 0.03 s.
#
# *You need*: lessons 4 and 7 (block tables, the free list, reference counts).
# *Time*: 45 minutes. *Runs on*: any laptop.

# %%
from itertools import takewhile
from random import Random

from lessons import pictures_blocks, pictures_prefix
from lessons.checks import prefixes as checks
from sim import Config, Request, Trace, simulate
from sim.hits import replay_hits
from sim.prompts import PromptBlocks

trace = Trace.read("shared-prefix")
assert len(trace.requests) == 40 and {request.prefix_tokens for request in trace.requests} == {256}
runs = {
    kind: simulate(trace, Config(pool_tokens=4096, max_len=512, prefix_cache=kind), record=False)
    for kind in ("off", "hash", "radix")
}
computed = {kind: sum(sum(request["prefills"]) for request in run.requests) for kind, run in runs.items()}
first = {kind: run.report()["latency"]["ttft"]["mean"] for kind, run in runs.items()}
print("tokens computed:", computed)
print("mean time to the first token:", {kind: f"{seconds:.2f} s" for kind, seconds in first.items()})
assert computed == {"off": 11_871, "hash": 1_887, "radix": 1_887}
assert f"{100 * (1 - computed['hash'] / computed['off']):.0f}" == "84"
assert (f"{first['off']:.2f}", f"{first['hash']:.2f}") == ("0.19", "0.03")

# %% [markdown]
# ## Predict
#
# Let every character be a token, and let a block have 4. Four requests come one after the other; each is done before the next
# one comes:
#
# | request | prompt | blocks |
# |---|---|---|
# | `a` | `You are kind. Hi!` | `You ` `are ` `kind` `. Hi` `!` |
# | `b` | `You are kind. Ho?` | `You ` `are ` `kind` `. Ho` `?` |
# | `c` | `You not kind.` | `You ` `not ` `kind` `.` |
# | `d` | `You are kind` | `You ` `are ` `kind` |
#
# 1. How many blocks can `b` take over from `a`?
# 2. `c` has a block `kind` too. Can it take that over?
# 3. All three blocks of `d` were computed before. How many tokens must the server still compute for `d`?

# %% [markdown]
# ## Run

# %%
texts = {"a": "You are kind. Hi!", "b": "You are kind. Ho?", "c": "You not kind.", "d": "You are kind"}
requests = tuple(
    Request(
        id=name, arrival_s=5.0 * place, prompt=len(text), output=2, max_tokens=2, tokens=tuple(map(ord, text))
    )
    for place, (name, text) in enumerate(texts.items())
)
config = Config(pool_blocks=12, block_size=4, timing="unit", max_len=32, prefix_cache="hash")
run = simulate(Trace("four", requests), config)
hits = {request["id"]: request["hit_tokens"] for request in run.requests}
print("tokens found:", hits, " computed:", {request["id"]: request["prefills"] for request in run.requests})
assert hits == {"a": 0, "b": 12, "c": 4, "d": 8}
blocks = PromptBlocks.of(requests, 4).blocks
pictures_prefix.prompts(
    {name: (checks.cut(text, 4), blocks[place]) for place, (name, text) in enumerate(texts.items())},
    {name: count // 4 for name, count in hits.items()},
)

# %% [markdown]
# Blocks of one colour are the same; a thick edge says that it was found.
#
# - `b` takes three. The fourth differs in one token, so nothing of it is used: **only whole blocks** are found.
# - `c` takes one. Its `kind` stands after other words. Keys and values depend on all tokens before (from the second
#   layer on, through attention), so it is another block. A block's name must say **its tokens and all before them**.
# - `d` takes two, not three. To emit a token the server needs the output of the prompt's last token, and the cache has only
#   keys and values. **At least one token must be computed**, and a shared block must not be written. So the last
#   block is computed again.

# %% [markdown]
# ## Look
#
# When `a` ended, its blocks went to the free list. Their content stayed. They are **cached**: free, and still to be
# found. A block without content is handed out first; a cached one only when there is no other, and then its content is lost.

# %%
freed = next(event for event in run.events if event.kind == "free" and event.request == "a")
print("freed, in this order:", freed.changes["blocks"], " of these cached:", freed.changes["cached"])
assert freed.changes == {"blocks": [4, 3, 2, 1, 0], "cached": [3, 2, 1, 0]}
print("cached while b runs:", list(run.at(3).cached), " shared by b:", run.at(3).block_tables["b"][:3])
assert list(run.at(3).cached) == [3] and run.at(3).block_tables["b"][:3] == [0, 1, 2]
pictures_blocks.pool_at(run, 3)

# %% [markdown]
# The last block was freed first (lesson 4 promised a reason). Cached blocks go **least recently used first**, and so a chain
# loses its tail before its head. A head without its tail is of use to many. A tail without its head can never be found.
#
# Block 4 held one token and is not cached: it was not full.
#
# Now a larger load: 600 prompts, 16 system prompts of 128 tokens, some of them far more popular than others. How large must the
# cache be, and which block should leave? `optimal` knows the future (Belady's rule): nobody can do better.

# %%
random = Random(0)
popular = [1 / (rank + 1) for rank in range(16)]
load = [
    Request(
        id=f"r{place}", arrival_s=float(place), prompt=128 + tail, output=1, max_tokens=1,
        prefix=f"system {random.choices(range(16), popular)[0]}", prefix_tokens=128,
    )
    for place, tail in enumerate(random.randint(16, 64) for _ in range(600))
]  # fmt: skip
named = PromptBlocks.of(load)
sizes = (8, 16, 32, 48, 64, 96, 128, 192, 256)
pictures_prefix.hit_rates(named, sizes)

# %%
rates = {
    policy: [replay_hits(named, size, policy).hit_rate for size in sizes]
    for policy in ("fifo", "lru", "optimal")
}
for policy, row in rates.items():
    print(f"{policy:8}", "  ".join(f"{100 * rate:5.1f}" for rate in row))
assert all(fifo <= lru <= best for fifo, lru, best in zip(*rates.values(), strict=True))
half = sum(load[place].prompt for place in range(300, 600))
assert rates["optimal"][-1] <= 300 * 128 / half
print(f"no cache of any size can pass {100 * 300 * 128 / half:.1f} %: the rest of each prompt is its own")

# %% [markdown]
# First in, first out loses most: it throws a popular system prompt away because it is old. Least recently used keeps
# what is in use. Between it and the optimum there is room: most blocks in the cache are tails that nobody will ask
# for again, and only who knows the future knows which.
#
# **Hash or tree?** vLLM keeps a table from names to blocks. SGLang keeps a radix tree: a node is a **run of tokens of any
# length**, its path from the root is all that stands before, and where two prompts part inside a run, the node is split
# in two. With SGLang's usual page of one token it finds a common start to the token, also where that ends within what
# would be a block here. The price is a table entry for each token instead of each block.
#
# This project's `radix` is a variant: its blocks have the size that you choose, a node is one block and is never split.
# So it finds whole blocks, as the table does: the same 9,984 tokens above. They differ in small things: the tree never
# keeps a block whose parent is gone, and holds one copy of each.
#
# How much lies within a block? Here are the four prompts once more, by token and by block.

# %%
assert {kind: run.report()["prefix"]["hit_tokens"] for kind, run in runs.items()} == {
    "off": 0, "hash": 9984, "radix": 9984,
}  # fmt: skip


def common(text, before):
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, before, strict=False)))


seen, by_token = [], {}
for name, text in texts.items():
    longest = max((common(text, before) for before in seen), default=0)
    by_token[name] = min(longest, len(text) - 1)  # one token is left to compute
    seen.append(text)
print("found in runs of any length:", by_token, " in blocks of 4:", hits)
assert by_token == {"a": 0, "b": 15, "c": 4, "d": 11}
single = Config(pool_blocks=48, block_size=1, timing="unit", max_len=32, prefix_cache="radix")
tokenwise = simulate(Trace("four", requests), single)
assert {request["id"]: request["hit_tokens"] for request in tokenwise.requests} == by_token

# %% [markdown]
# `b` gets 15 tokens instead of 12, and `d` 11 instead of 8: up to `block_size - 1` more for each prompt. With blocks of one
# token this project's tree finds the same. Beside a system prompt of 256 tokens that is little, beside a short one it is
# much.

# %% [markdown]
# <details><summary>Check: a server names blocks by a 32-bit hash of the tokens and the parent's hash. What can go wrong?</summary>
#
# Two different chains may have the same hash, and one user gets keys and values of another's prompt: wrong answers, and a leak.
# So a server takes a long cryptographic hash, or compares the tokens too, as this project does (`sim/cache/chain.py`).
# </details>
#
# <details><summary>Check: somebody puts the time of day at the start of the system prompt. What happens to the hit rate?</summary>
#
# It falls to nothing: the first block differs each time, and no name after it is ever equal again.
# </details>

# %% [markdown]
# ## Build
#
# **First**, names. A name may be anything that can be a key of a dict. Two blocks must have equal names exactly when their tokens
# and all tokens before them are equal. Name a block by its parent's name and its own tokens: then a prompt of `n` blocks takes `n`
# small steps, and no name grows with the prompt. `hash(...)` of a pair is short enough here.


# %% tags=["stub"]
def block_names(tokens: str, block_size: int) -> list:
    """Names of the full blocks of `tokens`, in order; a partial last block has none."""
    ### BEGIN SOLUTION
    names, parent = [], None
    for start in range(0, len(tokens) - block_size + 1, block_size):
        parent = hash((parent, tokens[start : start + block_size]))
        names.append(parent)
    return names
    ### END SOLUTION


# %% tags=["check"]
checks.block_names(block_names)

# %% [markdown]
# **Second**, the hit. `names` are those of a waiting prompt of `num_tokens` tokens, `cached` is the set of names that can be found.
# Mind request `d`.


# %% tags=["stub"]
def num_hits(names: list, cached: set, num_tokens: int, block_size: int) -> int:
    """How many blocks at the start of the prompt can be taken over."""
    ### BEGIN SOLUTION
    most = (num_tokens - 1) // block_size  # one token is left to compute
    for count, name in enumerate(names[:most]):
        if name not in cached:
            return count
    return min(most, len(names))
    ### END SOLUTION


# %% tags=["check"]
checks.num_hits(num_hits)

# %% [markdown]
# **Third**, least recently used. `cached` is a dict in the order of last use, the longest ago first (a dict keeps the order in
# which keys came; `del cached[name]` and `cached[name] = None` puts a key last). A prompt uses its blocks from the **last to
# the first**. A new name that makes the cache larger than `capacity` drives out the first.


# %% tags=["stub"]
def touch(cached: dict, names: list, capacity: int) -> None:
    """Uses all blocks of a prompt, the last one first, and keeps at most `capacity` names."""
    ### BEGIN SOLUTION
    for name in reversed(names):
        cached.pop(name, None)
        cached[name] = None
        if len(cached) > capacity:
            del cached[next(iter(cached))]
    ### END SOLUTION


# %% tags=["check"]
checks.touch(touch)

# %% [markdown]
# The check compares the blocks that each prompt finds with those of `pagelab trace hits`, which gives the numbers of a
# public cache simulator to the token on a production trace.

# %% [markdown]
# ## Stretch
#
# 1. `pagelab trace hits shared-prefix --cache-blocks 20 --policy lru --policy fifo` : how much does the order matter in a small cache?
#    Change `reversed(names)` in your `touch` to `names`. What does the check show?
# 2. `pagelab simulate shared-prefix --pool-tokens 4096 --max-len 512 --prefix-cache hash --block-size 128`. Which tokens are not
#    found now, and why? With which block size is the hit rate best? What does that cost?
# 3. Two requests with the same prompt arrive in the same step. Can the second use what the first computes in that step? Look at
#    `remember` in `sim/cache/index.py`.
#
# **In the ledger**: a guide to paging says that a prompt of 12 tokens is stored once for 100 requests. For which block sizes
# can that be? `pagelab claims prompt-shared-by-100`.
#
# **In the app**: `pagelab app`, then open
# <http://localhost:8501/?trace=shared-prefix&a=max&b=paged&prefix_cache=hash&step=30>. Cached blocks have a colour of their own.
#
# ## What you proved, and what you did not
#
# You proved that a chain of names finds every reusable block and no wrong one, and that the order in which blocks leave decides
# what is found. You did not prove that real prompts repeat: that depends on the users. `pagelab trace hits` reads public
# traces and tells. And the time to the first token here is modelled, not measured.
