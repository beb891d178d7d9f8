"""State of a run, on this machine or launched: the result of `status`, for one run and for all of a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from cloudgan.core.clock import parse_time, utc_moment
from cloudgan.core.documents import read_json
from cloudgan.core.durations import format_duration, short_duration
from cloudgan.core.errors import counted
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Cell, Number, Table
from cloudgan.schema.grid_status import FILE_NAME, GridStatus
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.run_state import Phase, RunState

State = Literal["done", "stopped", "running", "waiting", "failed", "unknown"]
SIGNS: dict[State, str] = {
    "done": "✓",
    "stopped": "■",
    "running": "●",
    "waiting": "○",
    "failed": "✗",
    "unknown": "?",
}
THIS_MACHINE = "this machine"
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
    usd: float | None = Field(None, description="cost until now")
    usd_per_hour: float | None = Field(None, description="of the nodes that run now")
    usd_at_end: float | None = None
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
            basis=tuple(filter(None, (self.folder and f"folder {self.folder}",))),
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
            end = f", {self.usd_at_end:.2f} USD at the end" if self.usd_at_end is not None else ""
            yield f"{_usd_text(self.usd)} USD so far{end}"
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
        return View(f"{len(self.runs)} {word}: {states}", self.table(), warnings=self.warnings)


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
    path = folder.path / FILE_NAME
    return read_json(path, GridStatus) if path.exists() else None


def age_seconds(status: GridStatus) -> float:
    """Returns the time since the master wrote the status."""
    return max(0.0, (utc_moment() - parse_time(status.time)).total_seconds())


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
