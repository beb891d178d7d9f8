"""Memory forecast of a training, checked before anything is created. Imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cloudgan.core import settings
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import nvidia_gpus
from cloudgan.core.memory import FreeMemory, free_memory, in_gib
from cloudgan.models.convolutions import choose_conv_impl
from cloudgan.models.footprint import ERROR, Footprint, footprint
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record import Numerics
from cloudgan.training.cluster import visible_gpus

_GIB = 1 << 30


@dataclass(frozen=True)
class ExpectedMemory:
    """Forecast peak memory of a training on its device, and the available memory.

    Attributes:
        footprint: Of the networks.
        replicas: That share the memory; 0: each replica has its own device.
        processes: That share the memory.
        batch: Showers of each replica.
        available: None: unknown.
    """

    footprint: Footprint
    replicas: int
    processes: int
    batch: int
    available: FreeMemory | None

    @property
    def peak_bytes(self) -> int:
        """Peak of one process, or of one device with a single replica."""
        return self.peak_at(self.batch)

    def peak_at(self, batch: int) -> int:
        """Returns the peak for another batch per replica."""
        if not self.replicas:
            return self.footprint.of_replica(batch)
        return self.footprint.of_process(batch, self.replicas)

    def describe(self) -> str:
        """Returns the forecast as one line of text."""
        line = f"memory: about {self._shown(self.batch)} at a batch of {self.batch}"
        return f"{line}; {self._available_text()}" if self.available else line

    def as_json(self) -> dict[str, Any]:
        """Returns the forecast as JSON."""
        batches = sorted({max(1, self.batch // 2), self.batch, 2 * self.batch})
        return {
            "peak_bytes": self.peak_bytes,
            "relative_error": ERROR,
            "processes": self.processes,
            "peak_bytes_by_batch": {str(batch): self.peak_at(batch) for batch in batches},
            "free_bytes": self.available.free_bytes if self.available else None,
            "largest_batch": self.largest_batch(),
        }

    def largest_batch(self) -> int | None:
        """Returns the largest batch per replica that should fit; 0: none, None: unknown."""
        if self.available is None:
            return None
        fits, fails = 0, 1
        while self._needed(fails) <= self.available.free_bytes:
            fits, fails = fails, 2 * fails
        while fails - fits > 1:
            middle = (fits + fails) // 2
            if self._needed(middle) <= self.available.free_bytes:
                fits = middle
            else:
                fails = middle
        return fits

    def check(self) -> str | None:
        """Returns a warning if the training may not fit.

        Raises:
            ConfigError: It cannot fit.
        """
        if self.available is None or self._needed(self.batch) <= self.available.free_bytes:
            return None
        sentence = f"a batch of {self.batch} per replica takes {self._need_text()}, and {self._available_text()}"
        if self._least() > self.available.free_bytes:
            raise ConfigError(f"{sentence}; {self._remedy()}")
        return f"{sentence}: it may run out of memory; {self._remedy()}"

    def _needed(self, batch: int) -> float:
        return self.processes * self.peak_at(batch) * (1 + ERROR)

    def _least(self) -> float:
        """Lower bound: on an accelerator only what the backward pass needs is certain."""
        if self.replicas:
            return self.processes * self.peak_bytes * (1 - ERROR)
        return self.footprint.weights + self.batch * self.footprint.least

    def _need_text(self) -> str:
        shared = f" in each of {self.processes} processes" if self.processes > 1 else ""
        return f"about {self._shown(self.batch)} of memory at its peak{shared}"

    def _available_text(self) -> str:
        assert self.available  # noqa: S101
        free, total = self.available.free_bytes / _GIB, self.available.all_bytes / _GIB
        return f"{self.available.of} has {free:.1f} GiB free of {total:.1f}"

    def _remedy(self) -> str:
        largest = self.largest_batch()
        if not largest:
            return "a batch of 1 does not fit: free memory, or use another machine"
        return f"the largest batch that fits is {largest}: use --batch={largest} or less"

    def _shown(self, batch: int) -> str:
        return in_gib(self.peak_at(batch))


def expected_memory(config: RunConfig, *, workers: int, processes: int) -> ExpectedMemory | None:
    """Returns the memory forecast for this machine; None on a TPU, which is not measured.

    Args:
        config: The run.
        workers: Processes of the run.
        processes: Of them, those on this machine.

    Raises:
        ConfigError: The replicas do not divide the batch.
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
    """Returns the footprint with the conv_impl that a device (CPU or another) uses."""
    conv_impl = choose_conv_impl(config, device)
    precision = config.training.precision
    if (
        precision == "mixed"
    ):  # a CPU may have to take float32, as `precision.resolve_precision` decides
        precision = "float32" if device == "CPU" else "bfloat16"
    return footprint(config.model, conv_impl=conv_impl, precision=precision)


def expected_peak_bytes(config: RunConfig, numerics: Numerics) -> int:
    """Returns the forecast for the record: of a process on a CPU, else of a device."""
    taken = footprint(config.model, conv_impl=numerics.conv_impl, precision=numerics.precision)
    batch = numerics.global_batch_size // numerics.replicas
    if numerics.device != "CPU":
        return taken.of_replica(batch)
    return taken.of_process(batch, numerics.replicas // numerics.workers)
