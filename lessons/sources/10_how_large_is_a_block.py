# %% [markdown]
# # 10. How large is a block?
#
# Paging was invented because servers wasted 60 to 80 % of their memory (vLLM's first announcement). Give it short questions with short answers and
# blocks of 256 slots, and **62 % of what requests hold is empty again.** So a block should be small. Then why is it not
# one slot?
#
# *You need*: lesson 4 (the allocator and the block table), lesson 7 (sharing), lesson 8 (swapping).
# *Time*: 40 minutes. *Runs on*: any laptop.

# %%
from itertools import pairwise

from app.paper.published import FIGURE_18B, FIGURE_19_SWAP
from lessons import pictures_block_size as pictures
from lessons import recorded
from lessons.checks import block_size as checks
from sim import Config, Request, Trace, simulate

SIZES = [2**power for power in range(9)]  # 1 to 256
traces = {
    "conversations (ShareGPT-like)": Trace.read("sharegpt-like").first(60).scale_rate(1000),
    "instructions (Alpaca-like)": Trace.read("alpaca-like").first(300).scale_rate(1000),
}
reports = {
    (name, size): simulate(trace, Config(block_size=size), record=False).report()
    for name, trace in traces.items()
    for size in SIZES
}
short = "instructions (Alpaca-like)"
assert f"{reports[short, 256]['waste_percent']:.0f}" == "62"
print(
    f"blocks of 256, short requests: {reports[short, 256]['waste_percent']:.1f} % of the held slots are empty"
)

# %% [markdown]
# ## Predict
#
# 1. A sequence grows token by token. On average, how many slots of its last block are empty at block size 16? And what
#    share of its slots is that, if it has 60 tokens; if it has 500?
# 2. A block table has a row for each sequence, with 4 bytes for each block that the longest sequence could need: 2,048
#    tokens. How many bytes is a row at block size 16? And at 1? What are the keys and values of *one* token: 819,200 bytes
#    for a model of 13 billion parameters.
# 3. All prompts begin with the same 100 tokens. How many of them can be found in the cache at block size 16? At 128?
#
# <details><summary>Answers</summary>
#
# 1. 7.5: anything from 0 to 15. Against 60 and 500 tokens that is 11 % and 1.5 % of what is held.
# 2. 512 bytes and 8,192 bytes: a hundredth of one token's.
# 3. 96 tokens, six full blocks; and none.
#
# </details>

# %%
mean_empty = sum(-stored % 16 for stored in range(1, 17)) / 16
assert mean_empty == 7.5
assert (
    f"{100 * mean_empty / (60 + mean_empty):.0f}" == "11"
    and f"{100 * mean_empty / (500 + mean_empty):.1f}" == "1.5"
)
assert 4 * 2048 // 16 == 512 and 4 * 2048 == 8192
assert Config(model="opt-13b").spec.kv_bytes_per_token("fp16") == 819_200
assert 8192 / 819_200 == 0.01
assert 100 // 16 * 16 == 96 and 100 // 128 == 0

# %% [markdown]
# ## Run
#
# Three sequences, two block sizes. Only the last block of a sequence has room to spare.

# %%
pictures.sequences([13, 30, 5], 4)

# %%
pictures.sequences([13, 30, 5], 16)

# %% [markdown]
# ## Look
#
# **Waste.** Both traces, all sizes. The waste is what is held and empty, in percent of what is held.

# %%
waste = {name: {size: reports[name, size]["waste_percent"] for size in SIZES} for name in traces}
pictures.over_sizes(waste, "% of the held slots empty", bottom=0)

# %%
assert all(abs(line[1]) < 1e-9 for line in waste.values())
assert all(line[32] < 2.1 * line[16] for line in waste.values())
long = "conversations (ShareGPT-like)"
assert waste[long][16] < 4 < waste[short][16]
print(f"at block size 16: {waste[long][16]:.1f} % and {waste[short][16]:.1f} %")

# %% [markdown]
# The famous "under 4 % waste" holds for conversations. Short requests waste more at the same block size.
#
# **The table.** It grows as blocks get smaller; measured against the pool it stays small even so.

# %%
pool_bytes = Config().pool_bytes
for size in SIZES:
    table_bytes = reports[short, size]["table_bytes"]
    print(
        f"block size {size:3}: tables of {table_bytes:9,} bytes, {100 * table_bytes / pool_bytes:.4f} % of the pool"
    )
assert reports[short, 1]["table_bytes"] / pool_bytes < 0.001

# %% [markdown]
# **Sharing.** Twenty requests begin with the same 100 tokens. Only full blocks can be found again: a block that is half
# common and half one's own is nobody else's.

# %%
common = Trace(
    "common",
    tuple(
        Request(
            id=f"r{place}",
            arrival_s=float(place),
            prompt=130,
            output=2,
            max_tokens=2,
            prefix="system",
            prefix_tokens=100,
        )
        for place in range(20)
    ),
)
hits = {
    size: simulate(common, Config(block_size=size, prefix_cache="hash"), record=False).report()["prefix"][
        "hit_tokens"
    ]
    for size in SIZES
}
assert hits[16] == 19 * 96 and hits[64] == 19 * 64 and hits[128] == 0
print({size: f"{hit / 19:.0f} of 100" for size, hit in hits.items()})

# %% [markdown]
# So memory says in every respect: as small as possible. What speaks against it is time.
#
# - **The kernel** must know a block's address before it can begin to read it. With small blocks it has more addresses to
#   fetch and reads less at each.
# - **Swapping** copies piece by piece. A copy over PCIe has a fixed price, however small it is.
# - **Prefix caching** computes and looks up one hash for each block.
#
# Here is what others measured. The vLLM paper served both kinds of requests at every block size (its Figure 18b, seconds
# per token, read off the figure), and timed swapping a request out and in again (Figure 19a, milliseconds).

# %%
paper = {
    "conversations (ShareGPT)": FIGURE_18B["sharegpt"],
    "instructions (Alpaca)": FIGURE_18B["alpaca"],
}
pictures.over_sizes(paper, "seconds per token, paper's Figure 18b", logarithmic=True)

# %%
swap_ms = FIGURE_19_SWAP
assert all(min(line, key=lambda size: line[size]) == 32 for line in paper.values())
assert paper["instructions (Alpaca)"][256] > 30 * paper["instructions (Alpaca)"][16]
assert f"{swap_ms[1] / swap_ms[16]:.1f}" == "3.4" and f"{swap_ms[16] / swap_ms[256]:.1f}" == "1.2"
print(f"swapping at block size 1 takes {swap_ms[1] / swap_ms[16]:.1f} times as long as at 16,")
print(f"and at 16 {swap_ms[16] / swap_ms[256]:.1f} times as long as at 256")

# %% [markdown]
# Both curves have their best at 32 and are nearly as good at 16, which is what vLLM chose. Left of it time is lost to
# many small pieces; right of it memory is lost, the batch shrinks, and with it the speed (lesson 6).
#
# And this project's kernel alone, on a GPU:

# %%
print(recorded.block_sizes() or "no GPU's result is recorded in bench/results yet")

# %% [markdown]
# ## Build
#
# First the waste of a set of sequences, without counting slot by slot.


# %% tags=["stub"]
def waste_percent(lengths: list[int], block_size: int) -> float:
    """Percent of the held slots that are empty, of sequences that have stored so many tokens each."""
    ### BEGIN SOLUTION
    held = sum(-(-length // block_size) * block_size for length in lengths)
    return 100 * (held - sum(lengths)) / held
    ### END SOLUTION


# %% tags=["check"]
checks.waste(waste_percent)

# %% [markdown]
# Then sharing. Each of `num_requests` prompts has `prompt` tokens, of which the first `prefix` are the same in all. Full
# blocks of equal content are stored once.


# %% tags=["stub"]
def slots_held(prefix: int, prompt: int, num_requests: int, block_size: int) -> int:
    """Slots that all these prompts hold together."""
    ### BEGIN SOLUTION
    shared = prefix // block_size
    own = -(-prompt // block_size) - shared
    return (shared + num_requests * own) * block_size
    ### END SOLUTION


# %% tags=["check"]
checks.sharing(slots_held)

# %% [markdown]
# Last, time. Blocks that lie one after the other can be copied at once. Into how many pieces does a table fall?


# %% tags=["stub"]
def num_pieces(table: list[int]) -> int:
    """Copies that it takes to move the blocks of `table`, in its order: one for each run of consecutive ids."""
    ### BEGIN SOLUTION
    return 1 + sum(after != before + 1 for before, after in pairwise(table))
    ### END SOLUTION


# %% tags=["check"]
checks.pieces(num_pieces)

# %% [markdown]
# ## Stretch
#
# 1. A guide to paging says that vLLM's default is 512 tokens. What would that waste on the two
#    traces? (`simulate(trace, Config(block_size=512)).report()["waste_percent"]`) Then ask `pagelab claims block-512`.
# 2. Half a block is empty on average: `(block_size - 1) / 2` slots for each sequence. Compare this with the curve. Where
#    does it fail, and why? (Think of requests that are shorter than a block.)
# 3. `pagelab simulate demo --pool-tokens 4096 --max-len 512 --allocator mixed` gives a sequence small blocks first and large
#    ones (`--large-block-size`) once it is long. Which of the costs above does that avoid?
#
# **In the ledger**: the sentence at the top of this lesson is there too. `pagelab claims waste-60-80` runs the paper's
# three ways to reserve on both kinds of lengths: for which is it true? And `pagelab claims table-below-1-percent` is about
# tables.
#
# **In the app**: `pagelab app`, then open <http://localhost:8501/?trace=demo&a=paged&b=paged&block_size=64&step=60>, and move the
# block size.
#
# ## What you proved, and what you did not
#
# You proved that waste grows with the block size and shrinks with the length of sequences, that tables are
# never the problem, and that a block is the grain of all sharing. You did not measure time: Figures
# 18b and 19a are of an A100 of 2023 with the kernel of that day. Newer kernels suffer less from small blocks, and some hardware
# likes large ones. On your machine, `%timeit` of lesson 5's kernels is a start.
