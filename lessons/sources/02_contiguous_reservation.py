# %% [markdown]
# # 2. One range for each request, and what it wastes
#
# Four requests come to a server whose memory has room for 16,384 tokens. Nobody knows how long their answers
# will be, so each gets a range of 4,096 slots: the longest that the model allows. When they are done they have
# used 256, 512, 128 and 1,024 slots. **More than 88 % of the memory was held for nothing.** A fifth request
# may have been waiting all the while.
#
# *You need*: lesson 1 (a slot is room for the keys and values of one token in all layers).
# *Time*: 35 minutes. *Runs on*: any laptop.

# %%
from lessons import pictures
from lessons.checks import contiguous
from sim import Config, Request, Trace, simulate

used, reserved = 256 + 512 + 128 + 1024, 4 * 4096
assert f"{100 * (1 - used / reserved):.1f}" == "88.3"
print(f"{used} of {reserved} slots used: {100 * (1 - used / reserved):.1f} % wasted")

# %% [markdown]
# ## Predict
#
# A request has a prompt of 7 tokens and will answer with 5. It holds a range of 20 slots. The server has just
# emitted the second token of the answer. Write down, before you go on, how many of the 20 slots
#
# 1. hold keys and values (**live**),
# 2. are empty now and will be filled (**reserved**),
# 3. will never be filled (**internal** fragmentation).
#
# Mind the last token: the server emits it and is done. Nobody reads its keys and values, so it is never stored.

# %% [markdown]
# ## Run
#
# Here is that request in the simulator, step by step. Nobody may use more than `max_len` tokens, so the
# server takes that many slots for it. A step lasts one second (`timing="unit"`); `placement` is for lesson 3.

# %%
one = Trace("one", (Request(id="a", arrival_s=0.0, prompt=7, output=5, max_tokens=5),))
run = simulate(one, Config(allocator="max", placement="first-fit", max_len=20, pool_tokens=20, timing="unit"))
for step, live, waiting, never in zip(
    run.series.column("step"),
    run.series.column("live"),
    run.series.column("reserved"),
    run.series.column("internal"),
    strict=True,
):
    print(f"after step {step}: live {live:2}  reserved {waiting}  internal {never}")
second = run.at(2).ledger
assert (second["live"], second["reserved"], second["internal"]) == (8, 3, 9)

# %% [markdown]
# After step 2 it has emitted two tokens: 8 slots are live (7 of the prompt and the first token that it emitted;
# the second is not stored yet), 3 will be filled, and 9 never.

# %% [markdown]
# ## Look
#
# Now with company. A **trace** is a list of requests: when each arrives, and how long its prompt and its
# answer are. `demo` has 60. Three ways to choose the length of a range, all of them from the paper's section
# 6.1:
#
# | name | reserves | knows |
# |---|---|---|
# | `max` | the maximum length | nothing |
# | `pow2` | the prompt, and the output rounded up to a power of two | about how long the answer is |
# | `oracle` | what it will need | the future |
#
# The last two cheat, each in its own way: no server knows how long an answer will be. They show how much of the waste
# comes from not knowing.

# %%
trace = Trace.read("demo")
runs = [
    simulate(trace, Config(allocator=name, pool_tokens=4096, max_len=512))
    for name in ("max", "pow2", "oracle")
]
pictures.ledgers(runs)

# %% [markdown]
# Each bar is the whole pool, on average over the time in which any request runs. Leave out what is free: of
# the rest, the part that is not live is the **waste**, `1 - live / (pool - free)`. Nothing is cached before
# lesson 9.
#
# And the memory itself, after step 60 of the `pow2` run: full colour is written, pale is held and empty,
# white is free.

# %%
pictures.memory_map(runs[1], 60, width=128)

# %% [markdown]
# Three kinds of waste, and only the first goes away by knowing the future:
#
# - **internal**: held and never filled; the oracle has none.
# - **reserved**: will be filled, later. Somebody else could use it until then. Even the oracle holds it.
# - **rounding** and **external**: they come of where a range is put, not of its length. They are lesson 3.

# %%
waste = {run.config.allocator: run.report()["waste_percent"] for run in runs}
print({name: f"{percent:.1f} %" for name, percent in waste.items()})
assert waste["max"] > waste["pow2"] > waste["oracle"] > 50
assert f"{runs[2].ledger['rounding'] / 4096:.2f}" == "0.25"
assert all(run.report()["requests"]["finished"] == 60 for run in runs)

# %% [markdown]
# Even the oracle, which knows the future, wastes more than half. A quarter of the pool is lost to rounding
# alone, which lesson 3 can avoid; what is reserved stays.

# %% [markdown]
# ## Build
#
# **First**, the three rules of the table above. `pow2` takes the prompt, and the smallest power of two that is not
# less than the output; but no range is longer than `max_len`. The oracle takes what will be stored: mind the last
# token.


# %% tags=["stub"]
def range_length(rule: str, prompt: int, output: int, max_len: int) -> int:
    """Slots that a server of the rule "max", "pow2" or "oracle" reserves for one request."""
    ### BEGIN SOLUTION
    if rule == "max":
        return max_len
    if rule == "oracle":
        return prompt + output - 1
    power = 1
    while power < output:
        power *= 2
    return min(prompt + power, max_len)
    ### END SOLUTION


# %% tags=["check"]
contiguous.length_of_range(range_length)

# %% [markdown]
# **Second**, the ledger of one request. Its prompt has `prompt` tokens, its whole answer `output`. So far it has
# `emitted` of these (at least one). It holds a range of `held` slots. Return how many of them are live,
# reserved and internal.


# %% tags=["stub"]
def ledger_of_one(prompt: int, emitted: int, output: int, held: int) -> tuple[int, int, int]:
    """Slots (live, reserved, internal) of one request. They sum to `held`."""
    ### BEGIN SOLUTION
    live = prompt + emitted - 1  # the last token emitted is not stored yet
    final = prompt + output - 1  # the very last one never will be
    return live, final - live, held - final
    ### END SOLUTION


# %% tags=["check"]
contiguous.waste_of_one(ledger_of_one)

# %% [markdown]
# ## Stretch
#
# 1. At which maximum length would the `max` server waste as little as `pow2` does on this trace? In a cell of
#    your own look at `simulate(trace, Config(allocator="max", pool_tokens=4096, max_len=256)).report()`, at
#    its `waste_percent` and its `requests`. What became of those that are longer?
# 2. `Config(allocator="oracle", placement="first-fit", pool_tokens=4096, max_len=512)` leaves out the
#    rounding. How much does the oracle waste then, and on what?
#
# <!-- installed -->
# **In the ledger**: the four requests at the top are a guide's example: `pagelab claims waste-88`. The guide goes on:
# when the first of them has left, a fifth request that asks for 2,048 slots must wait. Must it? Think of what is free
# then, and in how many pieces. Then ask `pagelab claims request-5-waits`.
#
# **In the app**: `pagelab app`, then open <http://localhost:8501/?trace=demo&a=pow2&b=oracle&step=60>.
# <!-- page -->
# 3. The four requests at the top are a guide's example. The guide goes on: when the first of them has left, a fifth
#    request that asks for 2,048 slots must wait. Must it? Think of what is free then, and in how many pieces.
#
# **In [the simulator](#simulator)**: put
# `pictures.memory_map(simulate(trace, Config(allocator="pow2", pool_tokens=4096, max_len=512)), 60, width=128)` into a
# cell, and then `"oracle"` for `"pow2"`.
# <!-- end -->
#
# ## What you proved, and what you did not
#
# You proved that a reservation for the worst case wastes most of its slots when answers are shorter, and that knowing
# the future does not save you. You did not prove that real answers are short: the demo's lengths follow a published
# distribution (ShareGPT, a quarter as long). Lesson 11 measures the same waste in a running engine's memory.
