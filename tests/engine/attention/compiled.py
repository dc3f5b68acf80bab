"""Compiles the shipped Triton kernels for GPUs that are not here, and reads the machine code.

Run as a program (a process of its own, without TRITON_INTERPRET): prints one JSON object, variant -> facts.
"""

import json
import re
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from engine.attention.triton_config import CONTIGUOUS_STAGES, DECODE, PREFILL
from engine.attention.triton_decode import decode_kernel
from engine.attention.triton_prefill import prefill_kernel

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
POINTERS = {"table": "*i32", "seq_lens": "*i32", "query_start_loc": "*i32", "lse": "*fp32"}
POINTERS |= {"slopes": "*fp32", "k_scale": "*fp32", "v_scale": "*fp32"}
TENSORS = ("query", "keys", "values", "out")
FLOATS = ("scale", "softcap")
DTYPES = {
    torch.float16: ("fp16", tl.float16),
    torch.bfloat16: ("bf16", tl.bfloat16),
    torch.float32: ("fp32", tl.float32),
}
SWITCHES = ("HAS_WINDOW", "HAS_SOFTCAP", "HAS_ALIBI", "HAS_K_SCALE", "HAS_V_SCALE")


def compile_variant(kernel, dtype, arch, launch, constants):
    """Facts of one compiled kernel. Strides are multiples of 16, as those of real caches are."""
    name, factor = DTYPES[dtype]
    constants = dict.fromkeys(SWITCHES, False) | {"DOT": factor, "PAGED": True} | constants
    constants = {key: value for key, value in constants.items() if key in kernel.arg_names}
    signature, attrs = {}, {}
    for index, argument in enumerate(kernel.arg_names):
        if argument in constants:
            signature[argument] = "constexpr"
        elif argument in TENSORS:
            element = "fp32" if argument == "out" and not constants.get("DIRECT", True) else name
            signature[argument] = f"*{element}"
        else:
            signature[argument] = POINTERS.get(argument, "fp32" if argument in FLOATS else "i32")
        is_multiple = signature[argument].startswith("*") or re.match("[qkv]_|out_", argument)
        if is_multiple:
            attrs[(index,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, signature, constants, attrs)
    options = {"num_warps": launch.num_warps, "num_stages": launch.num_stages}
    built = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    facts = {"shared": built.metadata.shared, "num_warps": launch.num_warps}
    return facts | machine_code(built.asm["cubin"])


def machine_code(cubin: bytes) -> dict[str, int]:
    """Registers, spilled bytes, and loads by width."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        usage = subprocess.run(
            [TOOLS / "cuobjdump", "-res-usage", file.name], capture_output=True, text=True
        ).stdout
        code = subprocess.run([TOOLS / "nvdisasm", file.name], capture_output=True, text=True).stdout
    return {
        "registers": int(re.search(r"REG:(\d+)", usage)[1]),
        "stack": int(re.search(r"STACK:(\d+)", usage)[1]),
        "spills": len(re.findall(r"\b(?:LDL|STL)\b", code)),
        "async_16_byte": len(re.findall(r"LDGSTS\S*\.128", code)),
        "narrow_loads": len(re.findall(r"\bLDG\S*\.[US](?:8|16)", code)),
        "tensor_core": len(re.findall(r"\b(?:HMMA|HGMMA)", code)),
    }


def decode_variant(arch, dtype, head_dim, **extra):
    padded = 1 << (head_dim - 1).bit_length()
    launch = DECODE[dtype.itemsize, padded]
    if not extra.get("PAGED", True):
        launch = replace(launch, num_stages=CONTIGUOUS_STAGES)
    constants = {"NUM_KV_HEADS": 8, "GROUP": 4, "BLOCK_SIZE": 16, "BLOCK_M": launch.rows, "DIRECT": False}
    constants |= {"HEAD_DIM": head_dim, "BLOCK_D": padded, "TILE": launch.tile}
    return compile_variant(decode_kernel, dtype, arch, launch, constants | extra)


def prefill_variant(arch, dtype, head_dim):
    launch = PREFILL[dtype.itemsize, head_dim]
    constants = {"GROUP": 4, "BLOCK_SIZE": 16, "BLOCK_M": launch.rows}
    constants |= {"HEAD_DIM": head_dim, "BLOCK_D": head_dim, "TILE": launch.tile}
    return compile_variant(prefill_kernel, dtype, arch, launch, constants)


def variants():
    """What engines use most, on the two generations; about 2 s each."""
    bf16, fp16, fp32 = torch.bfloat16, torch.float16, torch.float32
    everything = dict.fromkeys(SWITCHES, True)
    return {
        "sm_90 decode bf16 128": decode_variant(90, bf16, 128),
        "sm_90 decode bf16 128, one chunk, contiguous": decode_variant(
            90, bf16, 128, DIRECT=True, PAGED=False
        ),
        "sm_90 decode bf16 128, every feature": decode_variant(90, bf16, 128, **everything),
        "sm_90 decode fp32 128": decode_variant(90, fp32, 128),
        "sm_90 prefill bf16 128": prefill_variant(90, bf16, 128),
        "sm_80 decode bf16 128": decode_variant(80, bf16, 128),
        "sm_80 decode fp16 80, blocks of 48": decode_variant(80, fp16, 80, BLOCK_SIZE=48),
    }


if __name__ == "__main__":
    print(json.dumps(variants()))
