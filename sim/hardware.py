"""What a device can do at best, for the modelled step times.

Memory is in the binary units in which GPUs are built (a "40 GB" card has 40 GiB). Rates are the
datasheets' decimal ones, per direction, and peaks: real kernels reach a part of them.
"""

from dataclasses import dataclass

from sim.errors import unknown_name

_GIB = 2**30
_GB_PER_S = 10**9
_TFLOP_PER_S = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """One device. `source` names the datasheet."""

    name: str
    memory_bytes: int
    bandwidth_bytes_per_s: int  # device memory
    flops_per_s: int  # dense fp16/bf16 with fp32 accumulation
    link_bytes_per_s: int  # to host memory, one direction
    peer_bytes_per_s: int  # to another device of the same server, one direction
    source: str

    @property
    def flops_per_byte(self) -> float:
        """The roofline's ridge: below this many operations per byte read, memory is the bound."""
        return self.flops_per_s / self.bandwidth_bytes_per_s


def _gpu(
    name: str, gib: int, gb_per_s: int, tflops: float, link_gb_per_s: int, source: str, *, nvlink: int = 0
) -> Hardware:
    """`nvlink` is GB/s in one direction; without it peers talk over the host link."""
    return Hardware(
        name=name,
        memory_bytes=gib * _GIB,
        bandwidth_bytes_per_s=gb_per_s * _GB_PER_S,
        flops_per_s=round(tflops * _TFLOP_PER_S),
        link_bytes_per_s=link_gb_per_s * _GB_PER_S,
        peer_bytes_per_s=(nvlink or link_gb_per_s) * _GB_PER_S,
        source=source,
    )


_DEVICES = (
    _gpu("t4", 16, 320, 65, 16, "NVIDIA T4 Tensor Core GPU product brief; PCIe 3.0 x16"),
    _gpu("a10g", 24, 600, 70, 32, "NVIDIA A10G datasheet; PCIe 4.0 x16"),
    _gpu("rtx-4090", 24, 1008, 165.2, 32, "NVIDIA Ada GPU architecture whitepaper, appendix; PCIe 4.0 x16"),
    _gpu(
        "a100-40gb", 40, 1555, 312, 32,
        "NVIDIA A100 Tensor Core GPU datasheet (40 GB); PCIe 4.0 x16, NVLink 3", nvlink=300,
    ),
    _gpu(
        "a100-80gb", 80, 2039, 312, 32,
        "NVIDIA A100 Tensor Core GPU datasheet (80 GB SXM); PCIe 4.0 x16, NVLink 3", nvlink=300,
    ),
    _gpu(
        "h100", 80, 3350, 989.4, 64, "NVIDIA H100 Tensor Core GPU datasheet (SXM); PCIe 5.0 x16, NVLink 4",
        nvlink=450,
    ),
    _gpu(
        "h200", 141, 4800, 989.4, 64, "NVIDIA H200 Tensor Core GPU datasheet (SXM); PCIe 5.0 x16, NVLink 4",
        nvlink=450,
    ),
    _gpu(
        "laptop", 16, 50, 0.4, 25,
        "no datasheet: 16 GiB of dual-channel DDR4-3200 (51.2 GB/s), 4 AVX2 cores at 3 GHz (0.4 TFLOP/s); "
        "a swap reads and writes the same memory, so its link is half the bandwidth",
    ),
)  # fmt: skip

HARDWARE = {device.name: device for device in _DEVICES}


def get_hardware(name: str) -> Hardware:
    """The device called `name`. Raises `InputError` that names the nearest known one."""
    if name not in HARDWARE:
        raise unknown_name("hardware", name, HARDWARE)
    return HARDWARE[name]
