"""Description of this machine."""

from __future__ import annotations

import os
import sys

import pytest

from cloudgan.core.hardware import (
    Accelerator,
    FreeMemory,
    Hardware,
    cpu_features,
    free_memory,
    nvidia_gpus,
    size_text,
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


GIB = 1 << 30


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def machine(tmp_path):
    """A machine of 16 GiB, of which 10 GiB are free, in no cgroup with a limit."""
    write(
        tmp_path,
        {
            "proc/meminfo": f"MemTotal: {16 << 20} kB\nMemFree: 1 kB\nMemAvailable: {10 << 20} kB\n",
            "proc/self/cgroup": "0::/a.slice/b.scope\n",
        },
    )
    return tmp_path


def test_memory_that_only_caches_files_is_free(machine):
    assert free_memory(machine) == FreeMemory(10 * GIB, 16 * GIB, "this machine")


@pytest.mark.parametrize("folder", ["a.slice/b.scope", "a.slice", "."])
def test_the_limit_of_a_container_or_of_one_around_it_counts(machine, folder):
    at = f"sys/fs/cgroup/{folder}"
    write(
        machine,
        {
            f"{at}/memory.max": f"{4 * GIB}\n",
            f"{at}/memory.current": f"{3 * GIB}\n",
            f"{at}/memory.stat": f"anon 5\ninactive_file {GIB}\n",
        },
    )
    assert free_memory(machine) == FreeMemory(2 * GIB, 4 * GIB, "this container")


def test_the_older_cgroups_say_no_limit_by_a_large_number(machine):
    write(machine, {"proc/self/cgroup": "9:cpu:/x\n4:memory,hugetlb:/job\n0::/\n"})
    at = "sys/fs/cgroup/memory/job"
    limits = {f"{at}/memory.usage_in_bytes": "1", f"{at}/memory.stat": "total_inactive_file 0\n"}
    write(machine, limits | {f"{at}/memory.limit_in_bytes": str(9223372036854771712)})
    assert free_memory(machine).of == "this machine"
    write(machine, {f"{at}/memory.limit_in_bytes": str(GIB)})
    assert free_memory(machine) == FreeMemory(GIB - 1, GIB, "this container")


def test_a_cgroup_without_limit_leaves_the_machine_to_count(machine):
    at = "sys/fs/cgroup/a.slice"
    stat = {f"{at}/memory.current": "1", f"{at}/memory.stat": "inactive_file 0\n"}
    write(machine, stat | {f"{at}/memory.max": "max\n"})
    assert free_memory(machine).of == "this machine"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems don't say what is free")
def test_this_very_machine_says_something_plausible():
    found = free_memory()
    assert 0 < found.free_bytes <= found.all_bytes


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (999, "999 B"),
        (4_560_000, "4.56 MB"),
        (999_400, "999 kB"),
        (999_600, "1 MB"),
        (999_999_999, "1 GB"),
        (2_340 * 10**12, "2,340 TB"),
    ],
)
def test_a_size_has_three_digits_and_never_an_exponent(size, text):
    assert size_text(size) == text
