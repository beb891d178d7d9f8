"""How much memory is free, read from files as Linux writes them."""

from __future__ import annotations

import sys

import pytest

from cloudgan.core.memory import FreeMemory, free_memory, size_text

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
