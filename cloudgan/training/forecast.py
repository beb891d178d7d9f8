"""What a training will do, how long it takes here once steps are measured, and how much memory.

The memory is checked before anything is created. Imports no TensorFlow.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from cloudgan.core import settings
from cloudgan.core.document import Document
from cloudgan.core.durations import format_duration
from cloudgan.core.errors import ConfigError, counted
from cloudgan.core.hardware import FreeMemory, free_memory, in_gib, nvidia_gpus
from cloudgan.data.held_out import held_out_every
from cloudgan.gan.convolutions import choose_conv_impl
from cloudgan.gan.footprint import ERROR, Footprint, footprint
from cloudgan.schema.config import RunConfig
from cloudgan.schema.presets import PROFILES
from cloudgan.schema.record import Numerics
from cloudgan.training.cluster import visible_gpus

SMALLER = "mini"
_LONG_SECONDS = 3600
_GIB = 1 << 30


def describe_work(config: RunConfig, showers: int) -> str:
    """Returns such as ``mini, 20 epochs of 540 showers``, where it trains on `showers`."""
    training = config.training
    limits = [counted(training.max_steps, "step")] if training.max_steps else []
    limits += [format_duration(training.max_seconds)] if training.max_seconds else []
    work = (
        f"at most {' or '.join(limits)} on" if limits else f"{counted(training.epochs, 'epoch')} of"
    )
    return f"{config.model.preset}, {work} {counted(showers, 'shower')}"


def training_share(config: RunConfig, showers: int) -> int:
    """Returns how many of a run's showers it trains on."""
    every, fold = held_out_every(config.data.held_out_fraction, showers), config.data.fold
    first = every - 1 if fold is None else fold
    return showers - (showers + every - 1 - first) // every


def time_notice(config: RunConfig, seconds: float, device: str) -> list[str]:
    """Returns the lines about a training that takes `seconds` more on `device`.

    Where it takes hours they name the smaller preset, with its time if the ratio is measured.
    """
    lines = [f"about {_about(seconds)} on this machine"]
    own, smaller = PROFILES.get(config.model.network_name), PROFILES[SMALLER]
    if seconds < _LONG_SECONDS or own is None or own.cpu_rate >= smaller.cpu_rate:
        return lines
    if device != "CPU":
        return [*lines, f"--preset={SMALLER} is smaller: {smaller.summary}"]
    faster = _about(seconds * own.cpu_rate / smaller.cpu_rate)
    return [*lines, f"--preset={SMALLER} takes about {faster}"]


def _about(seconds: float) -> str:
    """Returns two digits of a time: the first steps do not know it better."""
    seconds = max(1.0, seconds)
    size, unit = next(
        (size, unit)
        for size, unit in ((3600, "h"), (60, "min"), (1, "s"))
        if seconds >= 2 * size or size == 1
    )
    return f"{float(f'{seconds / size:.2g}'):g} {unit}"


class MemoryForecast(Document):
    """Memory that the training was expected to take on its device."""

    peak_bytes: int
    relative_error: float
    processes: int
    peak_bytes_by_batch: dict[int, int]
    free_bytes: int | None = Field(description="null: unknown")
    largest_batch: int | None = Field(description="per replica; 0: none fits, null: unknown")


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
        line = f"memory: about {in_gib(self.peak_bytes)} at a batch of {self.batch}"
        return f"{line}; {self._free()}" if self.available else line

    def forecast(self) -> MemoryForecast:
        """Returns the numbers for this batch, half and twice of it."""
        batches = sorted({max(1, self.batch // 2), self.batch, 2 * self.batch})
        return MemoryForecast(
            peak_bytes=self.peak_bytes,
            relative_error=ERROR,
            processes=self.processes,
            peak_bytes_by_batch={batch: self.peak_at(batch) for batch in batches},
            free_bytes=self.available.free_bytes if self.available else None,
            largest_batch=self.largest_batch(),
        )

    def largest_batch(self) -> int | None:
        """Returns the largest batch per replica that should fit; 0: none, None: unknown."""
        if self.available is None:
            return None
        fits, fails = 0, 1
        while self._fits(fails):
            fits, fails = fails, 2 * fails
        while fails - fits > 1:
            middle = (fits + fails) // 2
            fits, fails = (middle, fails) if self._fits(middle) else (fits, middle)
        return fits

    def check(self) -> str | None:
        """Returns a warning if the training may not fit."""
        if self.available is None or self._fits(self.batch):
            return None
        shared = f" in each of {self.processes} processes" if self.processes > 1 else ""
        sentence = (
            f"a batch of {self.batch} per replica takes about {in_gib(self.peak_bytes)} of memory at"
            f" its peak{shared}, and {self._free()}"
        )
        largest = self.largest_batch()
        remedy = (
            f"the largest batch that fits is {largest}: use --batch={largest} or less"
            if largest
            else "a batch of 1 does not fit: free memory, or use another machine"
        )
        # On an accelerator only what the backward pass needs is certain.
        least = self.footprint.weights + self.batch * self.footprint.least
        if self.replicas:
            least = round(self.processes * self.peak_bytes * (1 - ERROR))
        if least > self.available.free_bytes:
            raise ConfigError(f"{sentence}; {remedy}")
        return f"{sentence}: it may run out of memory; {remedy}"

    def _fits(self, batch: int) -> bool:
        assert self.available  # noqa: S101 -- only called with one
        return self.processes * self.peak_at(batch) * (1 + ERROR) <= self.available.free_bytes

    def _free(self) -> str:
        assert self.available  # noqa: S101
        free, total = self.available.free_bytes / _GIB, self.available.all_bytes / _GIB
        return f"{self.available.of} has {free:.1f} GiB free of {total:.1f}"


def expected_memory(config: RunConfig, *, workers: int, processes: int) -> ExpectedMemory | None:
    """Returns the memory forecast for this machine; None on a TPU, which is not measured.

    Of the `workers` processes of the run `processes` are on this machine.
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
    precision = config.training.precision
    if precision == "mixed":  # a CPU may have to take float32, as `resolve_precision` decides
        precision = "float32" if device == "CPU" else "bfloat16"
    conv_impl = choose_conv_impl(config, device)
    return footprint(config.model, conv_impl=conv_impl, precision=precision)


def expected_peak_bytes(config: RunConfig, numerics: Numerics) -> int:
    """Returns the forecast for the record: of a process on a CPU, else of a device."""
    taken = footprint(config.model, conv_impl=numerics.conv_impl, precision=numerics.precision)
    batch = numerics.global_batch_size // numerics.replicas
    if numerics.device != "CPU":
        return taken.of_replica(batch)
    return taken.of_process(batch, numerics.replicas // numerics.workers)
