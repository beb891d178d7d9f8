"""The agent that `cloudgan worker` runs in a pod: starts, supervises and restarts the trainer."""

from __future__ import annotations

import math
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pydantic import ValidationError

from cloudgan.core import settings
from cloudgan.core.children import SHARED, hold_port, number_of
from cloudgan.core.clock import utc_now
from cloudgan.core.cuda_libraries import loader_environment
from cloudgan.core.errors import CloudganError, TryAgain
from cloudgan.ranks.layout import divide_ranks, make_layout, ranks_per_node
from cloudgan.schema.coevolution import STATUS_FILE
from cloudgan.schema.heartbeat import FILE_NAME as HEARTBEAT
from cloudgan.schema.heartbeat import Heartbeat, LivenessFile
from cloudgan.schema.run_folder import checkpoint_steps
from cloudgan.schema.run_state import PREEMPTS
from cloudgan.schema.search import search_prefix
from cloudgan.schema.simulation import SHARD_INFO
from cloudgan.storage.store import ObjectMissingError, StoreError, open_store, retry_on_store_error
from cloudgan.worker.control import (
    ChiefRendezvousClient,
    ControlServer,
    FollowerRendezvousClient,
    RendezvousClient,
)
from cloudgan.worker.pod_environment import PodEnvironment
from cloudgan.worker.preemption import (
    MetadataService,
    PreemptionNotice,
    PreemptionWatcher,
    StopRequest,
    record_notice,
)
from cloudgan.worker.rank_processes import RankLauncher
from cloudgan.worker.rendezvous import (
    AgentState,
    AgentStatus,
    JoinResponse,
    Rendezvous,
    heartbeat_key,
    read_heartbeat,
)
from cloudgan.worker.restart_rounds import RestartRounds, count_restart
from cloudgan.worker.store_sync import (
    RunSync,
    Upload,
    Uploader,
    file_upload,
    in_background,
    stage_showers,
)
from cloudgan.worker.trainer_process import (
    LogProgress,
    Timeouts,
    TrainerProcess,
    WorkerLog,
    pjrt_library,
)


class _Job(NamedTuple):
    """A kind of job in a pod."""

    module: tuple[str, ...]
    work: str
    makes_shards: bool = False


_JOBS = {
    "train": _Job(("cloudgan", "train"), "training"),
    "evolve": _Job(("cloudgan", "evolve"), "training"),
    "simulate": _Job(("cloudgan.api.shower_production",), "simulating", makes_shards=True),
    "join": _Job(("cloudgan.api.search_block",), "training trials"),
}
SMOKE_STEP = (sys.executable, "-m", "cloudgan.training.smoke_step")
"""Takes the engine as a further word."""


class WorkerAgent:
    """One worker from start to exit code.

    Attributes:
        state: The state of this worker.
    """

    def __init__(
        self,
        pod: PodEnvironment,
        timeouts: Timeouts,
        show: Callable[[str], None],
        *,
        stop: StopRequest | None = None,
        command: Sequence[str] | None = None,
        smoke_step: Sequence[str] = SMOKE_STEP,
    ) -> None:
        """Prepares the agent; `command` replaces the program of the run's task."""
        self._pod, self._timeouts = pod, timeouts
        self._job, self._is_alone = _JOBS[pod.config.job], not pod.config.works_together
        folder = () if self._is_alone and command is None else (f"--run={pod.folder.path}",)
        self._command = (*(command or (sys.executable, "-m", *self._job.module)), *folder)
        self._own_peers = pod.peers.alone() if self._is_alone else pod.peers
        self._engine = pod.config.training.engine
        self._smoke_step = (*smoke_step, self._engine)
        self._began = time.monotonic()
        self._smoke_seconds: float | None = None
        self._stop = stop or StopRequest()
        self._store = open_store(pod.run_url)
        began = utc_now().replace(":", "").replace("-", "")
        status = AgentStatus(incarnation=f"{began}-{secrets.token_hex(3)}")
        self.state = AgentState(pod.peers.index, pod.peers.world, status)
        logs = pod.work / "logs"
        self._log = WorkerLog(logs / f"{self.state.status.incarnation}.log", show)
        self._rendezvous = Rendezvous(self._own_peers.world, fresh_seconds=timeouts.fresh_seconds)
        own = open_store(f"{pod.run_url}/workers/{pod.peers.index}")
        self._counted = own if self._is_alone else self._store
        self._run_sync = RunSync(pod.folder, self._store)
        self._ranks = self._rank_launcher()
        self._liveness_file = pod.work / "liveness.json"
        self._is_staged = False
        self._rounds: RestartRounds | None = None
        self._preemption_watcher: PreemptionWatcher | None = None
        self._recorded_notices, self._recording = 0, threading.Lock()
        self._held: socket.socket | None = None

    def run(self) -> int:
        """Runs until the run ends; returns the exit code."""
        peers = self._pod.peers
        host, port = peers.listening_host(), peers.control(peers.index)[1]
        rendezvous = self._rendezvous if peers.is_chief else None
        try:
            control = ControlServer((host, port), self.state, rendezvous, self._pod.secret)
        except OSError as error:
            raise TryAgain(f"cannot listen on port {port} of this machine ({error})") from error
        try:
            return self._live()
        finally:
            control.close()

    def kill(self) -> None:
        """Kills the trainer process, if there is one."""
        if self._rounds:
            self._rounds.kill()
        if self._ranks:
            self._ranks.close()

    def _live(self) -> int:
        say, state = self._log.say, self.state
        say(
            f"worker {state.index} of {state.world}, {state.status.incarnation}, run {self._pod.run}"
        )
        if self._is_finished():
            say("the run has finished already")
            return 0
        uploader = Uploader(self._uploads(), say)
        peers, secret = self._pod.peers, self._pod.secret
        rendezvous_client: RendezvousClient
        if self._own_peers.is_chief or secret is None:
            rendezvous_client = ChiefRendezvousClient(state, self._rendezvous, self._before_begin)
        else:
            rendezvous_client = FollowerRendezvousClient(
                peers, state, self._timeouts, secret, say=say
            )
        self._preemption_watcher = self._watch_preemption(rendezvous_client)
        self._rounds = RestartRounds(
            self._own_peers,
            state,
            self._trainer_timeouts(),
            rendezvous_client=rendezvous_client,
            stop=self._stop,
            liveness=LivenessFile(self._liveness_file),
            prepare=self._prepare_in_background,
            start=self._start,
            ends_all=self._ranks is not None,
            is_finished=self._is_finished,
            say=say,
            work=self._job.work,
            start_smoke_step=self._start_smoke_step if self._pod.smoke_step else None,
        )
        code = CloudganError.exit_code
        try:
            code = self._rounds.run()
        except CloudganError as error:
            code, state.message = error.exit_code, str(error)
            say(str(error))
        finally:
            self.kill()
            self._end(code, rendezvous_client, uploader)
        return code

    def _end(self, code: int, rendezvous_client: RendezvousClient, uploader: Uploader) -> None:
        """Reports the exit code to the other workers and uploads the remaining files."""
        state, timeouts = self.state, self._timeouts
        state.exit_code = code
        state.message = "" if code == 0 else state.message
        state.change(phase="ended")
        rendezvous_client.close(code)
        if self._held:
            self._held.close()
        notice = state.status.notice
        # A worker that leaves in time is not deleted: only its last lines tell why it left.
        why = f"{notice.cloud} {PREEMPTS}" if notice else state.message
        ends = f"exiting with code {code}" + (f": {why}" if why else "")
        self._log.say(ends)
        self._record_notices()
        patience = timeouts.upload_seconds
        if self._stop.requested:
            grace = timeouts.grace_seconds - timeouts.trainer_grace_seconds
            patience = min(patience, grace, self._stop.remaining_seconds)
        is_writer = self._pod.peers.is_chief and not self._is_alone
        push = self._run_sync.push_checkpoints  # what the trainer did not copy
        last = (Upload("checkpoints", lambda: True, push),) if is_writer else ()
        remains = uploader.close(last, patience_seconds=patience)
        for left in remains:
            self._log.say(f"not uploaded within {patience:.0f} s: {left}")
        if remains:
            self._log.say(ends)  # again: the status of the pod keeps the last line
        if self._preemption_watcher:
            self._preemption_watcher.close()
            if not remains:
                self._preemption_watcher.acknowledge()

    def _watch_preemption(self, rendezvous_client: RendezvousClient) -> PreemptionWatcher | None:
        """Starts polling the cloud's metadata service, on a provisioned node; a notice requests a stop in its time."""
        pod, every = self._pod, self._timeouts.notice_every_seconds
        if pod.cloud is None:
            return None

        def take(notice: PreemptionNotice) -> None:
            left = "" if notice.seconds is None else f" in {notice.seconds:.0f} s"
            self._log.say(f"{notice.cloud} {PREEMPTS}{left}")
            self.state.change(notice=notice)
            self._stop.request(notice.seconds)
            rendezvous_client.notify()

        service = MetadataService(pod.cloud, pod.metadata_url)
        return PreemptionWatcher(service, take, self._log.say, every_seconds=every)

    def _uploads(self) -> tuple[Upload, ...]:
        pod, timeouts, store = self._pod, self._timeouts, self._store
        state = self.state
        log = file_upload(
            store,
            f"logs/{state.index}/{state.status.incarnation}.log.gz",
            self._log.path,
            every_seconds=timeouts.log_every_seconds,
            compress=True,
        )
        if not pod.peers.is_chief:
            return (log,)
        if self._is_alone:
            return (self._heartbeat(), log)
        every, folder = timeouts.record_every_seconds, pod.folder
        names = (
            (STATUS_FILE,) if pod.config.grid else (folder.record_file.name, folder.trace_file.name)
        )
        files = (file_upload(store, one, folder.path / one, every_seconds=every) for one in names)
        return (*files, self._heartbeat(), log)

    def _heartbeat(self) -> Upload:
        def put() -> None:
            beat = read_heartbeat(self._pod, self.state, self._rendezvous.notices())
            if self._is_alone:
                beat = beat.model_copy(update={"step": None, "steps_per_second": None})
            if self._job.makes_shards:
                done = self._pod.config.simulation.finished(self._finished_shards())
                beat = beat.model_copy(update={"showers": done})
            self._store.put(HEARTBEAT, (beat.model_dump_json(indent=2) + "\n").encode())

        return Upload(
            HEARTBEAT,
            lambda: heartbeat_key(self.state, self._rendezvous.notices()),
            put,
            every_seconds=self._timeouts.heartbeat_every_seconds,
            periodic=True,
        )

    def _progress(self) -> int | None:
        """Returns a number that grows with what the store has of this run's work."""
        if self._job.makes_shards:
            return self._finished_shards()
        if not self._is_alone:
            return self._run_sync.newest_step(self._pod.config.grid)
        prefix = f"{search_prefix(self._pod.config.join)}/trials/"
        names = open_store(self._pod.store_url).list(prefix)
        return sum(checkpoint_steps(name.rpartition("/")[2] for name in names))

    def _finished_shards(self) -> int:
        return len(self._store.list(f"{SHARD_INFO}/"))

    def _rank_launcher(self) -> RankLauncher | None:
        """Returns what starts the ranks of masters and workers, or of cells; None for other runs."""
        pod, parallel, grid = self._pod, self._pod.config.parallel, self._pod.config.grid
        nodes = pod.peers.world
        if self._is_alone or not pod.config.has_ranks:
            return None
        if grid:
            counts = divide_ranks(1, grid.cells, nodes)
        else:
            counts = ranks_per_node(make_layout(parallel.ranks or nodes, parallel), nodes)
        host, _ = pod.peers.control(0)
        return RankLauncher(counts, host, pod.work / "rank-processes", self._log.line, pod.network)

    def _trainer_timeouts(self) -> Timeouts:
        """Returns the timeouts of the trainer.

        Ranks cannot save without the others. The master watches the workers: one that has done its share
        of the steps waits for the others as long as they need. The master of a grid and its cells watch
        each other.
        """
        if not self._ranks:
            return self._timeouts
        changes = {"end_seconds": min(2.0, self._timeouts.end_seconds)}
        if not self._pod.peers.is_chief or self._pod.config.grid:
            changes |= {"first_step_seconds": math.inf, "stall_seconds": math.inf}
        return self._timeouts.model_copy(update=changes)

    def _offer_port(self) -> None:
        if self._pod.random_ports:
            before, self._held = self._held, hold_port(self._pod.peers.listening_host())
            if before:  # until now, so that the new one is another
                before.close()
            self.state.change(port=number_of(self._held))

    def _prepare_in_background(self) -> Callable[[], bool]:
        timeouts = self._timeouts
        if self._pod.smoke_step and not self._is_staged:
            self._smoke_seconds = time.monotonic() - self._began
        self._offer_port()
        prepare = retry_on_store_error(
            self._prepare,
            patience_seconds=timeouts.store_seconds,
            pause_seconds=timeouts.store_retry_seconds,
            say=self._log.say,
        )
        return in_background(prepare, "prepare")

    def _prepare(self) -> None:
        """Stages the showers once, and syncs the run folder before each generation."""
        # A new process has to log in. Where that fails, it would count as a restart without progress.
        open_store(self._pod.run_url).list(HEARTBEAT)
        if self._is_alone:
            return
        if not self._is_staged:
            stage_showers(self._pod, LogProgress(self._log))
            self._is_staged = True
        config = self._pod.config
        url = self._pod.run_url if config.grid else f"{self._pod.run_url}/checkpoints"
        checkpoint = config.checkpoint.model_copy(update={"url": url})
        config = config.model_copy(update={"checkpoint": checkpoint})
        if self._pod.peers.is_chief:
            self._run_sync.prepare_chief(config)
            self._record_notices()
        else:
            self._run_sync.prepare_follower(config)

    def _record_notices(self) -> None:
        """Adds new notices of all workers to the record, while no trainer writes to it."""
        has_record = self._pod.peers.is_chief and self._pod.config.trains_one
        notices = self._rendezvous.all_notices() if has_record else ()
        with self._recording:  # at the end of the agent a preparation may still run in its thread
            for index, notice in notices[self._recorded_notices :]:
                record_notice(self._pod.folder.record_file, index, notice)
            self._recorded_notices = len(notices)

    def _before_begin(self) -> tuple[str, ...]:
        """Counts a restart; returns the arguments with which each worker starts its ranks."""
        try:
            most = self._timeouts.max_restarts
            self.state.restarts = count_restart(self._counted, self._progress(), most)
        except StoreError as error:
            self._log.say(f"all workers are ready, but the store failed: {error}; retrying")
            raise
        return self._ranks.launch() if self._ranks else ()

    def _is_finished(self) -> bool:
        """Whether this run, with this run.yaml, was trained to its end."""
        try:
            last = Heartbeat.model_validate_json(self._store.read(HEARTBEAT))
        except (ObjectMissingError, ValidationError):
            return False
        except StoreError as error:
            self._log.say(f"cannot determine whether the run has finished: {error}")
            return False
        ended_well = last.phase == "ended" and last.exit_code == 0
        return ended_well and last.config_hash == self._pod.config_hash

    def _start(self, response: JoinResponse) -> TrainerProcess:
        seconds, self._smoke_seconds = self._smoke_seconds, None
        environment = self._environment(
            TF_CONFIG=None if self._ranks else self._own_peers.tf_config(response.ports),
            CLOUDGAN_LIVENESS=str(self._liveness_file),
            CLOUDGAN_SMOKE_SECONDS=None if seconds is None else f"{seconds:.3f}",
        )
        if self._ranks:
            host, _ = self._own_peers.control(self._own_peers.index)
            environment["CLOUDGAN_HOST"] = f"[{host}]" if ":" in host else host
            return self._ranks.start(response.launch, self._command, environment)
        return TrainerProcess(self._command, environment, self._log.line, self._pod.network)

    def _start_smoke_step(self) -> TrainerProcess:
        self._offer_port()
        environment = self._environment(TF_CONFIG=None, KERAS_BACKEND=self._engine)
        return TrainerProcess(self._smoke_step, environment, self._log.line, self._pod.network)

    def _environment(self, **changes: str | None) -> dict[str, str]:
        settings.quiet_tensorflow()
        # On one machine the supervisor of the nodes holds the ports.
        is_held = self._pod.random_ports or self._pod.peers.listening_host()
        return settings.child_environment(
            CLOUDGAN_SUPERVISED="1",
            CLOUDGAN_SECRET_FILE=None,
            **(SHARED if is_held else {}),
            **changes,
            **pjrt_library(),
            **loader_environment(),
        )
