"""The locked wheels hold code for every GPU on offer; a newer cuDNN has none for V100 and P100."""

from __future__ import annotations

import re
import struct

import pytest

from cloudgan.core.lock import locked
from cloudgan.launch.operations.offers import offers
from gpu_code import code_in

# SM architectures with machine code (SASS) and with PTX in every library of a wheel for x86_64 that TensorFlow loads,
# as `python tests/gpu_code.py` printed them on 2026-11-25. After an update of requirements/gpu.txt read the new wheel.
WHEELS = {
    ("nvidia-cublas-cu12", "12.9.3.13"): ({50, 60, 61, 70, 75, 80, 86, 90, 100, 120}, {120}),
    ("nvidia-cudnn-cu12", "9.10.2.21"): ({50, 60, 61, 70, 80, 90, 100, 120}, {120}),
    ("nvidia-cufft-cu12", "11.4.1.4"): (
        {50, 60, 70, 75, 80, 86, 89, 90, 100, 120},
        {50, 70, 80, 90},
    ),
    ("nvidia-curand-cu12", "10.3.10.19"): ({50, 60, 70, 75, 80, 86, 89, 90, 100, 103, 120}, {121}),
    ("nvidia-cusolver-cu12", "11.7.5.82"): (
        {50, 60, 61, 70, 75, 80, 86, 89, 90, 100, 103, 120},
        {120},
    ),
    ("nvidia-cusparse-cu12", "12.5.10.65"): (
        {50, 60, 61, 70, 75, 80, 86, 89, 90, 100, 103, 120},
        {121},
    ),
    ("nvidia-nccl-cu12", "2.32.3"): ({60, 61, 70, 80, 90, 100, 120}, {120}),
    ("tensorflow", "2.21.0"): ({60, 70, 80, 89, 90}, {90}),
}

# Compilers and tools without device code. CUDA 13 compiles for Turing and later only:
# https://docs.nvidia.com/cuda/archive/13.0.0/cuda-toolkit-release-notes/ (read 2026-11-25).
TOOLS = {
    f"nvidia-{name}-cu12"
    for name in ("cuda-cupti", "cuda-nvcc", "cuda-nvrtc", "cuda-runtime", "nvjitlink")
}

# https://developer.nvidia.com/cuda-gpus and https://developer.nvidia.com/cuda-legacy-gpus (read 2026-11-25).
COMPUTE_CAPABILITY = {
    "P100": 60,
    "V100": 70,
    "V100-32GB": 70,
    "T4": 75,
    "A100-40GB": 80,
    "A100-80GB": 80,
    "A10": 86,
    "A10(1/6)": 86,
    "A10G": 86,
    "L4": 89,
    "L40S": 89,
    "H100": 90,
    "H100-NVL": 90,
    "H200": 90,
}


def runs(sass, ptx, capability):
    """SASS of X.y runs on X.y and later ones of X; PTX is compiled for any later GPU.

    https://docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capabilities
    """
    return any(one <= capability and one // 10 == capability // 10 for one in sass) or any(
        one <= capability for one in ptx
    )


@pytest.fixture(scope="module")
def offered():
    """The GPUs of all clouds that `offers` lists."""
    names = {one.row.accelerator for one in offers().offers if one.row.accelerator_count}
    return {name for name in names if not name.startswith("TPU")}


@pytest.mark.parametrize(("wheel", "code"), WHEELS.items())
def test_every_gpu_on_offer_can_compute_with_the_locked_wheels(wheel, code, offered):
    assert {"T4", "V100", "A100-80GB", "H100"} <= offered <= set(COMPUTE_CAPABILITY)
    assert {name for name in offered if not runs(*code, COMPUTE_CAPABILITY[name])} == set()


def test_the_table_is_of_the_locked_wheels():
    found = set(re.findall(r"^(nvidia-[\w-]+|tensorflow)==(\S+)", locked("gpu"), re.MULTILINE))
    assert {one for one in found if one[0] not in TOOLS} == set(WHEELS)


def test_the_architectures_of_a_fat_binary_are_read():
    def entry(kind, sm, size):
        return struct.pack("<HHIQ12xI32x", kind, 0x101, 64, size, sm) + bytes(size)

    def container(*entries):
        return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(b"".join(entries))) + b"".join(entries)

    library = b"\x7fELF" + container(entry(2, 70, 24), entry(1, 120, 8)) + bytes(9)
    library += container(entry(2, 60, 0)) + b"\x50\xed\x55\xba"
    assert code_in(library) == {"SASS": {60, 70}, "PTX": {120}}
    assert code_in(b"\x50\xed\x55\xba" + bytes(40)) == {"SASS": set(), "PTX": set()}
