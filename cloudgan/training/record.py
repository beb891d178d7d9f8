"""The record of a run: its lines, its progress on the screen, and its tracker.

A run that trains alone writes it through its loop, a run with ranks through the master at rank 0.
Workers other than the chief write nothing. Imports no TensorFlow.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

from cloudgan.core.clock import utc_now
from cloudgan.core.hardware import peak_memory_bytes
from cloudgan.core.progress import Progress
from cloudgan.data.epoch_sampler import EpochSampler
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.quality import epoch_row, quality_note
from cloudgan.schema.record_line import StopReason
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.checkpoint import Checkpoint
from cloudgan.training.tracking import Tracking

_LIBRARY = "libnvidia-ml.so.1"
_PER_JOULE = 1000


def gpu_joules(load: Callable[[str], Any] = ctypes.CDLL) -> float | None:
    """Returns the energy of all GPUs of this machine since their driver was loaded; None: unknown.

    nvmlDeviceGetTotalEnergyConsumption counts millijoules, on Volta and later GPUs
    (https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html, read 2026-11-22). `load` loads a shared
    library by name; it raises OSError if it is missing.
    """
    try:
        library = load(_LIBRARY)
        if library.nvmlInit_v2():
            return None
        try:
            return _total(library)
        finally:
            library.nvmlShutdown()
    except (OSError, AttributeError):  # no driver, or one without this function
        return None


def _total(library: Any) -> float | None:
    count = ctypes.c_uint()
    if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) or not count.value:
        return None
    total = 0
    for index in range(count.value):
        device, energy = ctypes.c_void_p(), ctypes.c_ulonglong()
        if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)):
            return None
        if library.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(energy)):
            return None  # an older GPU
        total += energy.value
    return total / _PER_JOULE


class Recorder:
    """Writes the lines of one process of a run; a run with ranks counts no energy."""

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        sampler: EpochSampler,
        progress: Progress,
        *,
        start_time: float,
        writes: bool = True,
        counts_energy: bool = True,
    ) -> None:
        """Writes nothing yet; `start_time` is `time.perf_counter()` at the start of the program."""
        self._config, self._folder, self._sampler = config, folder, sampler
        self._progress, self._start_time, self._writes = progress, start_time, writes
        self._joules_before = gpu_joules() if counts_energy else None
        self._tracking = Tracking(config, folder, progress.say)

    def write(self, line: record.Line) -> None:
        """Appends a line to the record, and tracks it."""
        if self._writes:
            record.append(self._folder.record_file, line)
            self._tracking.write(line)

    def start(
        self, started: record.Started, saved: Checkpoint | None, changes: tuple[str, ...] = ()
    ) -> None:
        """Records the start of this process, whose seconds are set here, and the checkpoint from which it resumes.

        `changes` are what makes the bits differ from here.
        """
        seconds = time.perf_counter() - self._start_time
        self.write(started.model_copy(update={"startup_seconds": seconds}))
        if not saved:
            return
        step, path = saved.state.step, saved.path
        self.write(
            record.Resumed(
                time=utc_now(), step=step, path=str(path), reproducibility_changes=changes
            )
        )
        self._progress.say(f"resumes after step {step} ({path})")

    def show_epoch(self, step: int, last_step: int) -> None:
        """Shows the progress of the run in the epoch of the next step, if it has one left."""
        training, sampler = self._config.training, self._sampler
        epoch, batch = sampler.epoch_of(step), sampler.global_batch_size
        if epoch >= training.epochs:
            return
        limited = training.max_steps or training.max_seconds
        self._progress.start(
            self._folder.path.name,
            None if training.max_seconds else last_step * batch,
            "showers",
            done=step * batch,
            count=f"epoch {epoch + 1}" if limited else f"{epoch + 1}/{training.epochs}",
        )

    def epoch_line(
        self, step: int, epoch: int, steps: int, *, is_whole: bool, **measured: Any
    ) -> record.Epoch:
        """Returns the line of an epoch, or of a part of it, with the `steps` of this process.

        `is_whole`: this process has trained the epoch from its first step. `measured` are other fields of the line.
        """
        sampler = self._sampler
        ended = step >= sampler.steps_through(epoch)
        return record.Epoch(
            time=utc_now(),
            step=step,
            epoch=epoch,
            complete=ended and is_whole,
            steps=steps,
            samples=steps * sampler.global_batch_size,
            carried_samples=sampler.samples_carried(epoch) if ended else 0,
            dropped_samples=sampler.samples_dropped_per_epoch if ended else 0,
            **measured,
        )

    def finish_epoch(self, line: record.Epoch, validated: record.Validated | None = None) -> None:
        """Writes and shows the line of an epoch; `validated` is shown in its row."""
        self.write(line)
        self._progress.say(epoch_row(line, validated))

    def show_validation(self, line: record.Validated) -> None:
        """Shows a validation that has no row of its epoch."""
        self._progress.say(f"epoch {line.epoch + 1:>2}  {quality_note(line)}")

    def checkpointed(self, line: record.Checkpointed, problem: str | None) -> None:
        """Records a checkpoint, once it is copied or `problem` says why not."""
        if problem:
            self._progress.say(
                f"checkpoint saved locally but not copied: {problem}; retried with the next one"
            )
        copied = problem is None if self._config.checkpoint.url else None
        self.write(line.model_copy(update={"copied": copied, "time": utc_now()}))

    def stop(
        self,
        step: int,
        reason: StopReason,
        train_seconds: float,
        message: str = "",
        *,
        peak_elsewhere: int = 0,
    ) -> None:
        """Records the end, and shows the reason unless it is a failure, which is shown as an error.

        `peak_elsewhere` is the peak memory in bytes of the largest other rank.
        """
        self._progress.end()
        if message and reason != "failed":
            self._progress.say(message)
        before, joules = self._joules_before, gpu_joules()
        self.write(
            record.Stopped(
                time=utc_now(),
                step=step,
                reason=reason,
                program_seconds=time.perf_counter() - self._start_time,
                train_seconds=train_seconds,
                message=message,
                peak_memory_bytes=max(peak_memory_bytes() or 0, peak_elsewhere) or None,
                gpu_joules=None if before is None or joules is None else max(0.0, joules - before),
            )
        )
