# %% [markdown]
# # 12. Beyond
#
# A server guesses four tokens ahead with a small model and lets the large one check them all in one step. **More than
# half of the guesses are thrown away, and the server is 2.4 times as fast.** But it must have room for all of them. Every
# invention since paging asks something of the allocator. This lesson puts one question to five of them: what does it
# change? The tokens of a step, the slots of a sequence, the bytes of a slot, the grain, or the number of pools?
#
# *You need*: lessons 1, 4, 6 and 10. *Time*: 45 minutes. *Runs on*: any laptop; times are modelled.

# %%
from lessons import pictures_beyond as pictures
from lessons.checks import beyond
from sim import Config, Request, Trace, simulate
from sim.models import MODELS
from sim.parallel import kv_copies, shard

trace = Trace.read("demo").scale_rate(1000)
guessing = {
    drafts: simulate(trace, Config(speculate=drafts, pool_tokens=4096, max_len=512), record=False).report()
    for drafts in (0, 2, 4, 8)
}
with_four = guessing[4]["speculation"]
faster = guessing[0]["time_s"] / guessing[4]["time_s"]
assert with_four["acceptance"] < 0.5 and f"{faster:.1f}" == "2.4"
print(
    f"{with_four['drafted_tokens']} guesses, {100 * with_four['acceptance']:.0f} % kept, {faster:.1f} times as fast"
)

# %% [markdown]
# ## Predict
#
# 1. Each guess is right with a chance of 70 %, if those before it are. A step checks four. How many tokens does it emit on
#    average? (It always emits one more than it keeps: the large model's own.)
# 2. A query reads the last 32 tokens and the first 4. A sequence has 140 tokens, in blocks of 8. How many blocks does it
#    need to hold?
# 3. An 8-bit cache stores one scale of 4 bytes for each head's vector of 128 numbers. How many times as many tokens fit?
# 4. Llama-3-70B has 8 kv heads. You go from 8 GPUs to 16. How many bytes of keys and values per token does each GPU hold
#    then, compared with before?
#
# <details><summary>Answers</summary>
#
# 1. 2.77: 1 + 0.7 + 0.7² + 0.7³ + 0.7⁴.
# 2. Six: one for the first tokens, five for the window.
# 3. 1.94 times: 256 bytes become 132.
# 4. The same. A head cannot be cut, so each stands on two GPUs.
#
# </details>

# %%
assert f"{sum(0.7**place for place in range(5)):.2f}" == "2.77"
assert len(beyond.blocks_of(140, 32, 4, 8)) == 6
assert f"{256 / 132:.2f}" == "1.94"
large = MODELS["llama-3-70b"]
assert (
    large.num_kv_heads == 8 and shard(large, 8).kv_bytes_per_token() == shard(large, 16).kv_bytes_per_token()
)

# %% [markdown]
# ## Run
#
# **1. Speculative decoding: more tokens in a step.** The step writes keys and values for every guess, so it reserves slots
# for all of them, and forgets those that were wrong. That is called *lookahead* and *rollback*. Watch the tokens of a
# decode grow ever more slowly, and the slots that wait to be filled grow steadily.

# %%
for drafts, report in guessing.items():
    tokens, held = report["speculation"]["tokens_per_decode"], report["ledger"]["reserved"]
    print(
        f"{drafts} guesses: {tokens:.2f} tokens a decode, {held:3.0f} slots reserved, {report['preemptions']} preemptions"
    )
pictures.grouped_bars(
    {
        "tokens of a decode": {
            f"{drafts} guesses": report["speculation"]["tokens_per_decode"]
            for drafts, report in guessing.items()
        },
        "reserved slots, relative to none": {
            f"{drafts} guesses": report["ledger"]["reserved"] / guessing[0]["ledger"]["reserved"]
            for drafts, report in guessing.items()
        },
    },
    "tokens, and times as many slots",
)

# %%
assert (
    guessing[8]["time_s"] > guessing[4]["time_s"]
    and guessing[8]["preemptions"] > guessing[4]["preemptions"] == 0
)

# %% [markdown]
# With eight guesses the server is slower again: it computes more that it throws away, and it runs out of memory.
#
# **2. A window with sinks: fewer slots for a sequence.** Only the last 32 tokens are read, and the first four, which models
# use as a place to put attention that they do not need (Xiao and others, 2023). A block that lies between can go to
# somebody else. The table keeps its places: -1 stands for a block that was given back.

# %%
one = Trace("one", (Request(id="a", arrival_s=0.0, prompt=40, output=100, max_tokens=100),))
windowed = simulate(one, Config(window=32, sinks=4, pool_tokens=256, block_size=8, timing="unit"))
whole = simulate(one, Config(pool_tokens=256, block_size=8, timing="unit"))
print("all:     ", whole.at(100).block_tables["a"])
print("windowed:", windowed.at(100).block_tables["a"])
pictures.kept_tokens(139, 32, 4, 8)

# %%
held = [block for block in windowed.at(100).block_tables["a"] if block != -1]
assert max(sum(block != -1 for block in windowed.at(step).block_tables["a"]) for step in range(1, 101)) == 6
assert len(held) == 6 and len(whole.at(100).block_tables["a"]) == 18
assert windowed.series.column("live").max() == 35 and whole.series.column("live").max() == 139

# %% [markdown]
# With a window, a sequence's memory stops growing. However long it gets, it holds at most six blocks.
#
# ## Look
#
# **3. Quantized caches: fewer bytes in a slot.** Nothing changes in the allocator. There are only more slots, and a slot
# carries its scales along.

# %%
slots = {
    dtype: Config(model="llama-3-8b", kv_dtype=dtype, memory="24GiB").num_slots for dtype in ("fp16", "int8")
}
assert f"{slots['int8'] / slots['fp16']:.2f}" == "1.94"
print(slots, f"{slots['int8'] / slots['fp16']:.2f} times as many")

# %% [markdown]
# **4. Virtual memory instead of paging: another grain.** vAttention lets the GPU's own page table do what the block table
# does. Each layer's keys, and each layer's values, are one long virtual range per sequence, and the kernel never hears of
# blocks. But a GPU's pages are large: 2 MiB by default. The fewer bytes a token has in one layer, the more tokens a page
# holds.

# %%
chat = Trace.read("sharegpt-like").first(60).scale_rate(1000)
grain = {
    (model, page): simulate(chat, Config(allocator="virtual", model=model, page_size=page), record=False)
    for model in ("opt-13b", "llama-3-8b")
    for page in ("64KiB", "256KiB", "2MiB")
}
for (model, page), run in grain.items():
    print(
        f"{model:10} {page:>6}: {run.config.page_tokens:4} tokens a page, {run.report()['waste_percent']:4.1f} % wasted"
    )
pictures.grouped_bars(
    {
        model: {page: run.report()["waste_percent"] for (name, page), run in grain.items() if name == model}
        for model in ("opt-13b", "llama-3-8b")
    },
    "% of the held slots wasted",
)

# %%
assert grain["llama-3-8b", "2MiB"].config.page_tokens == 1024
assert grain["opt-13b", "64KiB"].report()["waste_percent"] < 1
assert grain["llama-3-8b", "2MiB"].report()["waste_percent"] > 60

# %% [markdown]
# A page of 1,024 tokens wastes as much as the reservations of lesson 2. So vAttention's authors changed the driver to get
# pages of 64 KiB; and even these are twice as coarse for the newer model as a block of 16.
#
# **5. Several GPUs: the same table, many pools.** Every GPU has some of the heads of all layers. Block 7 is block 7 on
# each of them, so one table serves all, and the allocator does not notice. What changes is how much fits.

# %%
for ranks in (2, 4, 8, 16, 32):
    part = shard(large, ranks)
    free = beyond.slots_of(80 << 30, ranks, large, "fp16")
    print(
        f"{ranks:2} GPUs of 80 GiB: {part.kv_bytes_per_token():7,} bytes a token on each, "
        f"each kv head on {kv_copies(large, ranks)}, {free:9,} slots"
    )
four, eight, sixteen = (beyond.slots_of(80 << 30, ranks, large, "fp16") for ranks in (4, 8, 16))
assert beyond.slots_of(80 << 30, 1, large, "fp16") == 0
assert eight > 2.5 * four and f"{100 * (sixteen / eight - 1):.0f}" == "13"
assert grain["llama-3-8b", "64KiB"].config.page_tokens == 2 * 16

# %% [markdown]
# One GPU cannot even hold the weights. From four to eight the slots grow more than twofold, because the weights leave more
# room. From eight to sixteen they grow by 13 %.
#
# ## Build


# %% tags=["stub"]
def tokens_per_step(num_drafts: int, accept: float) -> float:
    """Mean tokens that a step emits: the drafts before the first wrong one, and one more.

    A draft is right with chance `accept` if those before it are.
    """
    ### BEGIN SOLUTION
    return sum(accept**place for place in range(num_drafts + 1))
    ### END SOLUTION


# %% tags=["check"]
beyond.speculation(tokens_per_step)

# %% [markdown]
# The next query sits at position `stored`. It reads the last `window` tokens, its own included, and the first `sinks`.
# A block that is not full yet is always kept; a full one as long as any of its tokens will be read.


# %% tags=["stub"]
def held_blocks(stored: int, window: int, sinks: int, block_size: int) -> list[int]:
    """The logical blocks that a sequence of `stored` tokens still holds, in order."""
    ### BEGIN SOLUTION
    first_seen, held = max(0, stored + 1 - window), []
    for block in range(-(-stored // block_size)):
        first, stop = block * block_size, (block + 1) * block_size
        if first < sinks or stop > first_seen or stop > stored:
            held.append(block)
    return held
    ### END SOLUTION


# %% tags=["check"]
beyond.window(held_blocks)

# %% [markdown]
# Last, all of lesson 1 once more, for one of several GPUs. Parameters are dealt out evenly (rounded up) and take 2 bytes
# each. A GPU has `num_kv_heads // ranks` of the model's kv heads, but at least one. A head's vector has `model.head_dim`
# numbers of 2 bytes (`fp16`), or of 1 byte and a scale of 4 bytes (`int8`). Each layer (`model.num_layers`) has keys and
# values.


# %% tags=["stub"]
def slots_per_gpu(memory_bytes: int, ranks: int, model, kv_dtype: str) -> int:
    """Slots that fit beside the weights on one of `ranks` GPUs; 0 if the weights do not fit."""
    ### BEGIN SOLUTION
    heads = max(1, model.num_kv_heads // ranks)
    vector = 2 * model.head_dim if kv_dtype == "fp16" else model.head_dim + 4
    left = memory_bytes - 2 * -(-model.num_parameters // ranks)
    return max(0, left // (2 * model.num_layers * heads * vector))
    ### END SOLUTION


# %% tags=["check"]
beyond.several_devices(slots_per_gpu)

# %% [markdown]
# ## Stretch
#
# 1. `pagelab simulate demo --pool-tokens 4096 --max-len 512 --speculate 4 --accept 0.4`: from which acceptance on do four
#    guesses pay? What does the time model leave out?
# 2. `pagelab simulate demo --pool-tokens 1024 --max-len 512 --window 64 --sinks 4 --block-size 64`: why does a window of one block
#    need more than one block?
# 3. Which two of the five could make a prefix cache wrong, if it did not know of them?
#
# <details><summary>Answer to 3</summary>
#
# Windows: a block that was given back cannot be found again, so a hit may have holes. Quantized caches: codes mean nothing
# without their scales, which must travel with the block when it is copied or swapped.
#
# </details>
#
# **In the ledger**: a guide to paging says that five drafts allocate a page, and that pages of rejected drafts are freed:
# `pagelab claims drafts-take-a-page drafts-free-pages` counts both. It also runs LLaMA-2-70B on two cards of 40 GB:
# `pagelab claims 70b-on-two`. Would any of the five make that possible?
#
# **In the app**: `pagelab app`, then open <http://localhost:8501/?trace=demo&a=paged&b=virtual&kv_dtype=int8&step=60>.
#
# ## What you proved, and what you did not
#
# You proved what each of the five does to memory: exactly, for it is arithmetic. You did not prove that they are worth it.
# The small model's own time and memory are left out of the speedup above. Whether a model still answers well with a window
# or with 8-bit keys is a question for a benchmark, not for an allocator. And several GPUs have to talk to each other, which
# costs time that grows with their number.
