"""What job.sh noted in the run's folder: when it began, what each worker did, how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

STOP: Final = "stop"
JOB: Final = "job"
LOGS: Final = "logs"
_OF_ONE_JOB: Final = ("began", "end", "job", STOP, "failed-*", "told-*", "worker-*.txt")
_END_WORDS: Final = 4


@dataclass(frozen=True, slots=True)
class End:
    """How a job ended, in the script's words."""

    job: str
    word: str
    exit_code: int
    time: str


@dataclass(frozen=True, slots=True)
class WorkerNote:
    """What one rank did.

    Attributes:
        node: Where it was last.
        starts: How often it was started.
        exit_code: Of the last one that ended; None: none did.
        runs: Whether the last one that was started did not end.
    """

    node: str
    starts: int
    exit_code: int | None
    runs: bool


class Notes:
    """The files in `slurm/` of one run; those of a job that begins are not there yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def clear(self) -> None:
        """Forgets the last job; logs stay."""
        for pattern in _OF_ONE_JOB:
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)

    def write_job(self, job_id: str) -> None:
        """Remembers the job's number, for when Slurm has forgotten its name."""
        (self.folder / JOB).write_text(job_id, encoding="utf-8")

    def ask_to_stop(self) -> None:
        """Tells the script that its workers end because somebody wants it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / STOP).touch()

    def is_stopped(self) -> bool:
        """Whether somebody did."""
        return (self.folder / STOP).exists()

    def job(self) -> str | None:
        """Returns the number of the job that was sent last."""
        return self._read(JOB).strip() or None

    def began(self) -> str | None:
        """Returns when the job began first, ISO 8601."""
        words = self._read("began").split()
        seconds = words[-1] if words else ""
        if not seconds.isdigit():
            return None
        return datetime.fromtimestamp(int(seconds), tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def end(self) -> End | None:
        """Returns how the job ended; None where its script did not live to tell."""
        words = self._read("end").split()
        if len(words) != _END_WORDS or not words[2].isdigit():
            return None
        return End(words[0], words[1], int(words[2]), words[3])

    def workers(self, world: int) -> tuple[WorkerNote | None, ...]:
        """Returns by rank what each worker did; None where it did nothing yet."""
        return tuple(_worker(self._read(f"worker-{rank}.txt")) for rank in range(world))

    def logs(self) -> dict[int, Path]:
        """Returns by rank where what the workers print is written."""
        found = (self.folder / LOGS).glob("worker-*.log")
        named = {path.stem.rpartition("-")[2]: path for path in found}
        return {int(rank): path for rank, path in sorted(named.items()) if rank.isdigit()}

    def _read(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""


def _worker(text: str) -> WorkerNote | None:
    """Lines are ``started TIME NODE`` and ``ended TIME CODE``."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    started = [words for words in lines if words[0] == "started"]
    if not started:
        return None
    codes = [words[2] for words in lines if words[0] == "ended" and words[2:]]
    code = int(codes[-1]) if codes and codes[-1].isdigit() else None
    node = started[-1][2] if started[-1][2:] else ""
    return WorkerNote(node, len(started), code, lines[-1][0] == "started")
