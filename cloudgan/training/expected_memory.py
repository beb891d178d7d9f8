"""Whether a training will fit into memory, said before anything of it is made. No TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloudgan.core import settings
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import nvidia_gpus
from cloudgan.core.memory import FreeMemory, free_memory, in_gib
from cloudgan.models.footprint import ERROR, Footprint, footprint
from cloudgan.models.formulation import choose_formulation
from cloudgan.training.gpu_share import visible_gpus

if TYPE_CHECKING:
    from cloudgan.core.config import RunConfig
    from cloudgan.core.record import Numerics

_GIB = 1 << 30


@dataclass(frozen=True)
class ExpectedMemory:
    """What a training takes of the device that computes, at its peak, and what is there.

    Attributes:
        footprint: Of its networks.
        replicas: That share that memory; 0: each has a device's own.
        processes: That share it.
        batch: Showers of each replica.
        there: None: nobody says.
    """

    footprint: Footprint
    replicas: int
    processes: int
    batch: int
    there: FreeMemory | None

    @property
    def peak_bytes(self) -> int:
        """Of one process, or of one device that is a replica's own."""
        return self.peak_at(self.batch)

    def peak_at(self, batch: int) -> int:
        """The same for another batch per replica."""
        if not self.replicas:
            return self.footprint.of_replica(batch)
        return self.footprint.of_process(batch, self.replicas)

    def describe(self) -> str:
        """Returns one line for people."""
        others = (2 * self.batch, self.batch // 2)
        beside = ", ".join(f"{self._shown(at)} at {at}" for at in sorted(filter(None, others)))
        whose = "on its processor" if self.replicas else "for each replica"
        line = (
            f"memory {whose}: about {self._shown(self.batch)} at a batch of {self.batch} ({beside})"
        )
        return f"{line}; {self._there()}" if self.there else line

    def facts(self) -> dict[str, Any]:
        """The same for programs."""
        batches = sorted({max(1, self.batch // 2), self.batch, 2 * self.batch})
        return {
            "peak_bytes": self.peak_bytes,
            "relative_error": ERROR,
            "processes": self.processes,
            "peak_bytes_by_batch": {str(batch): self.peak_at(batch) for batch in batches},
            "free_bytes": self.there.free_bytes if self.there else None,
            "largest_batch": self.largest_batch(),
        }

    def largest_batch(self) -> int | None:
        """The largest batch per replica that should fit; 0: none does, None: nobody knows."""
        if self.there is None:
            return None
        fits, fails = 0, 1
        while self._needed(fails) <= self.there.free_bytes:
            fits, fails = fails, 2 * fails
        while fails - fits > 1:
            middle = (fits + fails) // 2
            if self._needed(middle) <= self.there.free_bytes:
                fits = middle
            else:
                fails = middle
        return fits

    def check(self) -> str | None:
        """Returns a warning where it may not fit.

        Raises:
            ConfigError: It will not.
        """
        if self.there is None or self._needed(self.batch) <= self.there.free_bytes:
            return None
        sentence = f"a batch of {self.batch} per replica takes {self._said()}, and {self._there()}"
        if self._least() > self.there.free_bytes:
            raise ConfigError(f"{sentence}; {self._instead()}")
        return f"{sentence}: it may fail for want of memory; {self._instead()}"

    def _needed(self, batch: int) -> float:
        return self.processes * self.peak_at(batch) * (1 + ERROR)

    def _least(self) -> float:
        """On a device that nobody measured only what the backward pass needs is certain."""
        if self.replicas:
            return self.processes * self.peak_bytes * (1 - ERROR)
        return self.footprint.weights + self.batch * self.footprint.least

    def _said(self) -> str:
        shared = f" in each of {self.processes} processes" if self.processes > 1 else ""
        return f"about {self._shown(self.batch)} of memory at its peak{shared}"

    def _there(self) -> str:
        assert self.there  # noqa: S101
        free, total = self.there.free_bytes / _GIB, self.there.all_bytes / _GIB
        return f"{self.there.of} has {free:.1f} GiB free of {total:.1f}"

    def _instead(self) -> str:
        largest = self.largest_batch()
        if not largest:
            return "not even a batch of 1 fits: free some memory, or take another machine"
        return f"the largest batch that fits is {largest}: use --batch={largest} or less"

    def _shown(self, batch: int) -> str:
        return in_gib(self.peak_at(batch))


def expected_memory(config: RunConfig, *, workers: int, processes: int) -> ExpectedMemory | None:
    """Returns what training here will take; None on a TPU, which nobody measured.

    Args:
        config: What is trained.
        workers: Processes of the whole run.
        processes: Of them, those that are started on this machine together.

    Raises:
        ConfigError: Replicas and batch do not fit together.
    """
    if settings.has_tpu():
        return None
    known = nvidia_gpus()
    gpus = visible_gpus() if known else []
    here = config.training.replicas or len(gpus) // processes or 1
    batch = config.global_batch(here * workers) // (here * workers)
    taken = footprint_on(config, "GPU" if gpus else "CPU")
    if not gpus:
        return ExpectedMemory(taken, here, processes, batch, free_memory())
    smallest = min((gpu.memory_gib for gpu in known if gpu.memory_gib), default=None)
    size = round((smallest or 0) * _GIB)
    there = FreeMemory(size, size, "each GPU") if size else None
    return ExpectedMemory(taken, 0, 1, batch, there)


def footprint_on(config: RunConfig, device: str) -> Footprint:
    """Returns what training takes in the form that is chosen for it on a device, CPU or another."""
    formulation = choose_formulation(config, device)
    precision = config.training.precision
    if precision == "mixed":  # a CPU may have to take float32, as `precision.arithmetic` decides
        precision = "float32" if device == "CPU" else "bfloat16"
    return footprint(config.model, formulation=formulation, precision=precision)


def expected_peak_bytes(config: RunConfig, numerics: Numerics) -> int:
    """Returns what a record notes: of a process where its processor computes, else of a device."""
    taken = footprint(config.model, formulation=numerics.formulation, precision=numerics.precision)
    batch = numerics.global_batch_size // numerics.replicas
    if numerics.device != "CPU":
        return taken.of_replica(batch)
    return taken.of_process(batch, numerics.replicas // numerics.workers)
