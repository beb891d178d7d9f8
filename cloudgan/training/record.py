"""The record of a run: its lines, its progress on the screen, and its tracker (`--track`: TensorBoard, MLflow or W&B).

A run that trains alone writes it through its loop, a run with ranks through the master at rank 0.
Workers other than the chief write nothing. Imports no TensorFlow.

The tracker works in a thread of its own: a server that does not answer (MLflow's client tries again for minutes) must not
hold up the training, and one that fails must not end it. Libraries read addresses and keys from the environment
themselves; nothing here reads or writes a key. The calls are those of mlflow 3.18.0 and wandb 0.31.0, read in their wheels
on 2026-11-25:
https://github.com/mlflow/mlflow/blob/v3.18.0/mlflow/tracking/client.py,
https://github.com/wandb/wandb/blob/v0.31.0/wandb/sdk/wandb_init.py,
https://docs.coreweave.com/products/wandb/ref/python/functions/login.
"""

from __future__ import annotations

import ctypes
import hashlib
import time
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from threading import Thread
from typing import Any

from cloudgan.core import settings
from cloudgan.core.clock import parse_time, utc_now
from cloudgan.core.documents import parse_json, read_bytes
from cloudgan.core.errors import CredentialsError, shorten
from cloudgan.core.hardware import peak_memory_bytes
from cloudgan.core.masking import hide, masked
from cloudgan.core.progress import Progress
from cloudgan.data.epoch_sampler import EpochSampler
from cloudgan.data.tfrecord import event, event_file, frame_record, scalars_of
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.quality import epoch_row, quality_note
from cloudgan.schema.record_line import StopReason
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.checkpoint import Checkpoint

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
            count, total = ctypes.c_uint(), 0
            if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) or not count.value:
                return None
            for index in range(count.value):
                device, energy = ctypes.c_void_p(), ctypes.c_ulonglong()
                if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)):
                    return None
                if library.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(energy)):
                    return None  # an older GPU
                total += energy.value
            return total / _PER_JOULE
        finally:
            library.nvmlShutdown()
    except (OSError, AttributeError):  # no driver, or one without this function
        return None


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


_LAST_SECONDS = 10
"""How long the end of a run waits for the tracker; the notice of a spot node is 30 s."""
_KEYS = ("WANDB_API_KEY", "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD")
_PROJECT, _TAG = "cloudgan", "cloudgan.id"
_PARAMS, _PARAM_LENGTH = 100, 6000
"""Limits of MLflow (https://github.com/mlflow/mlflow/blob/v3.18.0/mlflow/utils/validation.py, read 2026-11-25)."""
_STATUS = {"failed": "FAILED", "interrupted": "KILLED", "terminated": "KILLED"}
"""MLflow's status of a run that did not finish."""
_LONGEST = 300


class Tracking:
    """Passes the lines of a run's record to the tracker that its configuration names."""

    def __init__(self, config: RunConfig, folder: RunFolder, say: Callable[[str], None]) -> None:
        """Starts nothing before the first line; `say` receives one line if the tracker fails."""
        self._config, self._folder, self._say = config, folder, say
        self._lines: SimpleQueue[record.Line] = SimpleQueue()
        self._thread: Thread | None = None
        self._problem, self._has_ended = "", False

    def write(self, line: record.Line) -> None:
        """Tracks a line of the record; the last one waits until all are tracked."""
        name = self._config.training.track
        if name == "none" or self._has_ended:
            return
        if self._thread is None:
            self._thread = Thread(target=self._work, name=name, daemon=True)
            self._thread.start()
        self._lines.put(line)
        if isinstance(line, record.Stopped):
            self._thread.join(_LAST_SECONDS)
            if self._thread.is_alive():
                self._problem = f"no answer within {_LAST_SECONDS} s"
        if self._problem:
            self._has_ended = True
            self._say(f"--track={name} ended, the training goes on: {self._problem}")

    def _work(self) -> None:
        try:
            for key in _KEYS:
                hide(settings.variable(key) or "")
            tracker = _TRACKERS[self._config.training.track](self._config, self._folder)
            while True:
                line = self._lines.get()
                if values := scalars_of(line) | self._end_of(line):
                    tracker.log(line, values)
                if isinstance(line, record.Stopped):
                    tracker.end(line.reason)
                    return
        # Whatever a library of others raises, the training goes on.
        except Exception as error:  # noqa: BLE001
            said = " ".join(f"{error}".split()) or type(error).__name__
            self._problem = shorten(masked(said), _LONGEST)

    def _end_of(self, line: record.Line) -> dict[str, float]:
        if not isinstance(line, record.Stopped):
            return {}
        found = {
            "train_seconds": line.train_seconds,
            "program_seconds": line.program_seconds,
            "peak_memory_bytes": line.peak_memory_bytes,
            "gpu_joules": line.gpu_joules,
            "verdict_passed": self._verdict(line.step),
        }
        return {f"end/{name}": float(value) for name, value in found.items() if value is not None}

    def _verdict(self, step: int) -> bool | None:
        """Returns whether the generator after `step` passed `cloudgan validate`; None: unknown."""
        path = self._folder.verdict_file
        found = parse_json(read_bytes(path), str(path)) if path.exists() else None
        if not isinstance(found, dict) or found.get("step") != step:
            return None
        return found.get("verdict", {}).get("passed")


class _TensorBoard:
    """Event files in the folder of the run, one per process, as TensorBoard reads them by name."""

    def __init__(self, config: RunConfig, folder: RunFolder) -> None:  # noqa: ARG002 -- as the others
        events = folder.path / "tensorboard"
        events.mkdir(parents=True, exist_ok=True)
        number = len(list(events.glob("events.*")))
        self._path = events / f"events.out.tfevents.{number:09d}.cloudgan"
        self._path.write_bytes(event_file(()))

    def log(self, line: record.Line, values: Mapping[str, float]) -> None:
        with self._path.open("ab") as file:
            file.write(frame_record(event(line, values)))

    def end(self, reason: StopReason) -> None:
        """Nothing is open."""


class _MLflow:
    """A run of MLflow's server, found again by a tag: the server itself chooses the ids of runs."""

    def __init__(self, config: RunConfig, folder: RunFolder) -> None:
        import mlflow  # noqa: PLC0415 -- only where it is asked for

        self._mlflow = mlflow
        self._client = mlflow.MlflowClient()
        named = settings.variable("MLFLOW_EXPERIMENT_NAME") or _PROJECT
        experiment = mlflow.set_experiment(named).experiment_id
        own = _id_of(folder)
        earlier = self._client.search_runs([experiment], f"tags.`{_TAG}` = '{own}'")
        if earlier:
            self._run = earlier[0].info.run_id
            self._client.update_run(self._run, status="RUNNING")
            return  # a parameter cannot be changed
        made = self._client.create_run(experiment, run_name=config.name, tags={_TAG: own})
        self._run = made.info.run_id
        flat = _flat(config.model_dump(mode="json"))
        params = [
            mlflow.entities.Param(key, f"{value}"[:_PARAM_LENGTH]) for key, value in flat.items()
        ]
        for first in range(0, len(params), _PARAMS):
            self._client.log_batch(self._run, params=params[first : first + _PARAMS])

    def log(self, line: record.Line, values: Mapping[str, float]) -> None:
        moment = int(1000 * parse_time(line.time).timestamp())
        make = self._mlflow.entities.Metric
        metrics = [make(name, value, moment, line.step) for name, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def end(self, reason: StopReason) -> None:
        self._client.set_terminated(self._run, _STATUS.get(reason, "FINISHED"))


class _Wandb:
    """A run of Weights & Biases, with an id of our own."""

    def __init__(self, config: RunConfig, folder: RunFolder) -> None:
        import wandb  # noqa: PLC0415 -- only where it is asked for

        is_offline = settings.variable("WANDB_MODE") in {"offline", "disabled"}
        # Without a key `init` would ask for one on the terminal, and write it into ~/.netrc.
        if not is_offline and not wandb.login(prompt=False):
            raise CredentialsError("W&B knows no key; set WANDB_API_KEY, or WANDB_MODE=offline")
        self._run = wandb.init(
            project=settings.variable("WANDB_PROJECT") or _PROJECT,
            id=_id_of(folder),
            name=config.name,
            config=_flat(config.model_dump(mode="json")),
            allow_val_change=True,
            dir=str(folder.path),
            resume="allow",
            # W&B neither reads what the program prints nor keeps its end waiting.
            settings={"console": "off", "silent": True, "finish_timeout": _LAST_SECONDS},
        )
        # W&B drops values of its own step below the last one, which a resumed run can repeat.
        self._run.define_metric("*", step_metric="step")

    def log(self, line: record.Line, values: Mapping[str, float]) -> None:
        self._run.log({"step": line.step, **values})

    def end(self, reason: StopReason) -> None:
        self._run.finish(exit_code=int(reason in _STATUS))


_TRACKERS: dict[str, type[_TensorBoard | _MLflow | _Wandb]] = {
    "tensorboard": _TensorBoard,
    "mlflow": _MLflow,
    "wandb": _Wandb,
}


def _id_of(folder: RunFolder) -> str:
    """Returns the id of a run, from the first start in its record: the same after each resume."""
    lines = record.read_if_whole(folder.record_file).lines
    first = next(line for line in lines if isinstance(line, record.Started))
    # The seconds tell runs apart that began together, as those of a search do.
    text = f"{first.config_hash} {first.time} {first.startup_seconds}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _flat(found: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Returns the values of a document by dotted key, such as ``training.epochs``; unset ones are left out."""
    flat: dict[str, Any] = {}
    for key, value in found.items():
        name = f"{before}{key}"
        if isinstance(value, dict):
            flat |= _flat(value, f"{name}.")
        elif value not in (None, "", []):
            flat[name] = value
    return flat
