"""The program of a worker whose run joins a search: trains one trial after another.

`python -m cloudgan.api.search_block`, started by the agent in a pod. It shows in its status that it is
free, takes the assignment that the coordinator writes, and trains it as an ordinary run, whose record and
checkpoints are in the store of the search. A trial that another block has begun continues from there.
"""

from __future__ import annotations

import math
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType

from cloudgan.core import settings
from cloudgan.core.clock import utc_now
from cloudgan.core.documents import parse_model
from cloudgan.core.errors import CloudganError, ConfigError, DataError, TryAgain
from cloudgan.core.progress import Progress
from cloudgan.core.tail import tail_lines
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.liveness import LivenessFile
from cloudgan.schema.run_folder import RunFolder, checkpoint_name, checkpoint_steps
from cloudgan.schema.search_exchange import (
    ASSIGNMENT,
    BEAT_SECONDS,
    BLOCKS,
    COORDINATOR,
    LEASE_SECONDS,
    Assignment,
    BlockStatus,
    CoordinatorStatus,
    Spell,
    search_prefix,
)
from cloudgan.search.blocks import LOG, PROGRAM, Block
from cloudgan.storage.store import (
    ObjectMissingError,
    Store,
    StoreError,
    open_store,
    retry_on_store_error,
)
from cloudgan.worker.pod_environment import PodEnvironment, read_pod_environment
from cloudgan.worker.status_beat import StatusBeat
from cloudgan.worker.store_sync import (
    CHECKPOINTS,
    RunSync,
    file_upload,
    stage_showers,
)
from cloudgan.worker.timeouts import Timeouts, Watchdog
from cloudgan.worker.trainer_process import LogProgress, WorkerLog

_POLL_SECONDS = 0.2
_ASK_SECONDS, _LOOK_SECONDS = 1.0, 2.0
_ABSENT_SECONDS = 600.0
_STOP_SECONDS = 60.0
_STORE_PAUSE_SECONDS = 2.0
_LOG_LINES = 20
_SHOWERS = re.compile(r"data/[0-9a-f]{16}", re.ASCII)


class SearchBlock:
    """One block from its start to its exit code.

    Attributes:
        stop: Set from outside: the block saves its trial and leaves.
    """

    def __init__(
        self,
        pod: PodEnvironment,
        liveness: LivenessFile,
        say: Callable[[str], None],
        *,
        program: tuple[str, ...] = PROGRAM,
        beat_seconds: float = BEAT_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
        absent_seconds: float = _ABSENT_SECONDS,
    ) -> None:
        """Starts to show that the block is here.

        Args:
            pod: Of the worker.
            liveness: File that the agent watches.
            say: Receives lines for the log.
            program: Trains the run whose folder its last argument names.
            beat_seconds: How often the status is written.
            lease_seconds: The coordinator takes the block for lost after this time without a beat.
            absent_seconds: A block that waits without a coordinator for this long ends.
        """
        self._pod, self._liveness, self._moves = pod, liveness, 0
        self._log = WorkerLog(pod.work / "logs" / "block.log", say)
        self._lease_seconds = lease_seconds
        self._absent_seconds, self._heard_seconds = absent_seconds, time.monotonic()
        self._url = f"{pod.store_url}/{search_prefix(pod.config.join)}"
        self._store = open_store(self._url)
        since = utc_now().replace(":", "").replace("-", "").lower()
        incarnation = f"{since}-{time.time_ns() % 10**9:09d}"
        self._name = f"{BLOCKS}/{pod.run}-{pod.peers.index}-{incarnation}"
        self._coordinator: CoordinatorStatus | None = None
        trial_liveness = pod.work / "trial-liveness.json"
        self._trial_liveness = LivenessFile(trial_liveness)
        self._block = Block(0, {"CLOUDGAN_LIVENESS": str(trial_liveness)}, program)
        _wait_for_trainers(pod.work / "runs")
        self._beat = StatusBeat(
            open_store(f"{self._url}/{self._name}"),
            BlockStatus(
                deployment=pod.run,
                worker=pod.peers.index,
                incarnation=incarnation,
                beat=0,
                seconds=0.0,
            ),
            self._log.say,
            every_seconds=beat_seconds,
        )
        self.stop = threading.Event()

    def run(self) -> int:
        """Trains until the search has ended or no coordinator is there; returns the exit code."""
        self._log.say(f"block {self._name} in {self._url}")
        code = TryAgain.exit_code
        try:
            while not self.stop.is_set():
                self._move()
                why, given = self._ask()
                if why:
                    self._log.say(why)
                    code = 0
                    break
                if given and given.number > self._beat.status.assignment:
                    self._train(given)
                else:
                    self.stop.wait(_ASK_SECONDS)
        finally:
            self._block.kill()
            self._beat.close()
        return code

    def _ask(self) -> tuple[str, Assignment | None]:
        """Returns why the block is to leave (empty: it stays), and its newest assignment."""
        try:
            return self._reason_to_leave(), self._assignment()
        except StoreError as error:
            self._log.say(f"{error}; retrying")
            return "", None

    def _train(self, given: Assignment) -> None:
        """Trains a trial to its end, or until it is withdrawn; reports its exit code."""
        run, began = given.run, self._beat.seconds
        self._beat.change(
            assignment=given.number,
            code=None,
            tail=(),
            record_bytes=0,
            trial=run.trial,
            trial_since=began,
        )
        self._log.say(f"trial {run.name}")
        tail: list[str] = []
        work = _TrialFiles(replace(self._pod, run=run.name), open_store(f"{self._url}/{run.path}"))
        try:
            config = self._own_config(given.config, run.path)
            code = TryAgain.exit_code
            if not given.stop:
                self._patiently(lambda: work.stage(config, LogProgress(self._log)))
                code = self._supervise(given, work)
                if self._is_own(given.number):
                    self._patiently(work.upload)
                tail = list(tail_lines(work.folder.path / LOG))[-_LOG_LINES:]
        except CloudganError as error:
            self._log.say(str(error))
            code, tail = error.exit_code, [f"cloudgan: {error}"]
        self._log.say(f"trial {run.name} ended with code {code}")
        spell = Spell(trial=run.trial, seconds=self._beat.seconds - began)
        self._beat.change(
            code=code,
            tail=tuple(tail),
            spells=(*self._beat.status.spells, spell),
            record_bytes=work.record_bytes,
            trial=None,
        )

    def _own_config(self, config: RunConfig, path: str) -> RunConfig:
        """Returns the run.yaml of a trial with this pod's threads and the run's folder in the store.

        Raises:
            DataError: It names other files: who can write to the store must not choose what a pod reads.
        """
        if not _SHOWERS.fullmatch(config.data.path) or config.training.init_from:
            named = config.training.init_from or config.data.path
            raise DataError(
                f"{ASSIGNMENT} names {named}: a trial reads the showers of its store only"
            )
        checkpoint = config.checkpoint.model_copy(update={"url": f"{self._url}/{path}/checkpoints"})
        threads = config.training.threads or self._pod.config.training.threads
        training = config.training.model_copy(update={"threads": threads})
        return config.model_copy(update={"checkpoint": checkpoint, "training": training})

    def _supervise(self, given: Assignment, work: _TrialFiles) -> int:
        """Runs the trainer; returns its exit code."""
        self._trial_liveness.clear()
        self._block.start(given.run, work.folder.path)
        watchdog = Watchdog(Timeouts(), time.monotonic())
        kill_at, look_at = math.inf, 0.0
        while (code := self._block.ended()) is None:
            now = time.monotonic()
            self._move()
            if liveness := self._trial_liveness.read():
                watchdog.saw_step(liveness.step, now)
            must_stop = self.stop.is_set()
            if now >= look_at:
                look_at = now + _LOOK_SECONDS
                must_stop = self._is_withdrawn(given.number, work) or must_stop
            if must_stop and kill_at == math.inf:
                self._block.request_stop()
                kill_at = now + _STOP_SECONDS
            problem = self._problem(watchdog, now)
            if problem or now > kill_at:
                self._log.say(problem or "the trainer did not stop in time")
                self._block.kill()
            time.sleep(_POLL_SECONDS)
        return code

    def _problem(self, watchdog: Watchdog, now: float) -> str:
        """Returns why the trainer is killed; empty: it goes on."""
        # Another block has the trial after the lease: two must not write one record.
        if self._beat.silent_seconds > self._lease_seconds / 2:
            return "the store cannot be written"
        return "the trainer makes no progress" if watchdog.is_stalled(now) else ""

    def _is_withdrawn(self, number: int, work: _TrialFiles) -> bool:
        """Uploads the record while the trial is this block's; returns whether it must stop."""
        try:
            given = self._assignment()
            if given is None or given.number != number or given.stop:
                return True
            if work.upload_record():
                self._beat.change(record_bytes=work.record_bytes)
            return self._is_finished()
        except (StoreError, OSError) as error:
            self._log.say(f"{error}; retrying")
            return False

    def _is_own(self, number: int) -> bool:
        """Whether no other block may have the trial of an assignment."""
        given: Assignment | None = None

        def read() -> None:
            nonlocal given
            given = self._assignment()

        self._patiently(read)
        return given is not None and given.number == number and not given.lost

    def _is_finished(self) -> bool:
        """Whether the search has ended."""
        found = self._read_coordinator()
        if found != self._coordinator:
            self._coordinator, self._heard_seconds = found, time.monotonic()
        return found is not None and found.phase == "finished"

    def _reason_to_leave(self) -> str:
        if self._is_finished():
            return "the search has ended"
        if time.monotonic() - self._heard_seconds > self._absent_seconds:
            return (
                f"no coordinator for {self._absent_seconds:.0f} s: `cloudgan search` continues the search,"
                " and another `cloudgan deploy -- join` its blocks"
            )
        return ""

    def _assignment(self) -> Assignment | None:
        try:
            content = self._store.read(f"{self._name}/{ASSIGNMENT}")
        except ObjectMissingError:
            return None
        return parse_model(content, Assignment, ASSIGNMENT)

    def _read_coordinator(self) -> CoordinatorStatus | None:
        try:
            return parse_model(self._store.read(COORDINATOR), CoordinatorStatus, COORDINATOR)
        except ObjectMissingError:
            return None

    def _patiently(self, function: Callable[[], None]) -> None:
        """Calls a function until the store does not fail, for the time of the lease."""
        retry_on_store_error(
            function,
            patience_seconds=self._lease_seconds,
            pause_seconds=_STORE_PAUSE_SECONDS,
            say=self._log.say,
        )()

    def _move(self) -> None:
        """Shows the agent that this program is alive; the trainer has a watchdog of its own."""
        self._moves += 1
        self._liveness.update(self._moves, 0)


class _TrialFiles:
    """The folder of a trial in a pod, and its copy in the store."""

    def __init__(self, pod: PodEnvironment, store: Store) -> None:
        self.folder, self._pod, self._store = pod.folder, pod, store
        self._sync = RunSync(self.folder, store)
        path = self.folder.record_file
        self._record = file_upload(store, path.name, path, every_seconds=0.0)

    @property
    def record_bytes(self) -> int:
        """Size of the record."""
        path = self.folder.record_file
        return path.stat().st_size if path.exists() else 0

    def stage(self, config: RunConfig, progress: Progress) -> None:
        """Downloads the showers, once for all trials, and the record; the trainer loads the checkpoint."""
        shutil.rmtree(self.folder.path, ignore_errors=True)  # the store has the newest state
        stage_showers(replace(self._pod, config=config), progress)
        self._sync.prepare_chief(config)
        self._drop_unrecorded()

    def _drop_unrecorded(self) -> None:
        """Deletes checkpoints that are newer than the record, whose block died before it uploaded both.

        A trial that continued there would lack validations, of which its objective is the median.
        """
        lines = record.read_if_whole(self.folder.record_file).lines
        newest = max((line.step for line in lines), default=0)
        for step in checkpoint_steps(
            name.rpartition("/")[2] for name in self._store.list(f"{CHECKPOINTS}/")
        ):
            if step > newest:
                self._store.delete(f"{CHECKPOINTS}/{checkpoint_name(step)}")

    def upload_record(self) -> bool:
        """Uploads the record if it changed; returns whether it did."""
        if not self._record.is_pending():
            return False
        self._record.upload(time.monotonic())
        return True

    def upload(self) -> None:
        """Uploads the record, and checkpoints that the trainer did not copy."""
        self._sync.push_checkpoints()
        self.upload_record()


def _wait_for_trainers(runs: Path) -> None:
    """Waits for trainers of an earlier process of this worker, which save and end without it.

    The coordinator gives their trials to other blocks as soon as this worker shows itself again.
    """
    deadline = time.monotonic() + _STOP_SECONDS
    for path in runs.glob("*"):
        while time.monotonic() < deadline:
            try:
                with RunFolder(path).locked():
                    break
            except ConfigError:
                time.sleep(_POLL_SECONDS)


def main() -> int:
    """Trains trials of a search; returns the exit code."""
    try:
        pod = read_pod_environment(settings.variable)
        block = SearchBlock(pod, LivenessFile(settings.liveness_file()), _say)
        _stop_with_agent(block.stop)
        return block.run()
    except CloudganError as error:
        _say(f"cloudgan: {error}")
        return error.exit_code


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _stop_with_agent(stop: threading.Event) -> None:
    """Sets `stop` at SIGTERM, and when the agent closes the standard input or dies."""

    def request(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    def wait() -> None:
        sys.stdin.read()
        stop.set()

    signal.signal(signal.SIGTERM, request)
    threading.Thread(target=wait, name="agent", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
