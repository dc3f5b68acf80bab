# %% [markdown]
# # 8. Running out: recompute or swap, and whom to preempt
#
# A server has memory for **7** requests of the longest kind. 64 of them come at once, and it starts them all. It runs
# out of memory **148 times**, throws away what it computed, and computes it again: 25,834 tokens of prefill instead of
# 1,024. A careful server that never starts more than 7 never runs out. It needs **almost twice as long**.
#
# *You need*: lesson 4 (growth by blocks), lesson 6 (batching: more sequences in a step cost little).
# *Time*: 45 minutes. *Runs on*: any laptop.

# %%
from lessons import pictures_blocks, pictures_preemption
from lessons.checks import preemption as checks
from sim import Config, Request, Trace, simulate
from sim.hardware import HARDWARE
from sim.models import MODELS

trace = Trace.read("thrashing")
pool = {"pool_tokens": 4096, "max_len": 1024}
longest = max(request.final_tokens for request in trace.requests)
assert len(trace.requests) == 64 and longest == 527 and 4096 // longest == 7


def prefilled(run):
    """Tokens that all admissions together had to compute."""
    return sum(sum(request["prefills"]) for request in run.requests)


runs = {
    "at most 7 at once": simulate(trace, Config(**pool, max_seqs=7), record=False),
    "all, recompute": simulate(trace, Config(**pool), record=False),
}
for name, run in runs.items():
    print(f"{name:18} {run.num_preemptions:3} preemptions, {prefilled(run):6,} prefilled, {run.time_s:.1f} s")
careful, bold = runs.values()
assert (careful.num_preemptions, prefilled(careful)) == (0, 1024)
assert (bold.num_preemptions, prefilled(bold)) == (148, 25_834)
assert f"{careful.time_s / bold.time_s:.2f}" == "1.95"

# %% [markdown]
# ## Predict
#
# Paging lets a request in when its **prompt** fits. Nobody knows how long the answers will be. So some step will need a block,
# and none is free. Somebody must give up its memory: it is **preempted**. There are two ways:
#
# - **recompute**: drop all its blocks. When it comes back, prefill its prompt and all that it has emitted.
# - **swap**: copy its blocks to the host's memory, and back when there is room.
#
# Requests `a`, `b` and `c` arrived in this order. Now `b` needs a block and none is free.
#
# 1. Whom would you preempt, and why? (vLLM takes the one that arrived last.)
# 2. A request has a prompt of 6 tokens and has emitted 7. It is recomputed. How many tokens must be prefilled when it
#    comes back?
# 3. It is swapped instead, with blocks of 4. How many blocks move out, and how many back?

# %% [markdown]
# ## Run
#
# Seven blocks of 4 for three requests that come to need more.

# %%
three = Trace(
    "three",
    tuple(
        Request(id=name, arrival_s=0.0, prompt=prompt, output=output, max_tokens=output)
        for name, prompt, output in (("a", 7, 8), ("b", 6, 9), ("c", 5, 10))
    ),
)
small = {"pool_blocks": 7, "block_size": 4, "timing": "unit", "max_len": 28}
run = simulate(three, Config(**small))
for event in run.events:
    if event.kind in ("preempt", "admit") and event.step > 1:
        print(f"step {event.step}: {event.kind} {event.request}: {event.why}")
assert [(e.step, e.request) for e in run.events if e.kind == "preempt"] == [(4, "c"), (8, "b")]
assert {request["id"]: request["prefills"] for request in run.requests} == {
    "a": [7],
    "b": [6, 13],
    "c": [5, 8],
}
pictures_blocks.pool_at(run, 7)

# %% [markdown]
# That is step 7: `a` and `b` run in seven blocks, `c` has none. In step 8 `a` has room in its last block, and `b` needs
# another one. None is free, and `b` itself is the youngest that runs. So `b` goes.
#
# It comes back in step 9 with 13 tokens to prefill: 6 of its prompt and the 7 that it had emitted. **No token is lost**,
# only work. Its user sees a pause.
#
# Swapped instead:

# %%
swapped = simulate(three, Config(**small, preempt="swap"))
for event in swapped.events:
    if event.kind in ("swap_out", "swap_in"):
        count = len(event.changes["blocks"])
        print(f"step {event.step}: {event.kind} {event.request}, {count} blocks: {event.why}")
assert [len(e.changes["blocks"]) for e in swapped.events if e.kind == "swap_out"] == [2, 3]
assert [request["prefills"] for request in swapped.requests] == [[7], [6], [5]]

# %% [markdown]
# `b` had 12 tokens stored (the 13th, emitted last, is stored by the next step): 3 blocks out and 3 back. Nothing is
# prefilled twice.
#
# ## Look
#
# The 64 requests again. Each panel shows who runs, who lies in the host's memory and who waits.

# %%
runs["all, swap"] = simulate(trace, Config(**pool, preempt="swap"), record=False)
runs["all, swap at 1 GB/s"] = simulate(trace, Config(**pool, preempt="swap", link="1GB/s"), record=False)
assert f"{runs['all, swap'].time_s:.1f}" == "45.9" and f"{bold.time_s:.1f}" == "45.9"
assert f"{runs['all, swap at 1 GB/s'].time_s:.1f}" == "81.7"
pictures_preemption.queues(runs)

# %% [markdown]
# All start; then memory fills, and the youngest must leave until the oldest are done. With a link of 32 GB/s to the host, as this
# device has, swapping and recomputing take the same 45.9 s. With 1 GB/s swapping takes 81.7 s. It depends on
# the machine and on the model:

# %%
model, device = MODELS["opt-13b"], HARDWARE["a100-40gb"]
recompute_us = 1e6 * 2 * model.num_parameters / device.flops_per_s
swap_us = 1e6 * 2 * model.kv_bytes_per_token("fp16") / device.link_bytes_per_s
print(f"one token of {model.name}: recompute {recompute_us:.0f} us, swap out and in {swap_us:.0f} us")
assert (f"{recompute_us:.0f}", f"{swap_us:.0f}") == ("82", "51")
assert device.link_bytes_per_s == 32_000_000_000

# %% [markdown]
# A token costs two operations for each of the model's parameters, or its bytes twice over the link: 82 and 51 microseconds
# at full speed. Neither wins by much. Small blocks make swapping dearer, as many small copies do not reach
# the full speed (the paper's Figure 19). vLLM first had both, and now only recomputes.
#
# **Whom?** A rule that looks cheaper can be worse. On the demo with a pool of 1,024 slots:

# %%
demo = Trace.read("demo")
table = {}
for victim in ("youngest", "oldest", "fewest-tokens"):
    other = simulate(demo, Config(pool_tokens=1024, max_len=512, victim=victim), record=False)
    most = max(request["preemptions"] for request in other.requests)
    table[victim] = (other.num_preemptions, most, prefilled(other))
    print(f"{victim:14} {other.num_preemptions:3} preemptions, {most:2} of one", end="")
    print(f" request, {prefilled(other):,} prefilled")
assert table == {"youngest": (68, 5, 5336), "oldest": (36, 10, 6334), "fewest-tokens": (84, 5, 4569)}

# %% [markdown]
# The oldest has stored most. Taking it frees most, so there are fewer preemptions, and each throws away more: 6,334
# tokens prefilled instead of 5,336. One request was thrown out 10 times: it may **starve**. The youngest has lost
# least, and the oldest always gets on, so every request ends some day. That is first come, first served.
#
# <details><summary>Check: why is nobody admitted in a step that preempted somebody?</summary>
#
# The blocks that were freed are needed by those who run. An admission would take them, and cause the next preemption.
# </details>
#
# <details><summary>Check: why must a request never be let in whose worst case is larger than the whole pool?</summary>
#
# It would preempt all others, then itself, and come back to do the same again, for ever. Such a request is rejected when it
# arrives.
# </details>

# %% [markdown]
# ## Build
#
# **First**, one decode step of a server. `stored[i]` tokens are stored by request `i`, oldest first. Each needs room for one
# more. Go through them from the oldest on. One whose last block is full takes a free block. If none is free, the **youngest
# that still runs** is preempted, and all its blocks are free, until there is one, or the needy request itself was the victim.


# %% tags=["stub"]
def decode_step(stored: list[int], block_size: int, free: int) -> list[int]:
    """Places in `stored` of those that run in this step, oldest first; at first `free` blocks are free."""
    ### BEGIN SOLUTION
    running, place = list(range(len(stored))), 0
    while place < len(running):
        needed = stored[running[place]] % block_size == 0
        if needed and not free:
            free += -(-stored[running.pop()] // block_size)
        else:
            free, place = free - needed, place + 1
    return running
    ### END SOLUTION


# %% tags=["check"]
checks.decode_step(decode_step)

# %% [markdown]
# The check took its cases from the simulator's log. You have written step 2 of its scheduler (`sim/scheduler.py`,
# `_advance_running`).
#
# **Second**, the choice. Recomputing takes `token_s` seconds a token; moving a block takes `block_s` seconds **each way**.
# Which tokens are prefilled, and which are stored?


# %% tags=["stub"]
def cheaper(prompt: int, emitted: int, block_size: int, token_s: float, block_s: float) -> str:
    """`"swap"` if that takes less time, else `"recompute"`, for a request that has `emitted` tokens."""
    ### BEGIN SOLUTION
    blocks = -(-(prompt + emitted - 1) // block_size)
    return "swap" if 2 * blocks * block_s < (prompt + emitted) * token_s else "recompute"
    ### END SOLUTION


# %% tags=["check"]
checks.cheaper(cheaper)

# %% [markdown]
# ## Stretch
#
# 1. `pagelab simulate thrashing --pool-tokens 4096 --max-len 1024 --watermark 0.1` leaves a tenth of the pool free when it
#    admits. Fewer preemptions; is it faster? Try 0.3.
# 2. Give the swapping server too little host memory: `--preempt swap --swap-blocks 64`. What does it do with those that
#    do not fit?
# 3. How would the table above change if clients had priorities (`--victim lowest-priority`)? What must a fair server
#    add, so that nobody starves?
#
# **In the ledger**: a guide to paging sketches a scheduler that admits a request only if its **maximum** length fits, and
# calls that "no pre-allocation". `pagelab claims admit-by-max-len` runs it: how many does it let in?
#
# **In the app**: `pagelab app`, then open <http://localhost:8501/?trace=thrashing&a=oracle&b=paged&step=80>. Go on to the next
# `preempt` event and read its sentence.
#
# ## What you proved, and what you did not
#
# You proved that a server may promise more memory than it has, if it can take it back, and that no token is lost by it. You
# did not prove that this is always faster. The trace is an extreme one: short prompts, long answers, all at once. The times are
# modelled from a datasheet, and the copies at full speed. On a trace with long prompts recomputing costs more; try one.
