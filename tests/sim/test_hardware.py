from dataclasses import FrozenInstanceError

import pytest

from sim.errors import InputError
from sim.hardware import HARDWARE, get_hardware


def test_the_names_are_those_of_the_contract():
    assert list(HARDWARE) == ["t4", "a10g", "rtx-4090", "a100-40gb", "a100-80gb", "h100", "h200", "laptop"]


@pytest.mark.parametrize(
    ("name", "gib", "gb_per_s", "tflops", "link_gb_per_s"),
    [
        ("t4", 16, 320, 65, 16),
        ("a10g", 24, 600, 70, 32),
        ("rtx-4090", 24, 1008, 165.2, 32),
        ("a100-40gb", 40, 1555, 312, 32),
        ("a100-80gb", 80, 2039, 312, 32),
        ("h100", 80, 3350, 989.4, 64),
        ("h200", 141, 4800, 989.4, 64),
    ],
)
def test_a_device_has_the_figures_of_its_datasheet(name, gib, gb_per_s, tflops, link_gb_per_s):
    device = get_hardware(name)
    assert device.memory_bytes == gib * 2**30
    assert device.bandwidth_bytes_per_s == gb_per_s * 10**9
    assert device.flops_per_s == round(tflops * 10**12)
    assert device.link_bytes_per_s == link_gb_per_s * 10**9
    assert device.source


def test_the_link_to_the_host_is_slower_than_memory_and_a_laptop_has_the_least_of_all():
    assert all(device.link_bytes_per_s < device.bandwidth_bytes_per_s for device in HARDWARE.values())
    assert min(HARDWARE.values(), key=lambda device: device.flops_per_s).name == "laptop"
    assert min(HARDWARE.values(), key=lambda device: device.bandwidth_bytes_per_s).name == "laptop"


def test_the_ridge_of_an_a100_is_about_200_operations_a_byte():
    assert get_hardware("a100-40gb").flops_per_byte == pytest.approx(200.6, abs=0.1)


def test_a_name_that_nobody_knows_names_the_nearest():
    with pytest.raises(InputError, match="unknown hardware 'a10': did you mean 'a10g'"):
        get_hardware("a10")


def test_a_device_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        HARDWARE["t4"].memory_bytes = 1  # type: ignore[misc]
