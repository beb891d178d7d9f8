"""Energy that the GPUs of this machine used, from NVML, the library of NVIDIA's driver."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
_PER_JOULE = 1000


def gpu_joules(load: Callable[[str], Any] = ctypes.CDLL) -> float | None:
    """Returns the energy of all GPUs of this machine since their driver was loaded; None: unknown.

    nvmlDeviceGetTotalEnergyConsumption counts millijoules, on Volta and later GPUs
    (https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html, read 2026-11-22).

    Args:
        load: Loads a shared library by name; raises OSError if it is missing.
    """
    try:
        library = load(_LIBRARY)
        if library.nvmlInit_v2():
            return None
        try:
            return _total(library)
        finally:
            library.nvmlShutdown()
    except (OSError, AttributeError):  # no driver, or one without this function
        return None


def _total(library: Any) -> float | None:
    count = ctypes.c_uint()
    if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) or not count.value:
        return None
    total = 0
    for index in range(count.value):
        device, energy = ctypes.c_void_p(), ctypes.c_ulonglong()
        if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)):
            return None
        if library.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(energy)):
            return None  # an older GPU
        total += energy.value
    return total / _PER_JOULE
