"""What a run left in its store: heartbeat, record, checkpoints, logs, read from any machine.

Looking never fails: whoever asks how a run is, or removes one, need not reach its store.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from cloudgan.core import heartbeat as heartbeats
from cloudgan.core import launch
from cloudgan.core.errors import CloudganError
from cloudgan.core.launch import Launch
from cloudgan.core.plan import FILE_NAME as PLAN_FILE
from cloudgan.core.plan import Plan
from cloudgan.core.run_state import LogLine
from cloudgan.core.whole_file import write_whole
from cloudgan.kubernetes.manifests import CLAIM
from cloudgan.stores import ObjectMissingError, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudgan.core.heartbeat import Heartbeat
    from cloudgan.run_folder import RunFolder
    from cloudgan.stores import Store


_GIB = 2**30


@dataclass(frozen=True)
class Results:
    """The folder of one run in a store."""

    store: Store
    run: str

    @classmethod
    def of(cls, plan: Plan) -> Results | None:
        """Opens the store of a plan; None for a claim, which only pods can read."""
        if plan.store.startswith(CLAIM):
            return None
        return cls(open_store(plan.store), plan.run)

    def heartbeat(self) -> Heartbeat | None:
        """Returns the newest heartbeat; None where there is none yet, or the store is away."""
        try:
            content = self.store.read(self._name(heartbeats.FILE_NAME))
            return heartbeats.Heartbeat.model_validate_json(content)
        except (CloudganError, ValidationError):
            return None

    def plan(self) -> Plan | None:
        """Returns the plan that this folder's newest run had; None where none wrote one."""
        try:
            return Plan.model_validate_json(self.store.read(self._name(PLAN_FILE)))
        except (CloudganError, ValidationError):
            return None

    def write_plan(self, plan: Plan) -> None:
        """Leaves the plan beside what it makes, for when its cluster is gone."""
        self.store.put(self._name(PLAN_FILE), plan.model_dump_json(indent=2).encode())

    def launches(self) -> Launch | None:
        """Returns launch.json as another machine left it; None where none did."""
        try:
            return Launch.model_validate_json(self.store.read(self._name(launch.FILE_NAME)))
        except (CloudganError, ValidationError):
            return None

    def write_launches(self, known: Launch) -> None:
        """Leaves launch.json for other machines, so that the money of all attempts is known."""
        self.store.put(self._name(launch.FILE_NAME), known.model_dump_json(indent=2).encode())

    def fetch_if_there(self, folder: RunFolder, say: Callable[[str], None]) -> list[str]:
        """Fetches as `fetch` does; a store that cannot be read is told, not raised."""
        try:
            return self.fetch(folder)
        except CloudganError as error:
            say(f"the results stay in the store: {error}")
            return []

    def fetch(self, folder: RunFolder) -> list[str]:
        """Brings record and checkpoints into the run's folder; returns what came.

        The run.yaml of the pods names places in the pods: what was planned is here already.
        """
        came = []
        try:
            record = self.store.read(self._name("record.jsonl"))
        except ObjectMissingError:
            return []
        if not folder.record_file.exists() or folder.record_file.read_bytes() != record:
            folder.path.mkdir(parents=True, exist_ok=True)
            write_whole(folder.record_file, record)
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
        """Yields what the workers' logs held when they were last stored, worker by worker."""
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
        """Returns how much is kept there; None where the store is away."""
        try:
            return self.store.size_bytes(self._name("")) / _GIB
        except CloudganError:
            return None

    def purge(self) -> int:
        """Removes the run's folder from the store; returns how many files that were."""
        names = self.store.list(self._name(""))
        for name in names:
            self.store.delete(name)
        return len(names)

    def _name(self, name: str) -> str:
        return f"runs/{self.run}/{name}"
