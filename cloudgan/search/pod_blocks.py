"""Blocks in the pods of deployments, as the coordinator sees them: documents in a store.

A block asks by its status, which shows that it is free; the coordinator answers with an assignment. Each
document has one writer, so no request can be lost or answered twice. The program in the pod is
`cloudgan.api.search_block`.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.clock import utc_now
from cloudgan.core.documents import parse_model
from cloudgan.core.errors import ConfigError, CredentialsError, TryAgain
from cloudgan.schema import record
from cloudgan.schema.quality import best_step
from cloudgan.schema.run_folder import RunFolder, checkpoint_name, checkpoint_steps
from cloudgan.schema.search_exchange import (
    ASSIGNMENT,
    BEAT_SECONDS,
    BLOCKS,
    COORDINATOR,
    LEASE_SECONDS,
    STATES,
    STATUS,
    Assignment,
    BlockStatus,
    CoordinatorStatus,
    TrialRun,
    TrialStates,
)
from cloudgan.search.blocks import LOG
from cloudgan.search.folder import SearchFolder
from cloudgan.storage.store import ObjectExistsError, ObjectMissingError, Store, StoreError

LOST = -9
"""Exit code of a training whose block was lost, as of a process that was killed."""
_LIST_SECONDS = 5.0
_ABSENT_SECONDS = 1800.0
_STUDY = "study.json"


class PodBlock:
    """One incarnation of a worker of a deployment.

    Attributes:
        index: Its folder in the store, unique.
    """

    def __init__(
        self, index: str, store: Store, folder: SearchFolder, data: str, lease_seconds: float
    ) -> None:
        """Knows nothing of the block until `see`.

        Args:
            index: Name of its folder in the store.
            store: Of the search.
            folder: Of the search on this machine.
            data: Path of the showers in the store of the deployments.
            lease_seconds: Time without a beat after which the block is lost.
        """
        self.index = index
        self._store, self._folder, self._data = store, folder, data
        self._lease_seconds, self._seen_seconds = lease_seconds, time.monotonic()
        self.status: BlockStatus | None = None
        self.has_moved = False
        self.is_lost = False
        self._assignment = self._read_assignment()
        self._record_bytes = 0

    @property
    def is_over(self) -> bool:
        """Whether the block trains nothing any more."""
        return self.is_lost or (self.status is not None and self.status.left)

    @property
    def is_ready(self) -> bool:
        """Whether the block is alive and waits for a trial."""
        status = self.status
        if status is None or self.is_over or not self.has_moved:
            return False
        return self._assignment is None or self.has_ended

    @property
    def has_ended(self) -> bool:
        """Whether the training of the newest assignment has ended."""
        given, status = self._assignment, self.status
        if given is None or status is None:
            return False
        return status.assignment == given.number and status.code is not None

    @property
    def run(self) -> TrialRun | None:
        """The run of the newest assignment; None: there is none, or it was withdrawn."""
        given = self._assignment
        return None if given is None or given.stop else given.run

    def see(self, status: BlockStatus, now_seconds: float) -> None:
        """Takes the newest status; a beat that does not move for the lease means that it is lost."""
        if self.status is None or status.beat != self.status.beat:
            self.has_moved = self.has_moved or self.status is not None
            self._seen_seconds = now_seconds
        elif now_seconds - self._seen_seconds > self._lease_seconds:
            self.is_lost = True
        self.status = status

    def start(self, run: TrialRun, path: Path) -> None:
        """Assigns a run of a trial, whose folder `path` holds its run.yaml."""
        config = RunFolder(path).read_config()
        if config is None:
            raise ConfigError(f"{path} has no run.yaml")
        data = config.data.model_copy(update={"path": self._data})
        number = self._assignment.number + 1 if self._assignment else 1
        self._record_bytes = 0
        self._assign(
            Assignment(
                number=number,
                trial=run.trial,
                fold=run.fold,
                config=config.model_copy(update={"data": data}),
            )
        )

    def ended(self) -> int | None:
        """Fetches the record; returns the exit code of the training, None while it runs."""
        if self._assignment is None or self.status is None:
            return None
        try:
            return self._ended(self._assignment, self.status)
        except CredentialsError:
            raise
        except StoreError:  # the next look reads it again
            return None

    def _ended(self, given: Assignment, status: BlockStatus) -> int | None:
        folder = RunFolder(self._folder.run(given.run))
        if self.has_ended or self.is_over:
            self._fetch_record(folder, given.run)
        elif status.assignment == given.number and status.record_bytes != self._record_bytes:
            self._fetch_record(folder, given.run)
            self._record_bytes = status.record_bytes
        if self.has_ended:
            self._fetch_checkpoints(folder, given.run)
            self._append_log(folder, status.tail)
            return status.code
        if self.is_over:
            # A block that only seemed lost must not go on.
            self._assign(given.model_copy(update={"stop": True, "lost": True}))
            return LOST
        return None

    def request_stop(self) -> None:
        """Asks the block to save a checkpoint and to stop."""
        if self._assignment and not self._assignment.stop:
            self._assign(self._assignment.model_copy(update={"stop": True}))

    def _assign(self, assignment: Assignment) -> None:
        self._store.put(self._name(ASSIGNMENT), assignment.model_dump_json().encode())
        self._assignment = assignment

    def _read_assignment(self) -> Assignment | None:
        try:
            content = self._store.read(self._name(ASSIGNMENT))
        except ObjectMissingError:
            return None
        return parse_model(content, Assignment, ASSIGNMENT)

    def _name(self, file: str) -> str:
        return f"{BLOCKS}/{self.index}/{file}"

    def _fetch_record(self, folder: RunFolder, run: TrialRun) -> None:
        try:
            content = self._store.read(f"{run.path}/{record.FILE_NAME}")
        except ObjectMissingError:
            return
        write_atomic(folder.record_file, content)

    def _fetch_checkpoints(self, folder: RunFolder, run: TrialRun) -> None:
        """Downloads the newest checkpoint and the best one."""
        prefix = f"{run.path}/checkpoints/"
        names = [name.removeprefix(prefix) for name in self._store.list(prefix)]
        steps = checkpoint_steps(names)
        best = best_step(record.read_if_whole(folder.record_file).validations())
        for step in {*steps[-1:], *({best} & set(steps))}:
            path = folder.checkpoints / checkpoint_name(step or 0)
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                self._store.get(f"{prefix}{path.name}", path)

    @staticmethod
    def _append_log(folder: RunFolder, tail: Sequence[str]) -> None:
        with (folder.path / LOG).open("a", encoding="utf-8") as log:
            log.writelines(f"{line}\n" for line in tail)


def claim_store(store: Store, folder: SearchFolder) -> str:
    """Returns the identity of a search, which its folder and its store share; writes it where it is missing.

    Raises:
        ConfigError: The store has another search of this name, or its bucket is missing.
        StoreError: The store cannot be reached, or not written.
    """
    file = folder.path / _STUDY
    before = own = file.read_text(encoding="utf-8") if file.exists() else ""
    if not own:
        own = f"{utc_now()} {secrets.token_hex(8)}"
        write_atomic(file, own.encode())
    try:
        store.put(_STUDY, own.encode(), if_absent=True)
    except ObjectExistsError:
        if store.read(_STUDY).decode(errors="replace") != own:
            raise ConfigError(
                f"{store.url} has another search {folder.path.name}: give another --run, or"
                " continue that one from its own folder"
            ) from None
    except StoreError:
        if not before:
            file.unlink()
        raise
    return own


class _Read(NamedTuple):
    """The newest status of the blocks that are not over."""

    listed_seconds: float
    names: tuple[str, ...]


class PodBlocks:
    """The blocks of all deployments that joined a search."""

    poll_seconds = 1.0

    def __init__(
        self,
        store: Store,
        folder: SearchFolder,
        data: str,
        say: Callable[[str], None],
        *,
        beat_seconds: float = BEAT_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
        absent_seconds: float = _ABSENT_SECONDS,
    ) -> None:
        """Becomes the coordinator of the search in `store`.

        Args:
            store: Of the search.
            folder: Of the search on this machine.
            data: Path of the showers in the store of the deployments.
            say: Receives a line for each block that comes or goes.
            beat_seconds: How often the coordinator shows that it is alive.
            lease_seconds: Time without a beat after which a block is lost.
            absent_seconds: Longest time without any block.

        Raises:
            ConfigError: Another coordinator runs the search, or the store has another search of this name.
            StoreError: The store failed.
        """
        self._store, self._folder, self._data, self._say = store, folder, data, say
        self._lease_seconds, self._absent_seconds = lease_seconds, absent_seconds
        self._blocks: dict[str, PodBlock] = {}
        self._read = _Read(float("-inf"), ())
        self._alive_seconds = time.monotonic()
        self._study = claim_store(store, folder)
        self._incarnation = secrets.token_hex(8)
        self._check_alone(beat_seconds)
        self._beat = 0
        self._put("running")
        self._states: TrialStates | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._keep_alive, args=(beat_seconds,), name="beat", daemon=True
        )
        self._thread.start()

    def current(self) -> Sequence[PodBlock]:
        """Reads the status of all blocks; returns those that may train, and those just lost.

        Raises:
            TryAgain: There was no block for a long time.
        """
        now = time.monotonic()
        try:
            self._refresh(now)
        except CredentialsError:
            raise
        except StoreError as error:
            self._say(f"{error}; retrying")
        if any(not block.is_over for block in self._blocks.values()):
            self._alive_seconds = now
        elif now - self._alive_seconds > self._absent_seconds:
            raise TryAgain(
                f"no block for {self._absent_seconds / 60:.0f} min; start one with `cloudgan deploy"
                f" -- join {self._folder.path.name}` with the same --store, and continue with `cloudgan search"
                f" {self._folder.path}`"
            )
        return tuple(self._blocks.values())

    def training(self) -> dict[TrialRun, str]:
        """Returns the blocks that train what an earlier coordinator gave them, by run."""
        known = [block for block in self._blocks.values() if block.run is not None]
        # A block that ended or was lost may have been followed by another one.
        known.sort(key=lambda block: not (block.is_over or block.has_ended))
        return {block.run: block.index for block in known if block.run is not None}

    def run_threads(self) -> int | None:
        """Returns None: a pod sets the threads of its trials."""
        return None

    def note(self, states: TrialStates) -> None:
        """Writes the states of the trials and the best one, if they changed."""
        if states != self._states:
            self._store.put(STATES, states.model_dump_json().encode())
            self._states = states

    def close(self, *, finished: bool) -> None:
        """Leaves the blocks; those of a finished search end."""
        self._ended.set()
        self._thread.join()
        self._put("finished" if finished else "paused")

    def _refresh(self, now: float) -> None:
        if now - self._read.listed_seconds > _LIST_SECONDS:
            names = self._store.list(f"{BLOCKS}/")
            ends = f"/{STATUS}"
            found = [name.split("/")[1] for name in names if name.endswith(ends)]
            self._read = _Read(now, tuple(found))
        for index in self._read.names:
            block = self._blocks.get(index)
            if block is None:
                block = PodBlock(index, self._store, self._folder, self._data, self._lease_seconds)
                self._blocks[index] = block
            if not block.is_over:
                self._see(block)
        self._lose_replaced()

    def _see(self, block: PodBlock) -> None:
        is_new = block.status is None
        content = self._store.read(f"{BLOCKS}/{block.index}/{STATUS}")
        block.see(parse_model(content, BlockStatus, STATUS), time.monotonic())
        if block.is_over and not is_new:
            self._say(f"block {block.index} {'is lost' if block.is_lost else 'left'}")
        elif is_new and not block.is_over:
            self._say(f"block {block.index} is here")

    def _lose_replaced(self) -> None:
        """A worker that started again has lost what its earlier incarnation did."""
        newest: dict[tuple[str, int], str] = {}
        for block in self._blocks.values():
            if block.status:
                key = block.status.deployment, block.status.worker
                newest[key] = max(newest.get(key, ""), block.status.incarnation)
        for block in self._blocks.values():
            status = block.status
            if (
                status
                and not block.is_over
                and status.incarnation < newest[status.deployment, status.worker]
            ):
                block.is_lost = True
                self._say(f"block {block.index} was replaced")

    def _check_alone(self, beat_seconds: float) -> None:
        """Watches for more than two beats whether another coordinator is alive."""
        before = self._read_coordinator()
        if before is None or before.phase != "running":
            return
        self._say("waiting whether another coordinator of this search is alive")
        deadline = time.monotonic() + 2.5 * beat_seconds
        while time.monotonic() < deadline:
            time.sleep(beat_seconds / 10)
            if self._read_coordinator() != before:
                raise ConfigError(
                    f"another process coordinates the search in {self._store.url}; stop it with Ctrl-C,"
                    " or wait for it"
                )

    def _read_coordinator(self) -> CoordinatorStatus | None:
        try:
            content = self._store.read(COORDINATOR)
        except ObjectMissingError:
            return None
        return parse_model(content, CoordinatorStatus, COORDINATOR)

    def _keep_alive(self, beat_seconds: float) -> None:
        while not self._ended.wait(beat_seconds):
            self._beat += 1
            try:
                self._put("running")
            except StoreError as error:
                self._say(f"{error}; retrying")

    def _put(self, phase: str) -> None:
        status = CoordinatorStatus.model_validate(
            {
                "study": self._study,
                "incarnation": self._incarnation,
                "beat": self._beat,
                "phase": phase,
            }
        )
        self._store.put(COORDINATOR, status.model_dump_json().encode())
