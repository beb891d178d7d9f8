"""The energy counter of NVML; no GPU is needed, and none was there when it was written."""

from __future__ import annotations

import ctypes

import pytest

from cloudgan.training.record import gpu_joules


class Driver:
    """The five functions of NVML, for GPUs with these counters in millijoules; None: not supported."""

    def __init__(self, *counters, status=0):
        self.counters, self.status, self.is_open = counters, status, False

    def __call__(self, name):
        assert name == "libnvidia-ml.so.1"
        return self

    def nvmlInit_v2(self):  # noqa: N802
        self.is_open = not self.status
        return self.status

    def nvmlShutdown(self):  # noqa: N802
        self.is_open = False

    def nvmlDeviceGetCount_v2(self, count):  # noqa: N802
        count._obj.value = len(self.counters)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index, device):  # noqa: N802
        device._obj.value = index + 1
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, device, energy):  # noqa: N802
        found = self.counters[device.value - 1]
        energy._obj.value = found or 0
        return 3 if found is None else 0


def test_the_energy_of_all_gpus_is_added_up_in_joules():
    driver = Driver(2**40, 1500)
    assert gpu_joules(driver) == pytest.approx(2**40 / 1000 + 1.5)
    assert not driver.is_open


@pytest.mark.parametrize(
    "driver", [Driver(), Driver(1000, None), Driver(1000, status=9)], ids=["no GPU", "old", "error"]
)
def test_what_the_driver_does_not_count_is_unknown(driver):
    assert gpu_joules(driver) is None
    assert not driver.is_open


def test_without_the_library_or_its_functions_the_energy_is_unknown():
    def missing(name):
        raise OSError(name)

    assert gpu_joules(missing) is None
    assert gpu_joules(lambda name: ctypes.CDLL(None)) is None
