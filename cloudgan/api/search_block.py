"""The program of a worker whose run joins a search: the loop of `cloudgan search` on the journal in the store.

`python -m cloudgan.api.search_block`, started by the agent in a pod. Each trial is an ordinary run, whose record and
checkpoints are in the store of the search. A trial that another block has begun continues from there.
"""

from __future__ import annotations

import re
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from cloudgan.core import settings
from cloudgan.core.children import StopSignal, at_its_end, tail_lines
from cloudgan.core.clock import utc_now
from cloudgan.core.errors import CloudganError, ConfigError, DataError, TryAgain
from cloudgan.core.progress import Progress
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.heartbeat import LivenessFile
from cloudgan.schema.run_folder import RunFolder, checkpoint_name, checkpoint_steps
from cloudgan.schema.search import (
    BEAT_SECONDS,
    BLOCKS,
    FILE_NAME,
    LEASE_SECONDS,
    BlockStatus,
    SearchConfig,
    Spell,
    TrialRun,
    search_prefix,
)
from cloudgan.search.blocks import LOG, PROGRAM, Block, BlockWatch, wait_for_trainers
from cloudgan.search.folder import check_extra
from cloudgan.storage.store import Store, StoreError, open_store, retry_on_store_error
from cloudgan.worker.pod_environment import PodEnvironment, read_pod_environment
from cloudgan.worker.store_sync import (
    CHECKPOINTS,
    RunSync,
    StatusBeat,
    file_upload,
    stage_showers,
)
from cloudgan.worker.trainer_process import LogProgress, Timeouts, Watchdog, WorkerLog

_ABSENT_SECONDS = 600.0
_STOP_SECONDS = 60.0
_ASK_SECONDS = 1.0
_STORE_PAUSE_SECONDS = 2.0
_LOG_LINES = 20
_KEPT = 3  # checkpoints: a record in the store may not name the last ones, see `_drop_unrecorded`
_SHOWERS = re.compile(r"data/[0-9a-f]{16}", re.ASCII)


class Pod:
    """A pod as the place of a search: its runs are copies of those in the store."""

    look_seconds = 2.0

    def __init__(
        self,
        pod: PodEnvironment,
        store: Store,
        beat: StatusBeat,
        log: WorkerLog,
        *,
        liveness: LivenessFile,
        lease_seconds: float,
    ) -> None:
        """A block is lost after `lease_seconds` without a beat.

        The agent watches `liveness`, the trainer has a watchdog of its own.
        """
        self._pod, self._store, self._beat, self._log = pod, store, beat, log
        self._liveness, self._moves, self._lease_seconds = liveness, 0, lease_seconds
        self._watch = BlockWatch(store, lease_seconds)
        self._files: _TrialFiles | None = None
        self._watchdog = Watchdog(Timeouts(), time.monotonic())
        self._upload_seconds = 0.0
        path = pod.work / "trial-liveness.json"
        self._trial_liveness = LivenessFile(path)
        self.variables = {"CLOUDGAN_LIVENESS": str(path)}

    def folder(self, run: TrialRun) -> RunFolder:
        """Returns the folder of a run in this pod."""
        return replace(self._pod, run=run.name).folder

    def is_lost(self, run: TrialRun, holder: str) -> bool:
        """Whether the block that holds a run has left, was replaced, or shows no life for the lease."""
        why = self._watch.why_gone(holder)
        if why:
            self._log.say(f"trial {run.name}: block {holder} {why}")
        return bool(why)

    def saved_step(self, run: TrialRun) -> int:
        """Returns the step of the newest checkpoint of a run in the store; 0: none."""
        return max(_saved_steps(self._store, f"{run.path}/{CHECKPOINTS}/"), default=0)

    def prepare(self, run: TrialRun, config: RunConfig) -> None:
        """Downloads showers and record; the trainer loads the checkpoint."""
        self._beat.change(trial=run.trial, trial_since=self._beat.seconds)
        self._log.say(f"trial {run.name}")
        own = self._own_config(config, run.path)
        store = open_store(f"{self._store.url}/{run.path}")
        files = self._files = _TrialFiles(replace(self._pod, run=run.name), store)
        self._patiently(lambda: files.stage(own, LogProgress(self._log)))
        self._trial_liveness.clear()
        self._watchdog = Watchdog(Timeouts(), time.monotonic())

    def _own_config(self, config: RunConfig, path: str) -> RunConfig:
        """Returns the run.yaml of a trial with this pod's threads and the run's folder in the store."""
        if not _SHOWERS.fullmatch(config.data.path) or config.training.init_from:
            # Who can write to the store must not choose what a pod reads.
            named = config.training.init_from or config.data.path
            raise DataError(
                f"{FILE_NAME} names {named}: a trial reads the showers of its store only"
            )
        url = f"{self._store.url}/{path}/{CHECKPOINTS}"
        keep = max(config.checkpoint.keep, _KEPT)
        checkpoint = config.checkpoint.model_copy(update={"url": url, "keep": keep})
        threads = config.training.threads or self._pod.config.training.threads
        training = config.training.model_copy(update={"threads": threads})
        return config.model_copy(update={"checkpoint": checkpoint, "training": training})

    def watch(self, run: TrialRun) -> str:
        """Uploads the record when it grows; returns why the training is to be killed."""
        now = time.monotonic()
        if liveness := self._trial_liveness.read():
            self._watchdog.saw_step(liveness.step, now, liveness.blocks)
        if self._files and now >= self._upload_seconds:
            self._upload_seconds = now + self.look_seconds
            try:
                self._files.upload_record()
            except (StoreError, OSError) as error:
                self._log.say(f"trial {run.name}: {error}; retrying")
        # Another block has the trial after the lease: two must not write one record.
        if self._beat.silent_seconds > self._lease_seconds / 2:
            return "the store cannot be written"
        return "its training makes no progress" if self._watchdog.is_stalled(now) else ""

    def ended(self, run: TrialRun, *, is_own: bool) -> None:
        """Uploads what a training left, and the time that it took."""
        status = self._beat.status
        if status.trial is None:
            return
        if self._files and is_own:
            self._patiently(self._files.upload)
        spell = Spell(trial=run.trial, seconds=self._beat.seconds - status.trial_since)
        self._beat.change(spells=(*status.spells, spell), trial=None)
        self._files = None

    def limit(self) -> str:
        """Shows that this program is alive; a pod has no limit but those of its deployment."""
        self._moves += 1
        self._liveness.update(self._moves, 0)
        return ""

    def _patiently(self, function: Callable[[], None]) -> None:
        """Calls a function until the store does not fail, for the time of the lease."""
        retry_on_store_error(
            function,
            patience_seconds=self._lease_seconds,
            pause_seconds=_STORE_PAUSE_SECONDS,
            say=self._log.say,
        )()


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
        """The last argument of `program` names the folder of a run.

        A block whose search is not published ends after `absent_seconds`.
        """
        self._pod, self._absent_seconds = pod, absent_seconds
        self._log = WorkerLog(pod.work / "logs" / LOG, say)
        self._store = open_store(f"{pod.store_url}/{search_prefix(pod.config.join)}")
        since = utc_now().replace(":", "").replace("-", "").lower()
        incarnation = f"{since}-{time.time_ns() % 10**9:09d}"
        self._name = f"{pod.run}-{pod.peers.index}-{incarnation}"
        # Other blocks take the trials of its earlier incarnation as soon as this worker shows itself again.
        deadline = time.monotonic() + _STOP_SECONDS
        earlier = (pod.work / "runs").glob("*")
        wait_for_trainers(earlier, self._log.say, lambda: time.monotonic() > deadline)
        self._beat = StatusBeat(
            open_store(f"{self._store.url}/{BLOCKS}/{self._name}"),
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
        self._place = Pod(
            pod,
            self._store,
            self._beat,
            self._log,
            liveness=liveness,
            lease_seconds=lease_seconds,
        )
        program = (*program, "--no-report")  # it would stay in the pod
        if pod.config.has_ranks:  # what deployed it keeps others from the ports of its ranks
            program = (*program, "--allow-open-ports")
        self._block = Block(0, self._place.variables, program)
        self.stop = StopSignal()

    def run(self) -> int:
        """Trains until the search has ended; returns the exit code."""
        check_extra()
        from cloudgan.search.shared import open_published
        from cloudgan.search.trial_loop import FailingError, TrialLoop

        self._log.say(f"block {self._name} in {self._store.url}")
        try:
            deadline, found = time.monotonic() + self._absent_seconds, None
            while found is None and self.stop.number is None:
                self._place.limit()
                try:
                    found = open_published(self._store, self._pod.config.join)
                except StoreError as error:
                    self._log.say(f"{error}; retrying")
                if found is None and time.monotonic() > deadline:
                    raise TryAgain(
                        f"no search in {self._store.url} for {self._absent_seconds:.0f} s: `cloudgan search"
                        " --store` publishes it, and another `cloudgan deploy -- join` starts its blocks"
                    )
                time.sleep(0.0 if found else _ASK_SECONDS)
            if found:
                self._check_deployment(found[0])
                progress, blocks = LogProgress(self._log), [self._block]
                loop = TrialLoop(
                    *found, blocks, self._place, progress, name=self._name, stop=self.stop
                )
                loop.run()
        except FailingError as error:
            self._log.say(str(error))
        finally:
            self._block.kill()
            self._beat.close()
        if self.stop.number is not None:
            return TryAgain.exit_code
        self._log.say("the search has ended")
        return 0

    def _check_deployment(self, search: SearchConfig) -> None:
        """Checks that this deployment is for the trials: it has their engine, and protects the ports of their ranks."""
        from cloudgan.search.shared import join_command

        own, name = self._pod.config, self._pod.config.join
        engine, mode = search.base.training.engine, search.base.parallel.mode
        right = f"deploy its blocks with `{join_command(search, name)}`"
        if engine != own.training.engine:
            raise ConfigError(
                f"the search {name} trains with --engine={engine}, and this deployment is for {own.training.engine}:"
                f" {right}"
            )
        if mode not in {"none", own.parallel.mode}:
            raise ConfigError(
                f"the search {name} trains with --parallel={mode}, and nothing keeps others from the ports of its ranks"
                f" here: {right}"
            )


class _TrialFiles:
    """The folder of a trial in a pod, and its copy in the store."""

    def __init__(self, pod: PodEnvironment, store: Store) -> None:
        self.folder, self._pod, self._store = pod.folder, pod, store
        self._sync = RunSync(self.folder, store)
        path = self.folder.record_file
        self._record = file_upload(store, path.name, path, every_seconds=0.0)

    def stage(self, config: RunConfig, progress: Progress) -> None:
        """Downloads the showers, once for all trials, and the record; the trainer loads the checkpoint."""
        shutil.rmtree(self.folder.path, ignore_errors=True)  # the store has the newest state
        stage_showers(replace(self._pod, config=config), progress)
        self._sync.prepare_chief(config)
        self._drop_unrecorded()

    def _drop_unrecorded(self) -> None:
        """Deletes checkpoints that the record does not name, whose block died before it uploaded both.

        A trial that continued there would lack the validation before it: its objective is the median of several.
        """
        lines = record.read_if_whole(self.folder.record_file).lines
        newest = max((one.step for one in lines if isinstance(one, record.Checkpointed)), default=0)
        for step in _saved_steps(self._store, f"{CHECKPOINTS}/"):
            if step > newest:
                self._store.delete(f"{CHECKPOINTS}/{checkpoint_name(step)}")

    def upload_record(self) -> None:
        """Uploads the record if it changed."""
        if self._record.is_pending():
            self._record.upload(time.monotonic())

    def upload(self) -> None:
        """Uploads record, the end of the log, and checkpoints that the trainer did not copy."""
        self._sync.push_checkpoints()
        self.upload_record()
        log = self.folder.path / LOG
        if log.exists():
            lines = list(tail_lines(log))[-_LOG_LINES:]
            self._store.put(LOG, "".join(f"{line}\n" for line in lines).encode())


def _saved_steps(store: Store, folder: str) -> list[int]:
    """Returns the steps of the checkpoints of a run, without those of its ranks, which are in folders below."""
    return checkpoint_steps(name.removeprefix(folder) for name in store.list(folder))


def main() -> int:
    """Trains trials of a search; returns the exit code."""
    try:
        pod = read_pod_environment(settings.variable)
        block = SearchBlock(pod, LivenessFile(settings.liveness_file()), _say)
        signal.signal(signal.SIGTERM, block.stop)
        at_its_end(sys.stdin, partial(block.stop, signal.SIGTERM))
        return block.run()
    except CloudganError as error:
        _say(f"cloudgan: {error}")
        return error.exit_code


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
