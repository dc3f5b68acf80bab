# %% [markdown]
# # 3. Holes: why a request waits while enough is free
#
# A server has **2,048 free slots**. The request at the head of its queue needs **512**. It waits for 184 steps. No
# slot is lost, and none is held by mistake. This lesson shows where the 2,048 slots are, what five placements and
# two cures can do about them, and what each costs.
#
# *You need*: lesson 2 (a request holds one range of slots; the classes of waste).
# *Time*: 45 minutes. *Runs on*: any laptop.

# %%
from lessons import pictures, pictures_ranges
from lessons.checks import holes as checks
from sim import Config, Trace, simulate
from sim.alloc import PLACEMENTS
from sim.models import MODELS

trace = Trace.read("fragmentation")
base = {"pool_tokens": 4096, "max_len": 512, "timing": "unit"}
run = simulate(trace, Config(allocator="oracle", placement="first-fit", **base))
waits = [step for step in range(1, run.num_steps + 1) if run.at(step).ledger["external"]]
assert (waits[0], len(waits)) == (18, 184)
assert run.at(18).ledger["external"] == 2048 and run.at(18).waiting[0] == "large0"
print(
    f"steps {waits[0]} to {waits[-1]}: {run.at(18).ledger['external']} slots free, {run.at(18).waiting} wait"
)

# %% [markdown]
# ## Predict
#
# A pool has two holes: 9 slots at address 0, and 8 slots at address 20. Three requests come, for 6, 7 and 3 slots.
#
# Each rule picks a hole; the range then starts where the hole starts.
#
# - **first-fit** takes the hole with the lowest address that is long enough.
# - **best-fit** takes the smallest hole that is long enough. It sounds wiser: it leaves the large holes whole.
# - **worst-fit** takes the largest hole. It leaves pieces that are still of use.
# - **next-fit** is first-fit that goes on from where the last range was placed, and begins anew at the end.
#
# Write down where each rule puts the three requests. Which of the four rules has no room for the third?

# %% [markdown]
# ## Run
#
# The library's placements on these two holes.

# %%
versions = {}
for rule in ("first-fit", "best-fit", "worst-fit", "next-fit"):
    pool = checks.filled({9: 11, 28: 12}, rule, 40)
    ranges = {"held": (9, 11), "held ": (28, 12)}
    for length in (6, 7, 3):
        start = pool.place(length)
        if start is not None:
            ranges[f"for {length}"] = (start, length)
    versions[rule] = ranges
refused = [rule for rule, ranges in versions.items() if "for 3" not in ranges]
assert refused == ["best-fit"]
pictures_ranges.lanes(versions, 40)

# %% [markdown]
# Best-fit leaves two pieces of 2 slots, too small for the third request. In other cases it is the only one
# that has room. **No rule is best for all sequences of requests.** All have the same limit: they never move
# what they have placed.

# %% [markdown]
# ## Look
#
# Back to the server of the beginning. Eight requests that end soon and eight that stay were placed in turn,
# 256 slots each. Here is the memory just before and just after the short ones end.

# %%
pictures_ranges.lanes({f"step {step}": pictures_ranges.ranges_at(run, step) for step in (17, 18)}, 4096)

# %%
tables = run.at(18).block_tables.values()
held = sum(table.length for table in tables)
assert (len(tables), held, 4096 - held) == (8, 2048, 2048)
print(f"step 18: {len(tables)} requests hold {held} slots; {4096 - held} are free")

# %% [markdown]
# This is **external fragmentation**: free slots, enough in total for the request at the head of the queue, and not
# enough in one piece. Does another placement help?

# %%
steps = {}
for rule in PLACEMENTS:
    other = simulate(trace, Config(allocator="oracle", placement=rule, **base), record=False)
    steps[rule] = other.num_steps
print(steps)
assert set(steps.values()) == {330}

# %% [markdown]
# All five need the same 330 steps. There was never a choice: when the holes opened, every place was already given.
#
# The fifth is **buddy**. It rounds every range up to a power of two, so that a range and its neighbour of the same
# size (its buddy) can be joined again quickly. Here the lengths were powers of two already. On lengths as they
# come it exchanges one waste for another.

# %%
demo = Trace.read("demo")
dials = {"allocator": "oracle", "pool_tokens": 4096, "max_len": 512}
runs = {rule: simulate(demo, Config(placement=rule, **dials), record=False) for rule in PLACEMENTS}
for rule, placed in runs.items():
    ledger = placed.ledger
    rounding, external = ledger["rounding"], ledger["external"]
    print(f"{rule:9}  rounding {rounding:6.0f}  external {external:6.0f}  done after {placed.time_s:.2f} s")
assert f"{runs['buddy'].ledger['rounding']:.0f}" == "1032"
assert all(placed.ledger["rounding"] == 0 for rule, placed in runs.items() if rule != "buddy")
assert all(placed.ledger["external"] < 1032 for placed in runs.values())
assert all(placed.time_s < runs["buddy"].time_s for rule, placed in runs.items() if rule != "buddy")
pictures.ledgers([runs["buddy"], runs["first-fit"]])

# %% [markdown]
# Above is buddy, below first-fit. Buddy holds 1,032 slots of 4,096, on average, only because it rounds up.
# The four others hold none of these, and pay with more external fragmentation. They differ from each other by
# little, and all four are done earlier.
#
# The other cure moves ranges together when the free slots would be enough: **compaction**.

# %%
moved = simulate(trace, Config(allocator="oracle", placement="first-fit", compaction="on-shortage", **base))
copied = moved.report()["moved_tokens"]
copied_mb = copied * MODELS["opt-13b"].kv_bytes_per_token("fp16") / 1e6
assert (moved.num_steps, copied) == (201, 576) and 576 == 8 * 72
assert f"{copied_mb:.0f}" == "472"
print(f"{moved.num_steps} steps instead of {run.num_steps}; {copied} tokens copied, {copied_mb:.0f} MB")
pictures_ranges.lanes({f"step {step}": pictures_ranges.ranges_at(moved, step) for step in (17, 18)}, 4096)

# %% [markdown]
# The run takes 201 steps instead of 330. The price: 576 tokens were copied, for OPT-13B 472 MB, while nobody could use
# them. And every pointer to them had to change.
#
# <details><summary>Check: eight ranges of 256 slots were held. Why were fewer than 2,048 tokens copied?</summary>
#
# Only what is written must be copied, not what is reserved. Each of the eight had written 72 tokens.
# </details>
#
# <details><summary>Check: name the two things that must be true for external fragmentation.</summary>
#
# The free slots are enough in total for the request at the head of the queue, and no hole is large enough for it. Free
# slots that nobody asks for are just free.
# </details>

# %% [markdown]
# ## Build
#
# **First**, best-fit. `holes` are (start, length), by address. Of two holes of the same length take the lower one.


# %% tags=["stub"]
def best_fit(holes: list[tuple[int, int]], length: int) -> int | None:
    """The start of the smallest hole of at least `length` slots, or None when there is none."""
    ### BEGIN SOLUTION
    fitting = [(size, start) for start, size in holes if size >= length]
    return min(fitting)[1] if fitting else None
    ### END SOLUTION


# %% tags=["check"]
checks.best_fit(best_fit)

# %% [markdown]
# **Second**, the release. A range is given back and becomes a hole. If a hole ends where it starts, or starts where it
# ends, they must become one hole. An allocator that forgets this has many small holes and no large one.


# %% tags=["stub"]
def release(holes: list[tuple[int, int]], start: int, length: int) -> list[tuple[int, int]]:
    """The holes, by address, after the range [start, start + length) became free. Neighbours are joined."""
    ### BEGIN SOLUTION
    joined = []
    for begin, size in sorted([*holes, (start, length)]):
        if joined and sum(joined[-1]) == begin:
            joined[-1] = (joined[-1][0], joined[-1][1] + size)
        else:
            joined.append((begin, size))
    return joined
    ### END SOLUTION


# %% tags=["check"]
checks.release(release)

# %% [markdown]
# **Third**, compaction. `ranges` maps each start to a length. Pack all ranges against slot 0 in the order of
# their addresses. Return the moves (old start, new start) of those that move, in the order in which they are
# carried out: none may land on a range that has still to be moved. (It may overlap its own old place.)


# %% tags=["stub"]
def compact(ranges: dict[int, int]) -> list[tuple[int, int]]:
    """Moves that leave one hole at the end of the pool."""
    ### BEGIN SOLUTION
    moves, end = [], 0
    for start in sorted(ranges):
        if start != end:
            moves.append((start, end))
        end += ranges[start]
    return moves
    ### END SOLUTION


# %% tags=["check"]
checks.compact(compact)

# %% [markdown]
# ## Stretch
#
# <!-- installed -->
# 1. `pagelab simulate demo --allocator oracle --placement first-fit --compaction on-shortage --pool-tokens 4096
#    --max-len 512` moves tokens on lengths as they come. Is the time that it saves worth the copies? Try `best-fit`.
# <!-- page -->
# 1. `packed = simulate(demo, Config(placement="first-fit", compaction="on-shortage", **dials)).report()` moves tokens on
#    lengths as they come: see `packed["time_s"]` and `packed["moved_tokens"]`. Is the time that it saves worth the copies?
#    Try `best-fit`.
# <!-- end -->
# 2. Find two holes and three requests for which best-fit has room for all and first-fit has not.
# 3. Suppose that every range had the same length. Could a hole be too small? What would you have to change so that a
#    request could live in ranges of the same length? Write it down before lesson 4.
#
# <!-- installed -->
# **In the app**: `pagelab app`, then open
# <http://localhost:8501/?trace=fragmentation&a=oracle&b=paged&placement=first-fit&timing=unit&step=18>. Side A waits, side
# B does not.
# <!-- page -->
# **In [the simulator](#simulator)**: put
# `pictures.memory_map(simulate(Trace.read("fragmentation"), Config(pool_tokens=4096, max_len=512, timing="unit")), 18)`
# into a cell. The default is paging: who waits in the same step now?
# <!-- end -->
#
# ## What you proved, and what you did not
#
# You proved that ranges of different lengths leave holes, that no placement avoids this, and that the cures cost
# rounding or copying. You did not prove that real servers lose this much: this trace was made to show it. On
# the demo the holes cost less than the rounding. The paper shows both together for three servers in its Figure 2.
# <!-- installed -->
# `pagelab paper 2` sets the simulator's numbers beside them.
# <!-- page -->
# <!-- end -->
