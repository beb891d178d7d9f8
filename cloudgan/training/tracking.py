"""Sends a run to an experiment tracker, `--track`: TensorBoard, MLflow or Weights & Biases.

The tracker receives what the chief writes to the record. It works in a thread of its own: a server that does not answer
(MLflow's client tries again for minutes) must not hold up the training, and one that fails must not end it.
Libraries read addresses and keys from the environment themselves; nothing here reads or writes a key.

The calls are those of mlflow 3.18.0 and wandb 0.31.0, read in their wheels on 2026-11-25:
https://github.com/mlflow/mlflow/blob/v3.18.0/mlflow/tracking/client.py,
https://github.com/wandb/wandb/blob/v0.31.0/wandb/sdk/wandb_init.py,
https://docs.coreweave.com/products/wandb/ref/python/functions/login.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from threading import Thread
from typing import Any

from cloudgan.core import settings
from cloudgan.core.clock import parse_time
from cloudgan.core.documents import parse_json, read_bytes
from cloudgan.core.errors import CredentialsError, shorten
from cloudgan.core.masking import hide, masked
from cloudgan.data.event_file import event, event_file, scalars_of
from cloudgan.data.tfrecord import frame_record
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record_line import StopReason
from cloudgan.schema.run_folder import RunFolder

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
