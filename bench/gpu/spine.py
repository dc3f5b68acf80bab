"""Section: the trace comparison with a model of the 1B class and random weights."""

from dataclasses import replace
from typing import Any

from bench.gpu.here import Here
from engine import measure
from engine.agreement import agreement
from sim import Config, simulate
from sim.models import MODELS, llama_spec
from sim.trace.builtin import BUILTINS

SHAPE = llama_spec("bench-1b", 22, (32, 4), 2048, 5632, 32000, 4096, "a 1.1B Llama shape with random weights")


def spine(here: Here) -> dict[str, Any]:
    """Simulated against measured, step by step, and how fast the engine went."""
    device, is_gpu = here.device, here.is_gpu
    MODELS[SHAPE.name] = SHAPE
    model, kv_dtype = (SHAPE.name, "bf16") if is_gpu else ("tiny", "fp32")
    trace = BUILTINS["demo"].make(0).first(60 if is_gpu else 2)
    config = Config(
        allocator="paged", pool_tokens=4096, max_len=512, model=model, kv_dtype=kv_dtype, timing="unit"
    )
    measured = measure(trace, config, device=device.type, clock="modelled", is_over=here.is_over)
    if measured.is_stopped:
        here.left_out.append(f"the trace after step {measured.num_steps}")
    facts = measured.meta["engine"]
    simulated = simulate(trace, replace(config, pool_tokens=facts["num_slots"], pool_blocks=None))
    seconds = sum(measured.measured_seconds)
    emitted = sum(len(tokens) for tokens in measured.tokens.values())
    speed = {"seconds": seconds, "tokens": emitted, "tokens_per_s": emitted / seconds if seconds else None}
    return {"agreement": agreement(simulated, measured), "engine": facts, **speed}
