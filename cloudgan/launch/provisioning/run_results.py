"""Results of a run in its store: heartbeat, record, checkpoints and logs.

Readers return None for an unreachable store, so status and deletion do not depend on it.
"""

from __future__ import annotations

import gzip
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.errors import CloudganError
from cloudgan.launch.kubernetes.manifests import CLAIM
from cloudgan.schema import heartbeat as heartbeats
from cloudgan.schema import launch
from cloudgan.schema import record as record_lines
from cloudgan.schema.launch import Launch
from cloudgan.schema.plan import FILE_NAME as PLAN_FILE
from cloudgan.schema.plan import Plan
from cloudgan.schema.quality import best_step
from cloudgan.schema.run_folder import checkpoint_name, checkpoint_steps
from cloudgan.schema.run_state import LogLine
from cloudgan.storage.store import ObjectMissingError, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudgan.schema.heartbeat import Heartbeat
    from cloudgan.schema.run_folder import RunFolder
    from cloudgan.storage.store import Store


_GIB = 2**30


@dataclass(frozen=True)
class RunResults:
    """The folder of one run in a store."""

    store: Store
    run: str

    @classmethod
    def from_plan(cls, plan: Plan) -> RunResults | None:
        """Opens the store of a plan; None for a persistent volume claim, which only pods can read."""
        if plan.store.startswith(CLAIM):
            return None
        return cls(open_store(plan.store), plan.run)

    def heartbeat(self) -> Heartbeat | None:
        """Returns the newest heartbeat; None if missing or the store is unreachable."""
        try:
            content = self.store.read(self._name(heartbeats.FILE_NAME))
            return heartbeats.Heartbeat.model_validate_json(content)
        except (CloudganError, ValidationError):
            return None

    def plan(self) -> Plan | None:
        """Returns the plan of the newest run in this folder; None if missing."""
        try:
            return Plan.model_validate_json(self.store.read(self._name(PLAN_FILE)))
        except (CloudganError, ValidationError):
            return None

    def write_plan(self, plan: Plan) -> None:
        """Writes the plan to the store, for use without its cluster."""
        self.store.put(self._name(PLAN_FILE), plan.model_dump_json(indent=2).encode())

    def read_launch(self) -> Launch | None:
        """Returns the launch.json in the store; None if missing."""
        try:
            return Launch.model_validate_json(self.store.read(self._name(launch.FILE_NAME)))
        except (CloudganError, ValidationError):
            return None

    def write_launch(self, known: Launch) -> None:
        """Writes launch.json to the store, for budgets on other machines."""
        self.store.put(self._name(launch.FILE_NAME), known.model_dump_json(indent=2).encode())

    def fetch_if_reachable(self, folder: RunFolder, say: Callable[[str], None]) -> list[str]:
        """Fetches like `fetch`; reports an unreadable store instead of raising."""
        try:
            return self.fetch(folder)
        except CloudganError as error:
            say(f"the results were not fetched from the store: {error}")
            return []

    def fetch(self, folder: RunFolder) -> list[str]:
        """Downloads record and checkpoints into the run's folder; returns the new files.

        run.yaml is not fetched: its paths are those in the pods.
        """
        came = []
        try:
            record = self.store.read(self._name("record.jsonl"))
        except ObjectMissingError:
            return []
        if not folder.record_file.exists() or folder.record_file.read_bytes() != record:
            folder.path.mkdir(parents=True, exist_ok=True)
            write_atomic(folder.record_file, record)
            came.append(folder.record_file.name)
        start = self._name("checkpoints/")
        for name in self.store.list(start):
            path = folder.checkpoints / name.removeprefix(start)
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                self.store.get(name, path)
                came.append(f"checkpoints/{path.name}")
        return came

    def log_lines(self) -> Iterator[LogLine]:
        """Yields the stored log lines, worker by worker."""
        start = self._name("logs/")
        found: list[tuple[int, str]] = []
        for name in self.store.list(start):
            index = name.removeprefix(start).partition("/")[0]
            if index.isdigit() and name.endswith(".gz"):
                found.append((int(index), name))
        for rank, name in sorted(found):
            text = gzip.decompress(self.store.read(name)).decode(errors="replace")
            for line in text.splitlines():
                yield LogLine(rank, "", line)

    def gib(self) -> float | None:
        """Returns the size of the folder in GiB; None if the store is unreachable."""
        try:
            return self.store.size_bytes(self._name("")) / _GIB
        except CloudganError:
            return None

    def purge(self) -> int:
        """Deletes the run's folder from the store; returns the number of files."""
        names = self.store.list(self._name(""))
        for name in names:
            self.store.delete(name)
        return len(names)

    def _name(self, name: str) -> str:
        return f"runs/{self.run}/{name}"


def transfer_checkpoints(
    old: RunResults, new: RunResults, say: Callable[[str], None]
) -> int | None:
    """Copies record, newest and best checkpoint to another store, unless it is as recent.

    An unreadable store is reported, not raised: the run then starts from step 0.

    Returns:
        The step to resume from; None: step 0.
    """
    try:
        step = _newest(old)
        there = _newest(new)
        if step is None or (there is not None and there >= step):
            return there
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "copied"
            for name in _checkpoints(old, step, path):
                old.store.get(name, path)
                new.store.put(name, path)
            record = f"runs/{old.run}/{record_lines.FILE_NAME}"
            if record in old.store.list(record):
                new.store.put(record, old.store.read(record))
    except CloudganError as error:
        say(
            f"the checkpoints in {old.store.url} cannot be copied, so training restarts at step 0: {error}"
        )
        return None
    say(f"copied the checkpoint of step {step} from {old.store.url} to {new.store.url}")
    return step


def _checkpoints(old: RunResults, newest: int, path: Path) -> tuple[str, ...]:
    """Names of the checkpoints to copy, the newest last: its presence marks a complete copy."""
    there = old.store.list(f"runs/{old.run}/")
    record = f"runs/{old.run}/{record_lines.FILE_NAME}"
    best = None
    if record in there:
        old.store.get(record, path)
        best = best_step(record_lines.read_if_whole(path).validations())
    steps = [step for step in (best, newest) if step is not None]
    names = [f"runs/{old.run}/checkpoints/{checkpoint_name(step)}" for step in dict.fromkeys(steps)]
    return tuple(name for name in names if name in there)


def _newest(results: RunResults) -> int | None:
    names = results.store.list(f"runs/{results.run}/checkpoints/")
    steps = checkpoint_steps(name.rpartition("/")[2] for name in names)
    return steps[-1] if steps else None
