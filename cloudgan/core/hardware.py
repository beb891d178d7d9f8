"""The hardware of a run, as a value in its record, and the memory that is available to a process."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cloudgan.core.document import Document
from cloudgan.core.errors import counted, number_text

_UNLIMITED = 1 << 60
"""Cgroups v1 write "no limit" as the largest whole number of pages."""
_CGROUP_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
_BFLOAT16 = frozenset({"avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16"})


class Accelerator(Document):
    """One kind of accelerator in a machine."""

    name: str
    count: int
    memory_gib: float | None = None


class Hardware(Document):
    """A machine: processor, memory and accelerators; None is unknown."""

    processor: str
    cores: int
    memory_gib: float | None
    accelerators: tuple[Accelerator, ...] = ()

    def describe(self) -> str:
        """Returns a one-line description."""
        found = ", ".join(f"{a.count} x {a.name}" for a in self.accelerators)
        memory = f"{self.memory_gib:.0f} GiB" if self.memory_gib else "unknown memory"
        return (
            found + " on " if found else ""
        ) + f"{counted(self.cores, 'core')} of {self.processor}, {memory}"


def this_machine(accelerators: tuple[Accelerator, ...] = ()) -> Hardware:
    """Returns this machine's processor and memory with the given accelerators."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else (os.cpu_count() or 1)
    name, memory = _cpu_line("model name"), _installed_bytes()
    processor = f"{name} ({platform.machine()})" if name else platform.processor()
    return Hardware(
        processor=processor or platform.machine(),
        cores=cores,
        memory_gib=None if memory is None else round(memory / 2**30, 1),
        accelerators=accelerators,
    )


def cpu_features() -> frozenset[str]:
    """Returns the CPU flags of /proc/cpuinfo; empty on other systems."""
    return frozenset(_cpu_line("flags", "Features").split())


def has_bfloat16(features: frozenset[str]) -> bool:
    """Whether a CPU with these flags has bfloat16 arithmetic."""
    return bool(features & _BFLOAT16)


def nvidia_gpus() -> tuple[Accelerator, ...]:
    """Returns the GPUs that nvidia-smi lists, one entry each, in its order; empty without a driver."""
    command = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ()
    rows = (line.rpartition(",") for line in done.stdout.splitlines() if "," in line)
    return tuple(
        Accelerator(name=name.strip(), count=1, memory_gib=_gib(mebibytes))
        for name, _, mebibytes in rows
    )


def _gib(mebibytes: str) -> float | None:
    try:
        return round(float(mebibytes) / 1024, 1)
    except ValueError:
        return None  # "[N/A]" where the memory is the host's


def _cpu_line(*names: str) -> str:
    """Returns a field of the first core in /proc/cpuinfo; empty on other systems."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""
    pairs = (line.partition(":") for line in text.splitlines())
    return next((value.strip() for name, _, value in pairs if name.strip() in names), "")


def _installed_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None  # Windows has no sysconf


@dataclass(frozen=True)
class FreeMemory:
    """Available memory.

    Attributes:
        free_bytes: Unused, including reclaimable file caches.
        all_bytes: Used and unused.
        of: Owner, such as ``this machine``.
    """

    free_bytes: int
    all_bytes: int
    of: str


def free_memory(root: Path = Path("/")) -> FreeMemory | None:
    """Returns the smaller of machine and cgroup limits; None: unknown. `root` has proc and sys."""
    found = [*_machine(root), *_cgroups(root)]
    return min(found, key=lambda one: one.free_bytes, default=None)


def _machine(root: Path) -> Iterator[FreeMemory]:
    try:
        lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:  # systems without /proc report the installed memory only
        total = _installed_bytes()
        if total is not None:
            yield FreeMemory(total, total, "this machine")
        return
    kibibytes = {line.split(":")[0]: int(line.split()[1]) for line in lines if ":" in line}
    if {"MemAvailable", "MemTotal"} <= kibibytes.keys():
        free, total = kibibytes["MemAvailable"] << 10, kibibytes["MemTotal"] << 10
        yield FreeMemory(free, total, "this machine")


def _cgroups(root: Path) -> Iterator[FreeMemory]:
    """Yields the limits of this process' cgroup and of its visible parents."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        version_1 = "memory" in controllers.split(",")
        if controllers and not version_1:
            continue
        top = root / ("sys/fs/cgroup/memory" if version_1 else "sys/fs/cgroup")
        names = _CGROUP_FILES[1 if version_1 else 2]
        own = top / path.lstrip("/")
        for folder in (own, *(up for up in own.parents if up.is_relative_to(top))):
            yield from _cgroup(folder, *names)


def _cgroup(folder: Path, limit: str, usage: str, cache: str) -> Iterator[FreeMemory]:
    try:
        most, used = (_number(folder / name) for name in (limit, usage))
        statistics = dict(
            line.split(" ", 1)
            for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines()
        )
    except OSError:
        return
    if most < _UNLIMITED:
        given_back = int(statistics.get(cache, 0))
        yield FreeMemory(max(0, most - used + given_back), most, "this container")


def _number(file: Path) -> int:
    text = file.read_text(encoding="ascii").strip()
    return _UNLIMITED if text == "max" else int(text)


def in_gib(size_bytes: float) -> str:
    """Formats a size, such as `2.0 GiB` or `230 GiB`."""
    gib = size_bytes / (1 << 30)
    return f"{gib:.0f} GiB" if gib >= 10 else f"{gib:.1f} GiB"  # noqa: PLR2004


def peak_memory_bytes() -> int | None:
    """Returns the peak resident memory of this process; None: unknown on this system."""
    return _of_process("VmHWM:")


def resident_memory_bytes() -> int | None:
    """Returns the resident memory of this process; None: unknown on this system."""
    return _of_process("VmRSS:")


def _of_process(name: str) -> int | None:
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    kibibytes = (line.split()[1] for line in text.splitlines() if line.startswith(name))
    return next((int(number) << 10 for number in kibibytes), None)


def size_text(size_bytes: float) -> str:
    """Returns a size with three digits and a decimal unit, as disks have them: ``4.56 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 999.5:  # noqa: PLR2004 -- above, three digits of it are 1000 of this unit
            return f"{size_bytes:.3g} {unit}"
        size_bytes /= 1000
    return f"{number_text(size_bytes)} TB"
