"""What this machine is, in words and numbers."""

from __future__ import annotations

import os
import sys

import pytest

from cloudgan.core.hardware import Accelerator, Hardware, this_machine


def test_a_machine_is_told_in_one_line():
    gpus = (Accelerator(name="V100", count=8, memory_gib=16.0),)
    machine = Hardware(processor="Xeon", cores=96, memory_gib=None, accelerators=gpus)
    assert machine.describe() == "8 x V100 on 96 cores of Xeon, unknown memory"
    assert Hardware(processor="M1", cores=8, memory_gib=16.0).describe() == "8 cores of M1, 16 GiB"


def test_this_machine_has_cores_and_a_processor():
    found = this_machine()
    assert found.cores >= 1
    assert found.processor
    assert found.accelerators == ()


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells which cores a process may use"
)
def test_cores_are_those_that_this_process_may_use():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert this_machine().cores == 1
    finally:
        os.sched_setaffinity(0, allowed)
