"""What a compiled Triton kernel became: registers, spills, shared memory, and how wide its loads are."""

import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import triton

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
NVIDIA_LOAD = re.compile(r"\b(LDGSTS|LDG)((?:\.\w+)*)")
NVIDIA_WIDTHS = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
NVIDIA_PRODUCTS = r"\b(?:HMMA|HGMMA|UTCHMMA|UTCQMMA)"
AMD_LOAD = re.compile(r"\b(?:global|buffer|flat)_load_(\w+)")
AMD_WIDTHS = {"dwordx4": 16, "dwordx3": 12, "dwordx2": 8, "dword": 4, "b128": 16, "b64": 8, "b32": 4}


def describe(built: Any, backend: str) -> dict[str, Any]:
    """Facts of one compiled kernel."""
    facts = nvidia(built.asm["cubin"]) if backend == "cuda" else amd(built.asm["amdgcn"])
    return {
        "num_warps": built.metadata.num_warps,
        "num_stages": built.metadata.num_stages,
        "shared": built.metadata.shared,
        **facts,
    }


def nvidia(cubin: bytes) -> dict[str, Any]:
    """From the SASS that ptxas made."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        usage, code = (
            subprocess.run(
                [TOOLS / tool, *flags, file.name], capture_output=True, text=True, check=True
            ).stdout
            for tool, flags in (("cuobjdump", ["-res-usage"]), ("nvdisasm", []))
        )
    widths: Counter[int] = Counter()
    for _, suffixes in NVIDIA_LOAD.findall(code):
        found = [NVIDIA_WIDTHS[part] for part in suffixes.split(".") if part in NVIDIA_WIDTHS]
        widths[found[0] if found else 4] += 1
    return {
        "registers": number(r"REG:(\d+)", usage),
        "stack": number(r"STACK:(\d+)", usage),
        "spills": len(re.findall(r"\b(?:LDL|STL)\b", code)),
        "loads": by_width(widths),
        "async_loads": len(re.findall(r"\bLDGSTS\b", code)),
        "tensor_core": len(re.findall(NVIDIA_PRODUCTS, code)),
    }


def amd(code: str) -> dict[str, Any]:
    """From the assembly that LLVM made."""
    widths = Counter(AMD_WIDTHS.get(width, 2 if "short" in width else 1) for width in AMD_LOAD.findall(code))
    return {
        "registers": number(r"\.vgpr_count:\s+(\d+)", code),
        "stack": number(r"\.private_segment_fixed_size:\s+(\d+)", code),
        "spills": number(r"\.vgpr_spill_count:\s+(\d+)", code),
        "loads": by_width(widths),
        "async_loads": 0,
        "tensor_core": len(re.findall(r"\bv_mfma", code)),
    }


def by_width(widths: Counter[int]) -> dict[str, int]:
    """Loads from global memory: bytes a thread -> instructions."""
    return {str(width): widths[width] for width in sorted(widths, reverse=True)}


def number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    assert found, f"{pattern} is not in the tool's answer"
    return int(found[1])
