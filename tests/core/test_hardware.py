"""Description of this machine."""

from __future__ import annotations

import os
import sys

import pytest

from cloudgan.core.hardware import (
    Accelerator,
    Hardware,
    cpu_features,
    nvidia_gpus,
    this_machine,
)


def test_a_machine_is_described_in_one_line():
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
    sys.platform != "linux", reason="only Linux reports which cores a process may use"
)
def test_cores_are_those_that_this_process_may_use():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert this_machine().cores == 1
    finally:
        os.sched_setaffinity(0, allowed)


def answering(tmp_path, monkeypatch, script):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\n" + script)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_the_driver_is_asked_for_name_and_memory_of_each_gpu(tmp_path, monkeypatch):
    answering(tmp_path, monkeypatch, "echo 'NVIDIA H200, 143771'; echo 'NVIDIA GB10, [N/A]'")
    first, second = nvidia_gpus()
    assert (first.name, first.count, first.memory_gib) == ("NVIDIA H200", 1, 140.4)
    assert (second.name, second.memory_gib) == ("NVIDIA GB10", None)


def test_no_driver_and_a_failing_one_mean_no_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nvidia_gpus() == ()
    answering(tmp_path, monkeypatch, "echo 'NVIDIA-SMI has failed, try again'; exit 9")
    assert nvidia_gpus() == ()


CPUINFO = """\
processor\t: 0
model name\t: AMD EPYC 9004
physical id\t: 0
core id\t\t: 0
flags\t\t: fpu avx2 avx512f

processor\t: 1
model name\t: another
flags\t\t: fpu
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd bf16\n"


@pytest.fixture
def cpuinfo(monkeypatch):
    def pretend(text):
        def read(path, **_):
            assert str(path) == "/proc/cpuinfo"
            if text is None:
                raise FileNotFoundError(path)
            return text

        monkeypatch.setattr("pathlib.Path.read_text", read)

    return pretend


def test_reads_the_instruction_sets_of_a_processor(cpuinfo):
    cpuinfo(CPUINFO)
    assert cpu_features() == {"fpu", "avx2", "avx512f"}
    assert this_machine().processor.startswith("AMD EPYC 9004 (")


def test_a_processor_without_listed_features_has_none(cpuinfo):
    cpuinfo(ARM)
    assert cpu_features() == {"fp", "asimd", "bf16"}
    cpuinfo(None)
    assert cpu_features() == frozenset()
    assert this_machine().processor
