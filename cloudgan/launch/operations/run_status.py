"""State of a run, on this machine or launched: the result of `status`, for one run and for all of a folder.

That of a run of this machine follows from the files in its folder and the lock of its process.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field

from cloudgan.core.clock import parse_time, utc_moment
from cloudgan.core.documents import read_json
from cloudgan.core.durations import format_duration, short_duration
from cloudgan.core.errors import ConfigError, counted
from cloudgan.core.file_lock import holder
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Cell, Number, Table, usd_range
from cloudgan.schema import coevolution, record, search
from cloudgan.schema.coevolution import (
    CELLS,
    STATUS_FILE,
    CoevolutionConfig,
    GridStatus,
    read_lines,
)
from cloudgan.schema.config import RunConfig
from cloudgan.schema.cost_report import least
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.schema.launch import THIS_MACHINE
from cloudgan.schema.quality import quality_of
from cloudgan.schema.record import RunRecord
from cloudgan.schema.record_line import StopReason
from cloudgan.schema.run_folder import RunFolder, shown_run
from cloudgan.schema.run_state import Phase, RunState
from cloudgan.search.folder import check_extra

State = Literal["done", "stopped", "running", "waiting", "failed", "unknown"]
SIGNS: dict[State, str] = {
    "done": "✓",
    "stopped": "■",
    "running": "●",
    "waiting": "○",
    "failed": "✗",
    "unknown": "?",
}
_HEADS = ("run", "state", "where", "progress", "loss/metric", "USD", "age")
_CENT = 0.01
_MIB = 2**20
_MARKS = {"inactive": ".", "processing": "o", "finished": "#"}
_CELL_HEADS = (
    "cell",
    "rank",
    "host",
    "state",
    "iteration",
    "fitness",
    "score",
    "MiB",
    "silent (s)",
)


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
_WITHOUT_NODES = ("local", "slurm")
"""Providers where a run has nothing but its job."""


class RunStatus(Result):
    """State of a run; None is unknown."""

    run: str
    folder: str | None = Field(description="on this machine; None: another folder launched it")
    task: Literal["train", "evolve", "search", "simulate", "join"] = "train"
    state: State
    reason: str = Field("", description="why it is in this state")
    provider: str = "local"
    where: str = THIS_MACHINE
    process: str | None = Field(None, description="id of the process on this machine")
    done: int | None = Field(None, description="finished epochs, iterations, trials or showers")
    total: int | None = None
    unit: str = "epochs"
    step: int | None = None
    metric_name: str | None = None
    metric: float | None = Field(
        None, description="newest number of the validation, or the loss of the generator"
    )
    note: str = Field("", description="newest and best number of the validation")
    seconds_per_unit: float | None = None
    seconds_left: float | None = Field(None, description="of a running run")
    showers_per_second: float | None = Field(None, description="while it trains")
    usd: float | None = Field(None, description="known cost until now")
    usd_unknown: tuple[str, ...] = Field((), description="what usd lacks")
    usd_per_hour: float | None = Field(None, description="of the nodes that run now")
    usd_at_end: float | None = Field(None, description="known cost, if it ends as it goes on now")
    usd_planned: tuple[float, float] | None = Field(
        None, description="that of its plan, low and high"
    )
    budget: str | None = Field(None, description="warning that a large share is spent")
    deadline_seconds: int | None = None
    started_at: str | None = None
    age_seconds: float | None = Field(None, description="since its first start")
    phase: Phase | None = Field(None, description="of a launched run")
    job: RunState | None = Field(None, description="of a launched run, as its backend reports it")
    heartbeat: Heartbeat | None = None
    grid: GridStatus | None = Field(
        None, description="cells that are ranks, as their master wrote last"
    )
    grid_age_seconds: float = 0.0

    @property
    def progress(self) -> str | None:
        """Such as ``6/20 epochs``."""
        if self.done is None:
            return None
        return f"{self.done:,}{f'/{self.total:,}' if self.total else ''} {self.unit}"

    def row(self) -> tuple[Cell, ...]:
        """Returns the cells of the run in the table of all runs."""
        return (
            self.run,
            f"{SIGNS[self.state]} {self.state}",
            self.where,
            self.progress or "-",
            Number(self.metric, "-" if self.metric is None else f"{self.metric:.3g}"),
            Number(self.usd, _usd_text(self.usd)),
            Number(
                self.age_seconds,
                "-" if self.age_seconds is None else short_duration(self.age_seconds),
            ),
        )

    def view(self) -> View:
        """Returns one screen."""
        state = f"{SIGNS[self.state]} {self.state}"
        line = ", ".join(filter(None, (f"{self.run}: {state}", self.progress, f"on {self.where}")))
        table = None
        if self.grid:
            table = grid_table(self.grid, self.grid_age_seconds)
        elif self.job and self.job.workers:
            table = _workers(self.job)
        warnings = [self.budget] if self.budget else []
        if self.heartbeat and self.heartbeat.damaged_checkpoints:
            steps = ", ".join(map(str, self.heartbeat.damaged_checkpoints))
            warnings.append(f"damaged checkpoints, not used: step {steps}")
        return View(
            line,
            table,
            notes=tuple(self._notes()),
            warnings=tuple(warnings),
            commands=tuple(self._commands()),
            basis=tuple(
                f"{what} {known}"
                for what, known in (
                    ("USD: unknown are", ", ".join(self.usd_unknown)),
                    ("folder", self.folder),
                )
                if known
            ),
        )

    def _notes(self) -> Iterator[str]:
        if self.reason:
            yield self.reason
        if self.process:
            yield f"process {self.process} on this machine; Ctrl-C in its terminal stops it"
        quality = self.note or (
            f"{self.metric_name} {self.metric:.4g}" if self.metric is not None else ""
        )
        parts = (f"step {self.step:,}" if self.step else "", quality)
        if any(parts):
            yield ", ".join(filter(None, parts))
        one = self.unit.removesuffix("s")
        pace = (
            f"{format_duration(self.seconds_per_unit)} per {one}" if self.seconds_per_unit else "",
            f"{format_duration(self.seconds_left)} left" if self.seconds_left else "",
        )
        if self.state == "running" and any(pace):
            yield ", ".join(filter(None, pace))
        if self.usd is not None:
            end = f", {self.usd_at_end:.2f} at the end" if self.usd_at_end is not None else ""
            plan = f", planned {usd_range(*self.usd_planned)}" if self.usd_planned else ""
            yield f"{least(self.usd_unknown)}{_usd_text(self.usd)} USD so far{end}{plan}"
        if self.heartbeat and self.heartbeat.restarts:
            yield f"{counted(self.heartbeat.restarts, 'restart')} without a newer checkpoint"
        if self.grid:
            yield from grid_lines(self.grid, self.grid_age_seconds)

    def _commands(self) -> Iterator[tuple[str, str]]:
        if self.phase is not None:
            if self.heartbeat or (self.job and self.job.workers):
                yield f"cloudgan logs {self.run}", "prints what its workers printed"
            if self.state in ("running", "waiting"):
                yield f"cloudgan cancel {self.run}", "stops it after a checkpoint"
                return
            if self.state == "done":
                yield f"cloudgan cost {self.run}", "shows what the cost is made of"
            # Of a cloud the nodes may outlive the job.
            if not (self.provider in _WITHOUT_NODES and self.job and self.job.phase == "absent"):
                yield f"cloudgan down {self.run}", "deletes its resources"
            return
        again = {
            "train": f"cloudgan train --run={self.folder}",
            "evolve": f"cloudgan evolve --run={self.folder}",
            "search": f"cloudgan search {self.folder}",
        }
        if self.state in ("stopped", "failed") and self.task in again:
            yield again[self.task], "continues it"
        elif self.state == "done" and self.task == "train":
            yield f"cloudgan validate {self.run}", "compares it with Monte Carlo"
            yield f"cloudgan generate {self.run} showers.h5", "writes showers"


class RunList(Result):
    """All runs of a folder and of its clusters and clouds."""

    runs: tuple[RunStatus, ...]
    warnings: tuple[str, ...] = Field((), description="what could not be asked")

    def table(self) -> Table:
        """Returns a row per run."""
        rows = tuple(one.row() for one in self.runs)
        return Table(_HEADS, rows, "", "llllrrr", priority="0043125")

    def view(self) -> View:
        """Returns the table of all runs."""
        if not self.runs:
            return View(
                "no run in runs/",
                warnings=self.warnings,
                commands=(
                    ("cloudgan train showers.h5", "trains on this machine"),
                    ("cloudgan deploy --help", "launches a run elsewhere"),
                ),
            )
        counted = Counter(one.state for one in self.runs)
        states = ", ".join(f"{counted[state]} {state}" for state in SIGNS if counted[state])
        word = "run" if len(self.runs) == 1 else "runs"
        is_part = any(one.usd_unknown for one in self.runs)
        notes = ("USD: known part; `cloudgan status RUN -v` names the rest",) if is_part else ()
        return View(f"{len(self.runs)} {word}: {states}", self.table(), notes, self.warnings)


def _usd_text(usd: float | None) -> str:
    if usd is None:
        return "-"
    return "<0.01" if 0 < usd < _CENT else f"{usd:,.2f}"


def _workers(job: RunState) -> Table:
    rows = tuple(
        (one.index, one.phase, one.node or "-", one.restarts or "-", one.reason or "-")
        for one in job.workers
    )
    return Table(("worker", "state", "node", "replaced", "why"), rows, "", "rllrl")


def read_status(folder: RunFolder) -> GridStatus | None:
    """Returns what the master of a grid wrote last; None: nothing, as if its cells are no ranks."""
    path = folder.path / STATUS_FILE
    return read_json(path, GridStatus) if path.exists() else None


def seconds_since(time: str) -> float:
    """Returns the time since a moment in seconds; 0 of one that another clock has ahead."""
    return max(0.0, (utc_moment() - parse_time(time)).total_seconds())


def grid_lines(status: GridStatus, age: float) -> Iterator[str]:
    """Yields the grid with a mark per cell, then its machines."""
    best = f", the best cell is {status.best}" if status.best else ""
    yield f"grid {status.rows}x{status.columns}{best}; written {age:.0f} s ago"
    for row in range(status.rows):
        states = [cell.state for cell in status.cells[row * status.columns :][: status.columns]]
        yield "  " + " ".join(map(_MARKS.__getitem__, states))
    yield f"  ({', '.join(f'{mark} {state}' for state, mark in _MARKS.items())})"
    for node in status.nodes:
        cells = ", ".join(node.cells) or "none"
        yield f"{node.host}: {counted(node.cores, 'core')}, {counted(node.ranks, 'rank')}, cells {cells}"


def grid_table(status: GridStatus, age: float) -> Table:
    """Returns a row per cell; while the run goes on, `age` adds to the time since its last sign."""
    silent = age if status.state == "running" else 0.0
    rows = tuple(
        (
            *(
                cell.name,
                cell.rank,
                cell.host,
                cell.state,
                cell.iteration,
                cell.fitness,
                cell.score,
            ),
            None if cell.memory_bytes is None else round(cell.memory_bytes / _MIB),
            round(cell.silent_seconds + silent, 1),
        )
        for cell in status.cells
    )
    return Table(_CELL_HEADS, rows, "", "lrllrrrrr")


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
    started = found.get("started_at")
    if not started:
        with suppress(OSError):
            changed = datetime.fromtimestamp(folder.config_file.stat().st_mtime, tz=UTC)
            started = changed.strftime("%Y-%m-%dT%H:%M:%SZ")
    facts = {
        "run": shown_run(folder.path),
        "folder": str(folder.path),
        "started_at": started,
        "age_seconds": seconds_since(started) if started else None,
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
        "grid_age_seconds": seconds_since(status.time) if status else 0.0,
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


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
