# %% [markdown]
# # 6. Batching: why memory is speed
#
# To make one token, a server reads all of the model's weights: 25.7 GB for a model of 13 billion parameters. To make
# one token for each of 32 users, it reads the same weights once. **32 times the tokens take 1.3 times as long.** So a
# server wants as many sequences as it can hold, and what it can hold is a matter of memory. That is the whole reason
# for this course.
#
# *You need*: lesson 1 (a request takes one prefill and `output - 1` decodes), lesson 4 (paging).
# *Time*: 40 minutes. *Runs on*: any laptop; all times here are modelled, not measured.

# %%
from heapq import heappop, heappush

from lessons import pictures_batching as pictures
from lessons.checks import batching
from sim import Config, Trace, simulate
from sim.hardware import HARDWARE
from sim.models import MODELS

model, device = MODELS["opt-13b"], HARDWARE["a100-40gb"]
context = 300  # tokens that each sequence has stored
one = batching.decode_seconds(1, context, model, device)
many = batching.decode_seconds(32, 32 * context, model, device)
assert f"{model.weights_bytes() / 1e9:.1f}" == "25.7"
assert f"{many / one:.1f}" == "1.3"
print(f"1 sequence: {1000 * one:.1f} ms a token; 32 sequences: {1000 * many:.1f} ms for 32 tokens")

# %% [markdown]
# ## Predict
#
# Four requests come at the same time and will emit 2, 8, 3 and 3 tokens. The server has two seats. A step emits one
# token for each request that has a seat. How many steps until all are served, if the server
#
# 1. takes one request at a time (**sequential**)?
# 2. fills both seats, and takes nobody until both are done (**static**)?
# 3. gives a seat away as soon as it is free (**continuous**)?
# 4. And when does the third request see its first token in each case?
#
# <details><summary>Answers</summary>
#
# 16 steps, 11 steps, 8 steps. The third request's first token comes at the end of step 11, step 9 and step 3.
#
# </details>

# %%
outputs = (2, 8, 3, 3)
runs = {name: batching.serve(outputs, 2, name) for name in ("sequential", "static", "continuous")}
steps = {"sequential": 16, "static": 11, "continuous": 8}
first_tokens = {"sequential": 11, "static": 9, "continuous": 3}
assert {name: run.num_steps for name, run in runs.items()} == steps
assert {name: run.requests[2]["first_token"] for name, run in runs.items()} == first_tokens

# %% [markdown]
# ## Run
#
# What a step is, exactly:
#
# - A request's **prefill** stores the keys and values of its prompt and emits its first token.
# - A **decode** stores the token that was emitted last, and emits the next.
# - The last token is never stored. So a request of `p` prompt and `o` output tokens takes `o` steps and `p + o - 1` slots.

# %%
pictures.seats(runs["static"])

# %% [markdown]
# Request `a` was done after step 2. Its seat stood empty for six steps, and `c` waited beside it.

# %%
a, b = runs["static"].requests[:2]
assert (a["finish"], b["finish"]) == (2, 8) and b["finish"] - a["finish"] == 6
pictures.seats(runs["continuous"])

# %% [markdown]
# Continuous batching (Orca, OSDI 2022, called it iteration-level scheduling) decides anew at every step. Nobody can do
# better here: `b` alone takes eight steps.

# %%
assert max(outputs) == runs["continuous"].num_steps

# %% [markdown]
# ## Look
#
# How long does a step take? At least as long as reading what it must read, and at least as long as computing what it
# must compute. The longer of the two is called the **roofline**. For a decode:
#
# - it reads all weights once, and the keys and values of every token that any sequence has stored;
# - it computes 2 operations for each parameter and token, and some more for attention.
#
# On the left of this picture reading the weights is nearly all. Twice the batch, twice the tokens. On the right each
# sequence's own keys and values are what is read, and a larger batch no longer helps much.

# %%
batches = [2**power for power in range(10)]
lines = {
    f"{length} tokens stored by each": (
        batches,
        [batch / batching.decode_seconds(batch, batch * length, model, device) for batch in batches],
    )
    for length in (100, 300, 1000)
}
pictures.curves(lines, "sequences in the batch", "tokens per second")

# %% [markdown]
# The picture ignores one thing: where all those sequences are stored. This card has room for 15,728 slots beside the
# weights. Now 150 requests with conversation-like lengths at once. Reservation of the maximum (2,048 slots each) seats
# seven. Paging seats as many as there is memory for. Everything else is the same.

# %%
trace = Trace.read("sharegpt-like").first(150).scale_rate(1000)
settings = [(kind, name) for kind in ("max", "paged") for name in ("sequential", "static", "continuous")]
served = {
    f"{kind}, {name}": simulate(trace, Config(allocator=kind, batching=name), record=False).report()
    for kind, name in settings
}
assert served["max, continuous"]["config"]["num_slots"] == 15_728
assert served["max, continuous"]["batch"]["max"] == 7
for name, report in served.items():
    print(f"{name:18} mean batch {report['batch']['mean']:4.1f}, largest {report['batch']['max']:3}")
speed = {name: report["throughput"]["tokens_per_s"] for name, report in served.items()}
pictures.bars(speed, "tokens per second (modelled)")

# %%
assert speed["max, sequential"] == speed["paged, sequential"]
assert speed["paged, continuous"] > 2 * speed["max, continuous"] > 4 * speed["max, sequential"]
print(f"paging against reservation, continuous: {speed['paged, continuous'] / speed['max, continuous']:.1f}x")
print(f"continuous against sequential, paged: {speed['paged, continuous'] / speed['paged, sequential']:.1f}x")

# %% [markdown]
# One request at a time gains nothing from better memory. A batch does: that is how slots that are put to use become
# tokens per second.
#
# ## Build
#
# `outputs` are the numbers of tokens that requests will emit, in order of arrival, all there from the start.


# %% tags=["stub"]
def static_steps(outputs: list[int], num_seats: int) -> int:
    """Steps of a server that fills its seats in order and runs them until the last of them is done."""
    ### BEGIN SOLUTION
    batches = [outputs[first : first + num_seats] for first in range(0, len(outputs), num_seats)]
    return sum(max(batch) for batch in batches)
    ### END SOLUTION


# %% tags=["check"]
batching.static_steps(static_steps)


# %% [markdown]
# For the continuous server, keep the steps at which its seats become free. `heappush` and `heappop` do that well.


# %% tags=["stub"]
def continuous_steps(outputs: list[int], num_seats: int) -> int:
    """Steps of a server that gives a seat to the next in line in the step after it became free."""
    ### BEGIN SOLUTION
    free_after = [0] * num_seats
    for output in outputs:
        heappush(free_after, heappop(free_after) + output)
    return max(free_after)
    ### END SOLUTION


# %% tags=["check"]
batching.continuous_steps(continuous_steps)

# %% [markdown]
# And the roofline of a decode step. `context` counts the tokens that attention reads, of all sequences together; each
# sequence also writes the keys and values of one. You need `model.weights_bytes()`, `model.kv_bytes_per_token("fp16")`,
# `model.num_parameters`, `device.bandwidth_bytes_per_s` and `device.flops_per_s`. Attention adds 4 operations for each
# layer, head, dimension of a head (`model.num_layers`, `model.num_heads`, `model.head_dim`) and token of the context.


# %% tags=["stub"]
def decode_seconds(batch: int, context: int, model, device) -> float:
    """Seconds that a decode step takes at least: the longer of reading memory and computing."""
    ### BEGIN SOLUTION
    num_bytes = model.weights_bytes() + model.kv_bytes_per_token("fp16") * (context + batch)
    attention = 4 * model.num_layers * model.num_heads * model.head_dim * context
    num_operations = 2 * model.num_parameters * batch + attention
    return max(num_bytes / device.bandwidth_bytes_per_s, num_operations / device.flops_per_s)
    ### END SOLUTION


# %% tags=["check"]
batching.roofline(decode_seconds)

# %% [markdown]
# ## Stretch
#
# 1. Serve the outputs `(1, 1, 1, 12)` and then `(12, 1, 1, 1)` with two seats, continuously. Why does the order matter?
#    Would you put the long one first?
# 2. `pagelab simulate demo --pool-tokens 4096 --max-len 512 --step-rule prefill-first --json` runs prompts in steps of their own,
#    as the paper's vLLM did. Compare its `tpot` (time per
#    output token) with that of the default, `mixed`.
# 3. At which batch size does an A100 stop waiting for memory, if contexts are short? Call `batching.decode_seconds`
#    with a context of 0 and look for the bend.
#
# <details><summary>Answers to 1 and 3</summary>
#
# 1. 13 steps and 12 steps: a long request that starts late runs alone at the end. But nobody knows who will be long.
# 3. Above 200 sequences: 312 TFLOP/s over 1,555 GB/s is 201 operations for each byte, and a 2-byte parameter is good
#    for 2 operations for each sequence.
#
# </details>

# %%
assert batching.serve((1, 1, 1, 12), 2, "continuous").num_steps == 13
assert batching.serve((12, 1, 1, 1), 2, "continuous").num_steps == 12
assert (device.flops_per_s, device.bandwidth_bytes_per_s) == (312e12, 1555e9)
assert f"{device.flops_per_byte:.0f}" == "201"
time_of = {batch: batching.decode_seconds(batch, 0, model, device) for batch in (1, 150, 400)}
assert time_of[150] < 1.1 * time_of[1] and time_of[400] > 1.5 * time_of[1]

# %% [markdown]
# **In the ledger**: a guide to paging says that it brings 10 to 40x the throughput. Over whom? `pagelab claims throughput-10-40x`
# names four of them.
#
# **In the app**: `pagelab app`, then open <http://localhost:8501/?trace=demo&a=max&b=paged&batching=static&step=40>, and change
# the batching under "More dials".
#
# ## What you proved, and what you did not
#
# You proved that a free seat is lost tokens, that continuous batching loses none while somebody waits, and that under the
# roofline a decode step's time hardly grows until the sequences' own keys and values weigh as much as the model. You did
# not prove that a real GPU reaches its roofline: the bandwidth is the datasheet's, and no kernel gets all of it. The
# ratios are better founded than the seconds.
