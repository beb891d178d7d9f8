"""What happened in a run: `record.jsonl`, one line per epoch and per event.

Only the chief worker writes it. A line is written whole and reaches the disk before the run goes
on; a line that a crash cut short is the last one, and readers leave it out. What else a record may
lack or hold twice is told by `RunRecord.warnings`; durations are the processes' own, never
differences of `time`.
"""

from __future__ import annotations

import os
import statistics
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from cloudgan.core.errors import DataError
from cloudgan.core.hardware import Hardware
from cloudgan.core.installed_wheels import InstalledWheels
from cloudgan.core.record_count import counted_epochs, distinct, processes
from cloudgan.core.record_line import Count, Loss, Rate, RecordLine, Seconds
from cloudgan.core.record_warnings import warnings_of
from cloudgan.core.validated import Validated, counted_validations

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.core.record_count import Process
    from cloudgan.core.until import Until

FILE_NAME = "record.jsonl"


class Numerics(BaseModel):
    """What, beside the configuration, decides the bits: kept in checkpoints and reused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    processor: str
    device: str
    threads: int
    replicas: int
    workers: int
    global_batch_size: int
    precision: str
    kernels: str = Field(description="oneDNN or Eigen: which library convolves on a CPU")
    formulation: str = Field(
        "published", description="of the layers: published, phases or transforms"
    )
    instructions: str = Field(
        "default", description="newest instruction set for oneDNN, ONEDNN_MAX_CPU_ISA"
    )
    inter_threads: int | None = Field(
        None, description="operations at the same time; None: as many as threads"
    )
    xla: bool = Field(False, description="XLA compiled what ran on a GPU")
    tensorflow: str
    keras: str


class Started(RecordLine):
    """A process began to train, anew or again."""

    kind: Literal["started"] = "started"
    config_hash: str
    training_showers: Count
    held_back_showers: Count
    hardware: Hardware
    numerics: Numerics
    versions: dict[str, str]
    git_commit: str | None
    strategy: str
    loop: str
    learning_rate: float = Field(description="after scaling, before warm-up")
    told: tuple[str, ...] = Field(description="what was found out and decided about the data")
    tuned: str = Field("", description="how the way to compute was chosen; empty: not at all")
    startup_seconds: Seconds = Field(description="from process start to the first step's begin")
    expected_memory_bytes: int | None = Field(
        None, ge=0, description="peak, as foretold: of the process, or of each accelerator"
    )
    image: str | None = Field(None, description="of the container, as the plan has it; None: none")
    wheels: InstalledWheels | None = Field(
        None, description="what the pod installed before the process; None: nothing"
    )


class Epoch(RecordLine):
    """One pass over the training showers."""

    kind: Literal["epoch"] = "epoch"
    epoch: int = Field(ge=0)
    first: bool = Field(description="the first of its process: holds tracing and cold caches")
    complete: bool = Field(description="False where the process began or ended inside the epoch")
    steps: Count
    samples: Count
    carried_samples: Count = Field(
        description="of the last batch, showers that belong to the next epoch"
    )
    dropped_samples: Count = Field(description="showers of this epoch that no batch took")
    train_seconds: Seconds
    trace_seconds: Seconds = Field(description="of train_seconds, the first call's")
    validation_seconds: Seconds
    checkpoint_seconds: Seconds
    samples_per_second: Rate = Field(description="without the first call")
    losses: dict[str, dict[str, Loss]]
    test_losses: dict[str, dict[str, Loss]] | None
    reader_busy: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="share of train_seconds that each reader of showers spent reading; near 1: the"
        " readers never had to wait for the training; None: not measured",
    )


class Checkpointed(RecordLine):
    """State was saved."""

    kind: Literal["checkpointed"] = "checkpointed"
    path: str
    seconds: Seconds
    bytes: Count
    copied: bool | None = Field(None, description="to the bucket; None: none was asked for")


class Resumed(RecordLine):
    """State was loaded; lines of later steps that stand above are void."""

    kind: Literal["resumed"] = "resumed"
    path: str
    numbers_change: tuple[str, ...] = Field(
        description="what differs from the machine that saved it; empty: bit for bit the same"
    )


class Stopped(RecordLine):
    """A process ended."""

    kind: Literal["stopped"] = "stopped"
    reason: Literal[
        "finished", "reached", "max_steps", "max_seconds", "interrupted", "terminated", "failed"
    ]
    program_seconds: Seconds
    train_seconds: Seconds = Field(description="training of all processes of the run so far")
    message: str = ""
    peak_memory_bytes: int | None = Field(
        None, ge=0, description="the most that the process ever had; None: the system does not say"
    )


class Noticed(RecordLine):
    """The cloud said that it takes a worker's machine away; written when the training has ended."""

    kind: Literal["noticed"] = "noticed"
    worker: int = Field(ge=0)
    cloud: str
    seconds: Seconds | None = Field(
        description="that were left when the notice was read; None: unknown"
    )


Line = Annotated[
    Started | Epoch | Validated | Checkpointed | Resumed | Stopped | Noticed,
    Field(discriminator="kind"),
]
_LINE: TypeAdapter[Line] = TypeAdapter(Line)


class RunRecord(BaseModel):
    """All lines of one record, and what follows from them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lines: tuple[Line, ...]
    cut_short: bool = Field(False, description="a last line is left out that has no end")

    def epochs(self) -> tuple[Epoch, ...]:
        """Epochs that count: those repeated stand once, as they were last run."""
        counted, _ = counted_epochs(distinct(self.lines)[0])
        return tuple(each.epoch for each in counted)

    def validations(self) -> tuple[Validated, ...]:
        """What was measured after epochs, as it was last run."""
        return counted_validations(self.once())

    def seconds_to_reach(self, until: Until) -> float | None:
        """Program time of all processes until a validation first passed `until`.

        None: none did, or a process before did not record its end.
        """
        found = next((each for each in self.validations() if until.holds(each.numbers)), None)
        spent = 0.0
        for process in self.processes() if found else ():
            if found and any(line is found for line in process.lines):
                return spent + found.program_seconds
            if process.stopped is None:
                return None
            spent += process.stopped.program_seconds
        return None

    def warnings(self) -> tuple[str, ...]:
        """What is missing, doubled or impossible in the record, in plain sentences."""
        return warnings_of(self)

    def once(self) -> tuple[Line, ...]:
        """The lines without those that repeat an earlier one."""
        return tuple(line for _, line in distinct(self.lines)[0])

    def processes(self) -> tuple[Process, ...]:
        """What each process wrote, oldest first, without repeated lines."""
        return processes(distinct(self.lines)[0])

    def every_process_ended(self) -> bool:
        """Whether all processes recorded their end; if not, `program_seconds` lacks some."""
        found = self.processes()
        return bool(found) and all(process.stopped for process in found)

    def started(self) -> Started | None:
        """The latest start."""
        return next((line for line in reversed(self.lines) if isinstance(line, Started)), None)

    def stopped(self) -> Stopped | None:
        """How the latest process ended; None while it runs or where it was killed."""
        last = [line for line in self.lines if isinstance(line, Started | Stopped)][-1:]
        return last[0] if last and isinstance(last[0], Stopped) else None

    def steady_epoch_seconds(self) -> float | None:
        """Median training time of the complete epochs after the tracing one; None without any."""
        steady = [e.train_seconds for e in self.epochs() if e.complete and not e.first]
        return statistics.median(steady) if steady else None

    def first_epoch_seconds(self) -> float | None:
        """Training time of the first epoch, tracing included; None before its end."""
        return next((e.train_seconds for e in self.epochs() if e.first), None)

    def samples_per_second(self) -> float | None:
        """Median throughput over all epochs, first calls left out."""
        rates = [e.samples_per_second for e in self.epochs() if e.samples_per_second > 0]
        return statistics.median(rates) if rates else None

    def program_seconds(self) -> float:
        """Sum over the processes that said when they ended."""
        return sum(line.program_seconds for line in self.once() if isinstance(line, Stopped))


def append(path: Path, line: Line) -> None:
    """Writes one line and waits until it is on the disk; heals a line that was cut short."""
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                _cut_last_line(path)
        file.write(line.model_dump_json().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read(path: Path) -> RunRecord:
    """Reads a record; the last line may be cut short, no other.

    Raises:
        DataError: There is no record, or a line is not one of ours.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path}: no record of a run here ({error.strerror}); name a folder that"
            " `cloudgan train` wrote, such as runs/NAME"
        ) from error
    texts = raw.split(b"\n")
    whole = texts[:-1]
    lines = []
    for number, text in enumerate(whole, start=1):
        try:
            lines.append(_LINE.validate_json(text))
        except ValidationError as error:
            problem = error.errors()[0]
            raise DataError(
                f"{path}, line {number}: not a line of a run record ({problem['msg']} at"
                f" {'.'.join(map(str, problem['loc'])) or 'the line'}); put it right, or delete the"
                " line: then what it told is named as missing"
            ) from error
    return RunRecord(lines=tuple(lines), cut_short=bool(texts[-1]))


def read_if_whole(path: Path) -> RunRecord:
    """Reads a record; one that is missing or damaged tells nothing."""
    try:
        return read(path)
    except DataError:
        return RunRecord(lines=())


def _cut_last_line(path: Path) -> None:
    raw = path.read_bytes()
    with path.open("r+b") as file:
        file.truncate(raw.rfind(b"\n") + 1)
