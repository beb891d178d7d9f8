"""The run record, `record.jsonl`: one line per epoch and event, and what follows from the lines.

Only the chief worker writes it. Each line is flushed to disk before training continues; a last line
truncated by a crash is left out by readers. `money.processes` lists what else is missing or doubled.
Durations are measured by the processes, never differences of `time`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

from cloudgan.core.document import Document, SparseDocument
from cloudgan.core.documents import read_bytes
from cloudgan.core.errors import DataError
from cloudgan.core.file_lock import append_line
from cloudgan.core.hardware import Hardware
from cloudgan.core.provenance import InstalledWheels
from cloudgan.schema.record_line import (
    Count,
    Exchanged,
    Rate,
    RecordLine,
    Seconds,
    StopReason,
)
from cloudgan.schema.stop_criterion import StopCriterion

FILE_NAME = "record.jsonl"
DEFAULT_INSTRUCTIONS = "default"


class Numerics(SparseDocument):
    """What determines the bits in addition to the configuration; checkpoints keep it for resuming."""

    OMITTED = ("tensorflow", "jax")

    processor: str
    device: str
    threads: int
    replicas: int
    workers: int
    global_batch_size: int
    precision: str
    math_library: str = Field(
        description="library that convolves on a CPU: oneDNN or Eigen; XLA under JAX"
    )
    conv_impl: str = Field(
        "published", description="convolution implementation: published, phases or fft"
    )
    instructions: str = Field(
        DEFAULT_INSTRUCTIONS, description="newest instruction set for oneDNN, ONEDNN_MAX_CPU_ISA"
    )
    xla: bool = Field(False, description="XLA compiled what ran on a GPU")
    tensorflow: str = Field("", description="version; empty: another engine")
    keras: str
    jax: str = Field("", description="version; empty: another engine")


class Started(RecordLine):
    """A training process started."""

    kind: Literal["started"] = "started"
    config_hash: str
    training_showers: Count
    held_out_showers: Count
    hardware: Hardware
    numerics: Numerics
    versions: dict[str, str]
    git_commit: str | None
    strategy: str
    loop: str
    learning_rate: float = Field(description="after scaling, before warm-up")
    notes: tuple[str, ...] = Field(
        description="what the reader detected and decided about the data"
    )
    data_sha256: tuple[str, ...] = Field(
        (), description="SHA-256 of the files of all showers, held-out ones included"
    )
    startup_seconds: Seconds = Field(description="from process start to the first step")
    expected_memory_bytes: int | None = Field(
        None, ge=0, description="forecast peak of the process, or of each accelerator"
    )
    image: str | None = Field(None, description="container image of the plan; None: no container")
    smoke_seconds: Seconds | None = Field(
        None,
        description="of the pod before its first process: devices, the wait for the other workers, and"
        " the smoke step; None: no smoke step",
    )
    wheels: InstalledWheels | None = Field(
        None, description="wheels that the pod installed before the process started"
    )


class Epoch(RecordLine):
    """One pass over the training showers."""

    kind: Literal["epoch"] = "epoch"
    epoch: int = Field(ge=0)
    first: bool = Field(description="first epoch of its process: includes tracing and cold caches")
    complete: bool = Field(description="False if the process started or ended inside the epoch")
    steps: Count
    samples: Count
    carried_samples: Count = Field(
        description="showers of the last batch that belong to the next epoch"
    )
    dropped_samples: Count = Field(description="showers of this epoch in no batch")
    train_seconds: Seconds
    trace_seconds: Seconds = Field(
        description="part of train_seconds: the first call, which traces and compiles"
    )
    validation_seconds: Seconds
    checkpoint_seconds: Seconds
    samples_per_second: Rate = Field(description="without the first call")
    losses: dict[str, dict[str, float]]
    held_out_losses: dict[str, dict[str, float]] | None
    input_utilisation: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="share of train_seconds that the shower readers were busy; near 1: training"
        " waits for input; None: not measured",
    )


class Validated(RecordLine):
    """Generated showers were compared with held-out ones."""

    kind: Literal["validated"] = "validated"
    epoch: int = Field(ge=0, description="the epoch that just ended")
    showers: Count
    metrics: dict[str, float]
    seconds: Seconds = Field(description="part of an epoch's validation_seconds")
    ranked_by: str = Field(description="metric that selects the best checkpoint")
    best: bool = Field(description="best validation so far: its checkpoint is kept")
    until: str = Field("", description="stop criterion; empty: none")
    reached: bool = Field(False, description="the stop criterion is met")
    smoothed: float | None = Field(
        None,
        description="median that the early stop compares; None: no early stop, or too few numbers",
    )
    plateau: bool = Field(False, description="training ends: no improvement for the whole patience")
    program_seconds: Seconds = Field(description="of this process until now")


class Checkpointed(RecordLine):
    """A checkpoint was saved."""

    kind: Literal["checkpointed"] = "checkpointed"
    path: str
    seconds: Seconds
    bytes: Count
    copied: bool | None = Field(None, description="to the bucket; None: no bucket is configured")


class Resumed(RecordLine):
    """A checkpoint was restored; earlier lines of later steps are void."""

    kind: Literal["resumed"] = "resumed"
    path: str
    reproducibility_changes: tuple[str, ...] = Field(
        description="differences to the process that saved it; empty: bit-identical"
    )


class DamagedCheckpoint(RecordLine):
    """A checkpoint could not be used when a process started; the one before is used."""

    kind: Literal["damaged"] = "damaged"
    path: str = Field(description="where the file is kept")
    reason: str


class Stopped(RecordLine):
    """A training process ended."""

    kind: Literal["stopped"] = "stopped"
    reason: StopReason
    program_seconds: Seconds
    train_seconds: Seconds = Field(description="training time of all processes of the run so far")
    message: str = ""
    peak_memory_bytes: int | None = Field(
        None,
        ge=0,
        description="peak resident memory of the process, with ranks of the largest one; None: unknown",
    )
    gpu_joules: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="energy that all GPUs of the chief's machine used since the start line, by NVML;"
        " None: unknown",
    )


class PreemptionNotice(RecordLine):
    """The cloud announced the preemption of a worker's node; written when training has ended."""

    kind: Literal["noticed"] = "noticed"
    worker: int = Field(ge=0)
    cloud: str
    seconds: Seconds | None = Field(
        description="until the preemption when the notice was read; None: unknown"
    )


Line = Annotated[
    Started
    | Epoch
    | Validated
    | Checkpointed
    | Resumed
    | DamagedCheckpoint
    | Stopped
    | Exchanged
    | PreemptionNotice,
    Field(discriminator="kind"),
]
_LINE: TypeAdapter[Line] = TypeAdapter(Line)
_MAX_BYTES = 2**30
"""A line of a few kB per epoch: a million epochs."""

_BETWEEN = ("noticed", "damaged")
"""Lines written while no process trains; they belong to the process before."""


class Repeat(NamedTuple):
    """A line that repeats an earlier one; lines are counted from 1."""

    line: int
    repeats: int


class CountedEpoch(NamedTuple):
    """An epoch that counts, and its line number."""

    line: int
    epoch: Epoch


class Process(NamedTuple):
    """The lines of one process, from its start (recorded or inferred) to its end."""

    line: int
    started: Started | None
    stopped: Stopped | None
    epochs: tuple[CountedEpoch, ...]
    lines: tuple[Line, ...]


class RunRecord(Document):
    """All lines of one record."""

    lines: tuple[Line, ...]
    truncated: bool = Field(False, description="an incomplete last line was left out")

    def epochs(self) -> tuple[Epoch, ...]:
        """Returns the epochs that count: of repeated ones the last run."""
        counted, _ = counted_epochs(distinct(self.lines)[0])
        return tuple(each.epoch for each in counted)

    def finished_epochs(self) -> int:
        """Returns how many epochs are finished; one that several processes trained counts when it has all steps."""
        epochs = self.epochs()
        if not epochs:
            return 0
        last = epochs[-1]
        steps = sum(each.steps for each in epochs if each.epoch == last.epoch)
        whole = min((each.steps for each in epochs if each.complete), default=math.inf)
        return last.epoch + (last.complete or steps >= whole)

    def validations(self) -> tuple[Validated, ...]:
        """Returns the validations that count, by ascending step: of repeated ones the last run."""
        kept: dict[int, Validated] = {}
        for line in self.once():
            if line.kind in ("started", "resumed"):
                kept = {step: each for step, each in kept.items() if step <= line.step}
            elif line.kind == "validated":
                kept[line.step] = line
        return tuple(kept[step] for step in sorted(kept))

    def seconds_to_reach(self, until: StopCriterion) -> float | None:
        """Returns the program time of all processes until a validation first met `until`.

        None if none did, or if an earlier process did not record its end.
        """
        found = next((each for each in self.validations() if until.holds(each.metrics)), None)
        return self.program_seconds_until(found) if found else None

    def program_seconds_until(self, moment: Validated | Stopped) -> float | None:
        """Returns the program time of all processes until `moment`, a line of this record.

        None if an earlier process did not record its end.
        """
        spent = 0.0
        for process in self.processes():
            if any(line is moment for line in process.lines):
                return spent + moment.program_seconds
            if process.stopped is None:
                return None
            spent += process.stopped.program_seconds
        return None

    def damaged_checkpoints(self) -> tuple[int, ...]:
        """Returns the steps of the checkpoints that could not be used."""
        return tuple(dict.fromkeys(line.step for line in self.lines if line.kind == "damaged"))

    def once(self) -> tuple[Line, ...]:
        """Returns the lines without repeated ones."""
        return tuple(line for _, line in distinct(self.lines)[0])

    def processes(self) -> tuple[Process, ...]:
        """Returns what each process wrote, oldest first, without repeated lines.

        The line of a start or an end may be missing.
        """
        found: list[list[tuple[int, Line]]] = []
        for number, line in distinct(self.lines)[0]:
            before = (
                [other for _, other in found[-1] if other.kind not in _BETWEEN] if found else []
            )
            if not found or (before and _begins_process(line, before)):
                found.append([])
            found[-1].append((number, line))
        return tuple(_process(part) for part in found)

    def started(self) -> Started | None:
        """Returns the latest start."""
        return next((line for line in reversed(self.lines) if isinstance(line, Started)), None)

    def stopped(self) -> Stopped | None:
        """Returns how the latest process ended; None while it runs or if it was killed."""
        last = [line for line in self.lines if isinstance(line, Started | Stopped)][-1:]
        return last[0] if last and isinstance(last[0], Stopped) else None

    def steady_epoch_seconds(self) -> float | None:
        """Returns the median training time of complete epochs after the tracing one; None without any."""
        steady = [e.train_seconds for e in self.epochs() if e.complete and not e.first]
        return statistics.median(steady) if steady else None

    def first_epoch_seconds(self) -> float | None:
        """Returns the training time of the first epoch with tracing; None before its end."""
        return next((e.train_seconds for e in self.epochs() if e.first), None)

    def samples_per_second(self) -> float | None:
        """Returns the median throughput over all epochs without first calls."""
        rates = [e.samples_per_second for e in self.epochs() if e.samples_per_second > 0]
        return statistics.median(rates) if rates else None

    def program_seconds(self) -> float:
        """Returns the sum over the processes that recorded their end."""
        return sum(line.program_seconds for line in self.once() if isinstance(line, Stopped))

    def whole_program_seconds(self) -> float | None:
        """Returns the sum over all processes; None if one did not record its end."""
        found = self.processes()
        is_known = bool(found) and all(process.stopped for process in found)
        return self.program_seconds() if is_known else None


def append(path: Path, line: Line) -> None:
    """Appends one line and flushes it to disk; removes a truncated last line first."""
    append_line(path, line.model_dump_json())


def read(path: Path) -> RunRecord:
    """Reads a record; only the last line may be truncated.

    Raises:
        DataError: No record, or an invalid line.
    """
    try:
        raw = read_bytes(path, limit=_MAX_BYTES)
    except DataError as error:
        raise DataError(
            f"no run record: {error}; name a folder that `cloudgan train` wrote, such as runs/NAME"
        ) from error
    return parse(raw, str(path))


def parse(raw: bytes, source: str) -> RunRecord:
    """Returns the lines of a record; `source` names it in errors."""
    texts = raw.split(b"\n")
    whole = texts[:-1]
    lines = []
    for number, text in enumerate(whole, start=1):
        try:
            lines.append(_LINE.validate_json(text))
        except ValidationError as error:
            problem = error.errors()[0]
            raise DataError(
                f"{source}, line {number}: not a line of a run record ({problem['msg']} at"
                f" {'.'.join(map(str, problem['loc'])) or 'the line'}); correct or delete the line"
            ) from error
    return RunRecord(lines=tuple(lines), truncated=bool(texts[-1]))


def read_if_there(path: Path) -> RunRecord:
    """Reads a record; that of a run that no process has trained has no lines, and no file.

    Raises:
        DataError: An invalid line.
    """
    return read(path) if path.exists() else RunRecord(lines=())


def read_if_whole(path: Path) -> RunRecord:
    """Reads a record; a missing or damaged one has no lines."""
    try:
        return read(path)
    except DataError:
        return RunRecord(lines=())


def distinct(
    lines: Iterable[Line],
) -> tuple[tuple[tuple[int, Line], ...], tuple[Repeat, ...]]:
    """Returns the distinct lines with their numbers, and the repeated ones.

    Two processes never write equal lines, because each has durations to the last bit.
    """
    kept: list[tuple[int, Line]] = []
    repeats = []
    seen: dict[tuple[str, str, int], list[tuple[int, Line]]] = {}
    for number, line in enumerate(lines, start=1):
        alike = seen.setdefault((line.kind, line.time, line.step), [])
        same = next((earlier for earlier, other in alike if other == line), None)
        if same is not None:
            repeats.append(Repeat(number, same))
            continue
        alike.append((number, line))
        kept.append((number, line))
    return tuple(kept), tuple(repeats)


def counted_epochs(
    lines: Iterable[tuple[int, Line]],
) -> tuple[tuple[CountedEpoch, ...], tuple[Repeat, ...]]:
    """Returns the epochs that count, as last run, and those that replaced another.

    A start or a resume at a step voids earlier lines of later steps. Without either, an epoch that
    starts before the end of one with the same number replaces that one.
    """
    kept: list[CountedEpoch] = []
    replaced = []
    begun_at: int | None = None
    for number, line in lines:
        if line.kind == "started":
            begun_at = line.step
        elif line.kind == "resumed":
            begun_at = None
            kept = [each for each in kept if each.epoch.step <= line.step]
        elif line.kind == "epoch":
            if begun_at is not None:
                kept = [each for each in kept if each.epoch.step <= begun_at]
                begun_at = None
            start = line.step - line.steps
            same = [one for one in kept if one.epoch.epoch == line.epoch and start < one.epoch.step]
            for other in same:
                replaced.append(Repeat(number, other.line))
                kept.remove(other)
            kept.append(CountedEpoch(number, line))
    return tuple(kept), tuple(replaced)


def _begins_process(line: Line, before: Sequence[Line]) -> bool:
    if line.kind in _BETWEEN:
        return False
    if line.kind == "started" or before[-1].kind == "stopped":
        return True
    if line.kind == "resumed":
        return any(other.kind != "started" for other in before)
    return line.kind == "epoch" and line.first and any(other.kind == "epoch" for other in before)


def _process(part: list[tuple[int, Line]]) -> Process:
    first = part[0][1]
    last = next((line for _, line in reversed(part) if line.kind not in _BETWEEN), first)
    return Process(
        part[0][0],
        first if first.kind == "started" else None,
        last if last.kind == "stopped" else None,
        tuple(CountedEpoch(number, line) for number, line in part if line.kind == "epoch"),
        tuple(line for _, line in part),
    )
