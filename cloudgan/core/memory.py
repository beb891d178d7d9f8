"""Memory that is available to a process: of the machine, or of its container."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cloudgan.core.errors import number_text

_UNLIMITED = 1 << 60
"""Cgroups v1 write "no limit" as the largest whole number of pages."""


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
    except OSError:
        yield from _without_proc()
        return
    kibibytes = {line.split(":")[0]: int(line.split()[1]) for line in lines if ":" in line}
    if {"MemAvailable", "MemTotal"} <= kibibytes.keys():
        free, total = kibibytes["MemAvailable"] << 10, kibibytes["MemTotal"] << 10
        yield FreeMemory(free, total, "this machine")


def _without_proc() -> Iterator[FreeMemory]:
    """Systems without /proc report the installed memory only."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return
    yield FreeMemory(total, total, "this machine")


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
        names = _NAMES[1 if version_1 else 2]
        own = top / path.lstrip("/")
        for folder in (own, *(up for up in own.parents if up.is_relative_to(top))):
            yield from _cgroup(folder, *names)


_NAMES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}


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
