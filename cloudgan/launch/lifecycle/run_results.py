"""Results of a run in its store: heartbeat, record, checkpoints and logs.

Readers return None for an unreachable store, so status and deletion do not depend on it.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.documents import parse_model, write_json
from cloudgan.core.errors import CloudganError, DataError, ResourcesLeftError
from cloudgan.launch.backends.run_document import ForeignDocumentError, RunSource, check_inside
from cloudgan.launch.kubernetes.manifests import CLAIM, run_yaml
from cloudgan.launch.lifecycle.run_registry import RunRegistry
from cloudgan.schema import coevolution, launch
from cloudgan.schema import heartbeat as heartbeats
from cloudgan.schema import record as record_lines
from cloudgan.schema.coevolution import CELLS, CoevolutionConfig, GridStatus, saved_iterations
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.schema.launch import Launch
from cloudgan.schema.plan import FILE_NAME as PLAN_FILE
from cloudgan.schema.plan import Plan
from cloudgan.schema.quality import best_step
from cloudgan.schema.run_folder import RunFolder, checkpoint_name, checkpoint_steps
from cloudgan.schema.run_state import LogLine
from cloudgan.storage.run_logs import list_run_logs, read_run_log
from cloudgan.storage.store import (
    ObjectMissingError,
    Store,
    delete_objects,
    open_store,
    undeletable,
)

_GIB = 2**30
_Model = TypeVar("_Model", bound=BaseModel)

_CHECKPOINT = re.compile(r"step-\d+\.npz", re.ASCII)
_OF_A_GRID = re.compile(
    rf"{CELLS}/\d+-\d+/(record\.jsonl|(state|samples)-\d+\.npz)"
    r"|status\.json|mixture\.npz|mixture_quality\.json|evolution\.html",
    re.ASCII,
)
"""Files of a grid in the store of its run."""


@dataclass(frozen=True)
class RunResults:
    """The folder of one run in a store; what is compared with its plan raises ForeignDocumentError if it is another's.

    Attributes:
        own: Plan by which the folder was found.
    """

    store: Store
    own: Plan

    @property
    def run(self) -> str:
        """Name of the run."""
        return self.own.run

    @classmethod
    def from_plan(cls, plan: Plan) -> RunResults | None:
        """Opens the store of a plan; None for a persistent volume claim, which only pods can read."""
        if plan.store.startswith(CLAIM):
            return None
        return cls(open_store(plan.store), plan)

    def heartbeat(self) -> Heartbeat | None:
        """Returns the newest heartbeat; None if missing or the store is unreachable."""
        return self._document(heartbeats.FILE_NAME, Heartbeat)

    def plan(self) -> Plan | None:
        """Returns the plan of the newest run in this folder; None if missing."""
        found = self._document(PLAN_FILE, Plan)
        return self._source(PLAN_FILE).checked_plan(found) if found else None

    def write_plan(self, plan: Plan) -> None:
        """Writes the plan to the store, for use without its cluster."""
        self.store.put(self._name(PLAN_FILE), plan.model_dump_json(indent=2).encode())

    def read_launch(self) -> Launch | None:
        """Returns the launch.json in the store; None if missing."""
        found = self._document(launch.FILE_NAME, Launch)
        return self._source(launch.FILE_NAME).checked_launch(found) if found else None

    def stored_launch(self) -> tuple[Launch | None, str]:
        """Returns the launch.json in the store (None: missing or damaged), and its version for `write_launch`.

        Raises:
            StoreError: The store does not answer.
        """
        name = self._name(launch.FILE_NAME)
        version = self.store.version(name)
        content = self.store.read(name) if version else b""
        try:
            found = parse_model(content, Launch, name)
        except DataError:
            return None, version
        return self._source(launch.FILE_NAME).checked_launch(found), version

    def write_launch(self, known: Launch, version: str) -> None:
        """Writes launch.json to the store, for budgets on other machines, if the folder is the run's.

        Raises:
            ObjectExistsError: Another process changed it since it had this version.
        """
        if self.is_own():
            content = known.model_dump_json(indent=2).encode()
            self.store.put(self._name(launch.FILE_NAME), content, if_version=version)

    def is_own(self) -> bool:
        """Whether the folder has the plan, or the newest desired state, of this run.

        A document names the store: a folder there may belong to a namesake, or to no run.
        """
        source = replace(self._source(PLAN_FILE), labels=self.own.labels().as_dict())
        problem = None
        try:
            if found := self.plan():
                return source.checked_plan(found) is found
        except ForeignDocumentError as error:
            problem = error
        newest = RunRegistry(self.store, "").read(self.run)
        if newest is None and problem:
            raise problem
        # It differs from the plan after a start that was interrupted before it wrote the plan.
        return newest is not None and source.checked_plan(newest.plan) is newest.plan

    def fetch_if_reachable(self, folder: RunFolder, say: Callable[[str], None]) -> list[str]:
        """Fetches like `fetch`; reports an unreadable store instead of raising."""
        try:
            return self.fetch(folder)
        except CloudganError as error:
            say(f"the results were not fetched from the store: {error}")
            return []

    def fetch(self, folder: RunFolder) -> list[str]:
        """Downloads record, checkpoints and trace, or what is left of a grid, into the run's folder.

        Returns the new files. A record that `train` has continued in the folder since stays as it is.

        run.yaml is not fetched: its paths are those in the pods.
        """
        config = folder.read_config()
        if config and config.grid:
            return self._fetch_grid(folder, config.grid)
        came = []
        record = self.read_record()
        if record is None:
            return []
        files = {folder.record_file: record}
        if self.own.config.parallel.trace:
            with contextlib.suppress(ObjectMissingError):
                files[folder.trace_file] = self.store.read(self._name(folder.trace_file.name))
        for path, content in files.items():
            if not path.exists() or not path.read_bytes().startswith(content):
                folder.path.mkdir(parents=True, exist_ok=True)
                write_atomic(path, content)
                came.append(path.name)
        check_inside(folder.checkpoints, folder.path)
        start = self._name("checkpoints/")
        for name in self.store.list(start):
            path = folder.checkpoints / name.removeprefix(start)
            if _CHECKPOINT.fullmatch(name.removeprefix(start)) and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                self.store.get(name, path)
                came.append(f"checkpoints/{path.name}")
        return came

    def _fetch_grid(self, folder: RunFolder, grid: CoevolutionConfig) -> list[str]:
        """Downloads the files of the cells and the result of a grid; writes its configuration.

        A grid that was continued in the folder since stays as it is.
        """
        self.is_own()
        start, came = self._name(""), list[str]()
        names = self.store.list(start)
        there = saved_iterations(name.rpartition("/")[2] for name in names)
        here = saved_iterations(path.name for path in folder.path.glob(f"{CELLS}/*/*.npz"))
        if max(here, default=0) > max(there, default=0):
            return came
        for name in names:
            local = name.removeprefix(start)
            if not _OF_A_GRID.fullmatch(local):
                continue
            path = folder.path / local
            check_inside(path.parent, folder.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            self.store.get(name, path)
            came.append(local)
        for path in folder.path.glob(f"{CELLS}/*/*.npz"):
            if f"{CELLS}/{path.parent.name}/{path.name}" not in came:
                path.unlink()  # an older state
        if came:
            write_json(folder.path / coevolution.FILE_NAME, grid)
        return came

    def grid_status(self) -> GridStatus | None:
        """Returns what the master of a grid wrote last; None if missing or the store is unreachable."""
        return self._document(coevolution.STATUS_FILE, GridStatus)

    def read_record(self) -> bytes | None:
        """Returns the content of record.jsonl; None: nothing was trained yet."""
        self.is_own()
        try:
            return self.store.read(self._name("record.jsonl"))
        except ObjectMissingError:
            return None

    def log_lines(self) -> Iterator[LogLine]:
        """Yields the stored log lines, worker by worker."""
        for index, name in list_run_logs(self.store, self.run):
            for line in read_run_log(self.store, name):
                yield LogLine.stamped(index, line)

    def gib(self) -> float | None:
        """Returns the size of the folder in GiB; None if the store is unreachable."""
        try:
            return self.store.size_bytes(self._name("")) / _GIB
        except CloudganError:
            return None

    def purge(self) -> int:
        """Deletes the run's folder from the store; returns the number of files.

        The plan is deleted last: until then a second call can check whose folder it is.

        Raises:
            ResourcesLeftError: Objects remain that no request can address safely.
        """
        names = self.check_purge()
        plan_name = self._name(PLAN_FILE)
        ordered = sorted(names, key=lambda name: name == plan_name)
        if left := delete_objects(self.store, ordered):
            raise ResourcesLeftError(f"{self.store.url}: {undeletable(left)}")
        return len(names)

    def check_purge(self) -> tuple[str, ...]:
        """Returns the files that `purge` deletes."""
        names = self.store.list(self._name(""))
        if names and not self.is_own():
            raise ForeignDocumentError(
                f"{self.store.url}/{self._name('')} has {len(names)} files and no plan of run"
                f" {self.run}; nothing was deleted. Delete them with the tools of the store, and"
                " repeat the command"
            )
        return names

    def _document(self, name: str, model: type[_Model]) -> _Model | None:
        """A document of the folder; None if it is missing or damaged, or the store is unreachable."""
        try:
            return parse_model(self.store.read(self._name(name)), model, name)
        except CloudganError:
            return None

    def _source(self, name: str) -> RunSource:
        return RunSource(f"{self.store.url}/{self._name(name)}", self.run, self.own.store)

    def _name(self, name: str) -> str:
        return f"runs/{self.run}/{name}"

    def are_of_finished(self, plan: Plan) -> bool:
        """Whether the run of this plan finished; an earlier run with its name does not count."""
        heartbeat, known = self.heartbeat(), self.plan()
        if not heartbeat or heartbeat.exit_code != 0 or not known:
            return False
        is_same = known.spec_hash == plan.spec_hash
        return is_same and heartbeat.config_hash == heartbeats.config_hash(run_yaml(known).encode())


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
            for name in _to_copy(old, step, path):
                old.store.get(name, path)
                new.store.put(name, path)
    except CloudganError as error:
        say(
            f"the checkpoints in {old.store.url} cannot be copied, so training restarts at step 0: {error}"
        )
        return None
    say(f"copied the checkpoint of step {step} from {old.store.url} to {new.store.url}")
    return step


def _to_copy(old: RunResults, newest: int, path: Path) -> tuple[str, ...]:
    """Names of record and checkpoints to copy, the newest last: its presence marks a complete copy."""
    there = old.store.list(f"runs/{old.run}/")
    record = f"runs/{old.run}/{record_lines.FILE_NAME}"
    best = None
    if record in there:
        old.store.get(record, path)
        best = best_step(record_lines.read_if_whole(path).validations())
    steps = [step for step in (best, newest) if step is not None]
    names = [f"runs/{old.run}/checkpoints/{checkpoint_name(step)}" for step in dict.fromkeys(steps)]
    return tuple(name for name in (record, *names) if name in there)


def _newest(results: RunResults) -> int | None:
    names = results.store.list(f"runs/{results.run}/checkpoints/")
    steps = checkpoint_steps(name.rpartition("/")[2] for name in names)
    return steps[-1] if steps else None
