"""State of a run of this machine, from the files in its folder and the lock of its process."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any, Literal

from cloudgan.core.clock import parse_time, utc_moment
from cloudgan.core.documents import read_json
from cloudgan.core.errors import ConfigError
from cloudgan.core.file_lock import holder
from cloudgan.launch.operations.run_status import RunStatus, State, age_seconds, read_status
from cloudgan.schema import coevolution, record, search
from cloudgan.schema.cell_line import read_lines
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.schema.config import RunConfig
from cloudgan.schema.grid_states import CELLS
from cloudgan.schema.quality import quality_of
from cloudgan.schema.record import RunRecord
from cloudgan.schema.record_line import StopReason
from cloudgan.schema.run_folder import RunFolder, shown_run
from cloudgan.search.folder import check_extra

_UNSURE = "unsure"
_KILLED = "its process ended without a last line: it was killed, or this machine stopped"
_SEVERAL = "its last process recorded no end; processes of several machines hold no lock here"
_NO_LOCKS = "the file system has no locks, so that it is unknown whether its process runs"
_ENDS: dict[StopReason, tuple[State, str]] = {
    "finished": ("done", ""),
    "reached": ("done", "its validation reached --until"),
    "plateau": ("done", "its validation did not improve any more"),
    "max_steps": ("stopped", "--max-steps is reached"),
    "max_seconds": ("stopped", "--max-seconds is reached"),
    "interrupted": ("stopped", "Ctrl-C stopped it"),
    "terminated": ("stopped", "a signal stopped it, such as SIGTERM"),
    "failed": ("failed", ""),
}


def local_status(folder: RunFolder) -> RunStatus:
    """Returns the state of a training, a grid or a search that this machine runs or ran.

    It runs while a process holds the lock of its folder: the lock ends with the process, however it ends.
    """
    process = holder(folder.lock_file, unsure=_UNSURE)
    found = {"evolve": _grid, "search": _search, "train": _training}[task_of(folder)](folder)
    if process == _UNSURE and found["state"] != "done":
        found |= {"state": "unknown", "reason": _NO_LOCKS}
    elif process and process != _UNSURE:
        found |= {"state": "running", "reason": "", "process": process}
    started = found.get("started_at") or _changed(folder)
    age = max(0.0, (utc_moment() - parse_time(started)).total_seconds()) if started else None
    facts = {
        "run": shown_run(folder.path),
        "folder": str(folder.path),
        "started_at": started,
        "age_seconds": age,
    }
    if found["state"] != "running":
        found |= {"seconds_left": None, "showers_per_second": None}
    return RunStatus(**facts | found)


def task_of(folder: RunFolder) -> Literal["evolve", "search", "train"]:
    """Returns what made the run in a folder."""
    if (folder.path / coevolution.FILE_NAME).exists():
        return "evolve"
    return "search" if (folder.path / search.FILE_NAME).exists() else "train"


def record_facts(lines: RunRecord, config: RunConfig | None) -> dict[str, Any]:
    """Returns what the record of a training says of its progress and quality."""
    epochs = lines.epochs()
    total = config.training.epochs if config else None
    found: dict[str, Any] = {"total": total, "done": lines.finished_epochs()}
    if lines.lines:
        found |= {"started_at": lines.lines[0].time, "step": lines.lines[-1].step}
    if quality := quality_of(lines.validations()):
        found |= {"metric_name": quality.name, "metric": quality.value, "note": str(quality)}
    elif epochs:
        loss = epochs[-1].losses.get("generator", {}).get("total")
        found |= {"metric_name": "loss", "metric": _finite(loss)}
    if epochs:
        last = epochs[-1]
        seconds = last.train_seconds + last.validation_seconds + last.checkpoint_seconds
        if last.complete:
            left = max(0, total - found["done"]) * seconds if total else None
            found |= {"seconds_per_unit": seconds, "seconds_left": left}
        found["showers_per_second"] = last.samples_per_second or None
    return found


def _training(folder: RunFolder) -> dict[str, Any]:
    lines = record.read_if_there(folder.record_file)
    found = record_facts(lines, folder.read_config())
    stopped = lines.stopped()
    if stopped:
        state, reason = _ENDS[stopped.reason]
        found |= {"state": state, "reason": stopped.message or reason}
        if stopped.reason == "finished":
            found["done"] = found["total"]
    elif (begun := lines.started()) and begun.numerics.workers > 1:
        found |= {"state": "unknown", "reason": _SEVERAL}
    elif lines.lines:
        found |= {"state": "failed", "reason": _KILLED}
    else:
        found |= {"state": "unknown", "reason": "no training process has started"}
    return found


def _grid(folder: RunFolder) -> dict[str, Any]:
    config = read_json(folder.path / coevolution.FILE_NAME, CoevolutionConfig)
    status = read_status(folder)
    cells = [read_lines(path) for path in folder.path.glob(f"{CELLS}/*/record.jsonl")]
    lines = [each[-1] for each in cells if each]
    done = min((line.iteration for line in lines), default=0) if len(lines) == config.cells else 0
    scores = [score for line in lines if (score := _finite(line.score)) is not None]
    state: State = "done" if done >= config.iterations else "stopped" if lines else "unknown"
    reason = ""
    if state != "done" and status:
        state = "failed" if status.state == "running" else _ENDS[status.state][0]
        reason = _KILLED if status.state == "running" else ""
    return {
        "task": "evolve",
        "state": state,
        "reason": reason,
        "done": done,
        "total": config.iterations,
        "unit": "iterations",
        "metric_name": "best score" if scores else None,
        "metric": min(scores, default=None),
        "grid": status,
        "grid_age_seconds": age_seconds(status) if status else 0.0,
    }


def _search(folder: RunFolder) -> dict[str, Any]:
    found: dict[str, Any] = {"task": "search", "unit": "trials"}
    try:
        check_extra()
    except ConfigError as error:  # the extra is not installed
        return found | {"state": "unknown", "reason": str(error)}
    from cloudgan.search.study import read_study

    _, config, study = read_study(folder.path)
    over, best = sum(one.state.is_finished() for one in study.trials()), study.best()
    return found | {
        "state": "done" if over >= study.size else "stopped",
        "done": over,
        "total": study.size,
        "metric_name": config.objective if best else None,
        "metric": _finite(best.values[0]) if best else None,
    }


def _changed(folder: RunFolder) -> str | None:
    try:
        seconds = folder.config_file.stat().st_mtime
    except OSError:
        return None
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
