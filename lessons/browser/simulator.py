# %% [markdown]
# # The simulator
#
# Change what you like and run the cell again. `Config` has every dial of the command line; a wrong value is
# refused with the reason.

# %%
from lessons import pictures
from sim import Config, Trace, simulate

trace = Trace.read("demo")  # or four-requests, fragmentation
runs = [simulate(trace, Config(allocator=name, pool_tokens=4096, max_len=512)) for name in ("max", "paged")]
for run in runs:
    report = run.report()
    waste, batch = report["waste_percent"], report["batch"]["mean"]
    print(f"{report['allocator']:6} wastes {waste:.1f} %, {batch:.1f} at once")
pictures.ledgers(runs)

# %% [markdown]
# What happened, event by event, and why:

# %%
for event in runs[1].events[:12]:
    print(event.step, event.kind.value, event.request, "-", event.why)

# %% [markdown]
# A trace of your own. Each request has a prompt and an output, counted in tokens.

# %%
from sim import Request

mine = Trace(
    "mine",
    tuple(
        Request(id=name, arrival_s=at, prompt=prompt, output=output, max_tokens=output)
        for name, at, prompt, output in (("a", 0, 7, 6), ("b", 0, 3, 9), ("c", 2, 10, 3))
    ),
)
run = simulate(mine, Config(allocator="paged", pool_blocks=8, block_size=4, timing="unit", max_len=32))
pictures.memory_map(run, 3, width=16)
