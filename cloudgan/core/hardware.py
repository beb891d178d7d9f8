"""The hardware of a run, as a value in its record."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from cloudgan.core.document import Document
from cloudgan.core.errors import counted

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
    return Hardware(
        processor=_processor(), cores=cores, memory_gib=_memory_gib(), accelerators=accelerators
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


def _processor() -> str:
    if name := _cpu_line("model name"):
        return f"{name} ({platform.machine()})"
    return platform.processor() or platform.machine()


def _cpu_line(*names: str) -> str:
    """Returns a field of the first core in /proc/cpuinfo; empty on other systems."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""
    pairs = (line.partition(":") for line in text.splitlines())
    return next((value.strip() for name, _, value in pairs if name.strip() in names), "")


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None  # Windows has no sysconf
