"""Restart rounds of a worker: wait for all workers, train, and restart after a loss.

A generation is one common training of all workers. A worker whose trainer ends early waits for
the next generation in the same pod, without a new node, image or download.
"""

from __future__ import annotations

import contextlib
import math
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import Field, ValidationError

from cloudgan.core.document import Document
from cloudgan.core.errors import CloudganError, ConfigError, NoProgress, TryAgain, counted
from cloudgan.schema.heartbeat import LivenessFile, Phase
from cloudgan.storage.store import ObjectMissingError, Store
from cloudgan.worker.control import RendezvousClient
from cloudgan.worker.pod_environment import Peers
from cloudgan.worker.preemption import StopRequest
from cloudgan.worker.rendezvous import AgentState, JoinResponse
from cloudgan.worker.trainer_process import Timeouts, TrainerProcess, Watchdog

_FINISHED, _AGAIN = 0, TryAgain.exit_code
_FAULT = CloudganError.exit_code


@dataclass
class RestartRounds:
    """Runs generations until the run ends.

    Attributes:
        prepare: Begins to prepare a generation; its result says whether that is done, and raises its error.
        start: Starts the trainer process of the generation that the chief describes.
        start_smoke_step: Starts the process of a smoke step, which waits for TF_CONFIG; None: the worker needs
            none.
        ends_all: Whether a trainer that fails ends those of all workers, so that their wait for a restart
            explains no failure.
    """

    peers: Peers
    state: AgentState
    timeouts: Timeouts
    rendezvous_client: RendezvousClient
    stop: StopRequest
    liveness: LivenessFile
    prepare: Callable[[], Callable[[], bool]]
    start: Callable[[JoinResponse], TrainerProcess]
    is_finished: Callable[[], bool]
    say: Callable[[str], None]
    start_smoke_step: Callable[[], TrainerProcess] | None = None
    work: str = "training"
    ends_all: bool = False
    look_up: Callable[..., object] = socket.getaddrinfo
    _trainer: TrainerProcess | None = field(default=None, init=False)
    _smoke_step_done: bool = field(default=False, init=False)
    _failed_smoke_steps: int = field(default=0, init=False)

    def run(self) -> int:
        """Runs until the run ends; returns the exit code of this worker."""
        try:
            return self._run()
        finally:
            self._end_trainer()  # also a smoke step that still waits for the other workers

    def _run(self) -> int:
        while True:
            generation = self._wait_for_all()
            if generation is None:
                return _FINISHED
            is_smoke_step = self.rendezvous_client.response().smoke
            phase: Phase = "checking" if is_smoke_step else "training"
            self.state.change(phase=phase, generation=generation)
            if is_smoke_step:
                code = self._smoke_step()
            else:
                workers = counted(self.state.world, "worker")
                self.say(f"generation {generation}: {self.work} with {workers}")
                self.liveness.clear()
                self._trainer = self.start(self.rendezvous_client.response())
                code, _ = self._supervise(self._trainer, self.timeouts)
            if self.stop.requested and (code < 0 or code == _AGAIN):
                return _AGAIN
            if is_smoke_step and code == _FINISHED:
                self._smoke_step_done, self._failed_smoke_steps = True, 0
            elif code >= 0 and code != _AGAIN and not (code == _FAULT and self._others_wait()):
                return code
            elif is_smoke_step:
                self._failed_smoke_steps += 1
                if self._failed_smoke_steps > self.timeouts.max_restarts:
                    why = self.state.message or "another worker was lost"
                    raise NoProgress(
                        f"{self._failed_smoke_steps} smoke steps were cut short, the last one because"
                        f" {why}; the log shows the causes"
                    )
            self.state.change(phase="staging")

    def _others_wait(self) -> bool:
        """Whether another worker was lost too, which explains this trainer's failure."""
        deadline = time.monotonic() + self.timeouts.fresh_seconds
        if self.ends_all:
            return False
        while self.peers.world > 1 and time.monotonic() < deadline:
            if why := self.rendezvous_client.restart_reason():
                self.say(f"{why}; the failure here is treated as a consequence")
                return True
            time.sleep(self.timeouts.poll_seconds)
        return False

    def kill(self) -> None:
        """Kills the trainer process, if there is one."""
        if self._trainer:
            self._trainer.kill()

    def _end_trainer(self) -> None:
        if self._trainer:
            self._trainer.close()
            self._trainer = None

    def _wait_for_all(self) -> int | None:
        """Waits for all workers; returns the generation to start, or None if the run has ended."""
        timeouts = self.timeouts
        ready, is_prepared = self._prepare()
        all_there = asked_store = time.monotonic()
        unresolved = frozenset(range(self.peers.world))  # a replaced worker has another address
        asked_names = float("-inf")
        while True:
            if self.stop.requested:
                raise TryAgain(
                    "stopped while waiting for the other workers; deploy again to resume"
                )
            now = time.monotonic()
            if unresolved and now - asked_names >= timeouts.resolve_every_seconds:
                unresolved, asked_names = frozenset(filter(self._is_unresolved, unresolved)), now
            phase = ready if is_prepared() and not unresolved else "staging"
            self.state.change(phase=phase)
            generation = self.rendezvous_client.next_generation()
            if generation is not None:
                return generation
            self.state.missing_workers = self.rendezvous_client.missing_workers()
            if self.rendezvous_client.response().exit_code == _FINISHED:
                return None
            if not (self.state.missing_workers or unresolved):
                all_there = now
            elif now - all_there > timeouts.barrier_seconds:
                raise TryAgain(self._missing_message(unresolved))
            if (
                self.state.missing_workers == (0,)
                and now - asked_store > timeouts.chief_timeout_seconds
            ):
                asked_store = now
                if self.is_finished():
                    return None
            time.sleep(timeouts.poll_seconds)

    def _prepare(self) -> tuple[Phase, Callable[[], bool]]:
        """Starts what the next generation needs; returns the phase that follows it, and whether it is done.

        Before its first smoke step a worker stages no data: a node that cannot compute costs seconds.
        """
        if self._smoke_step_done or self.start_smoke_step is None:
            return "waiting", self.prepare()
        trainer = self._trainer = self.start_smoke_step()

        def has_not_failed() -> bool:
            code = trainer.poll()
            if code is None:
                return True
            self._end_trainer()
            self._report_exit(trainer, code, self._who)
            if code == ConfigError.exit_code:
                raise ConfigError(self.state.message)
            raise CloudganError(self.state.message)

        return "gathering", has_not_failed

    def _is_unresolved(self, index: int) -> bool:
        try:
            self.look_up(*self.peers.control(index))
        except OSError:
            return True
        return False

    def _missing_message(self, unresolved: frozenset[int]) -> str:
        reasons = []
        for index in sorted(unresolved | set(self.state.missing_workers)):
            host, port = self.peers.control(index)
            why = "its name does not resolve" if index in unresolved else "no response"
            reasons.append(f"worker {index} ({host}:{port}): {why}")
        return (
            f"not all of {self.peers.world} workers were ready within"
            f" {self.timeouts.barrier_seconds:.0f} s: {'; '.join(reasons)}"
        )

    def _smoke_step(self) -> int:
        """Gives the process of the smoke step the addresses of all workers; returns its exit code."""
        start = self.start_smoke_step
        assert start is not None  # noqa: S101  the plan is the same for all workers
        self.say(f"smoke step: one step and one all-reduce of {self.peers.world} workers")
        self._trainer = trainer = self._trainer or start()
        trainer.send(self.peers.tf_config(self.rendezvous_client.response().ports) or "null")
        seconds = self.timeouts.smoke_seconds
        limits = self.timeouts.model_copy(update={"first_step_seconds": seconds})
        code, stalled = self._supervise(trainer, limits, self._who)
        if not stalled:
            return code
        self.state.message = (
            f"{self._who}: the smoke step did not end within {seconds:.0f} s: a device of this node"
            " does not respond, or the network between the workers loses data"
        )
        self.say(self.state.message)
        return _FAULT

    def _supervise(
        self, trainer: TrainerProcess, timeouts: Timeouts, who: str = ""
    ) -> tuple[int, bool]:
        """Waits for the end of the trainer, or ends it; returns its exit code and whether it stalled."""
        stalled = self._watch(trainer, timeouts)
        self._end_trainer()
        code = trainer.poll() or 0
        self._report_exit(trainer, code, who)
        return code, stalled

    def _watch(self, trainer: TrainerProcess, timeouts: Timeouts) -> bool:
        """Waits until the trainer has exited or must be killed; returns whether it stalled."""
        watchdog = Watchdog(timeouts, time.monotonic())
        kill_at = math.inf
        stop_requested = False
        while trainer.poll() is None:
            now = time.monotonic()
            watchdog.saw_output(trainer.line_count, now)
            if liveness := self.liveness.read():
                self.state.liveness = liveness
                watchdog.saw_step(liveness.step, now, liveness.blocks)
            self.state.missing_workers = self.rendezvous_client.missing_workers()
            if self.stop.requested and not stop_requested:
                stop_requested = True
                left = min(timeouts.grace_seconds, self.stop.remaining_seconds)
                kill_at = now + timeouts.trainer_share_seconds(left)
                trainer.request_stop(stepped=liveness is not None)
            if kill_at == math.inf and (why := self.rendezvous_client.restart_reason()):
                self.say(f"{why}; the trainer ends within {timeouts.end_seconds:.0f} s")
                kill_at = now + timeouts.end_seconds
            if now > kill_at:
                return False
            if watchdog.is_stalled(now):
                self.say(
                    f"no step finished for {watchdog.limit_seconds:.0f} s; stack traces follow, then"
                    " the trainer is killed and restarted"
                )
                trainer.dump_stacks()
                time.sleep(timeouts.dump_seconds)
                return True
            time.sleep(timeouts.poll_seconds)
        return False

    @property
    def _who(self) -> str:
        return f"worker {self.state.index} on {socket.gethostname()}"

    def _report_exit(self, trainer: TrainerProcess, code: int, who: str = "") -> None:
        if code == _FINISHED:
            return
        if trainer.was_killed:
            message = "the trainer did not exit in time and was killed"
        elif code < 0:
            message = f"the trainer was ended by {signal.Signals(-code).name}"
            if code == -signal.SIGKILL:
                message += " (probably out of memory)"
        else:
            message = trainer.last_error or f"the trainer exited with code {code}"
        self.state.message = f"{who}: {message}" if who else message
        self.say(self.state.message)


FILE_NAME = "restarts.json"


class Count(Document):
    """Newest checkpoint at the last start, and the number of restarts from it."""

    checkpoint_step: int | None = Field(description="None: no checkpoint")
    restarts: int = Field(ge=0)


def count_restart(store: Store, newest_step: int | None, most: int) -> int:
    """Counts a start in `restarts.json`; returns the number of earlier starts from this checkpoint.

    Raises:
        NoProgress: More than `most`. The count is reset, so that the run can be started again.
    """
    before = None
    with contextlib.suppress(ObjectMissingError, ValidationError):
        before = Count.model_validate_json(store.read(FILE_NAME))
    same = before is not None and before.checkpoint_step == newest_step
    restarts = before.restarts + 1 if before and same else 0
    if restarts > most:
        store.delete(FILE_NAME)
        where = "no checkpoint" if newest_step is None else f"the checkpoint of step {newest_step}"
        raise NoProgress(
            f"{most} restarts from {where} without a newer one; the log shows the causes. If the"
            " trainer ran out of memory, use a smaller --batch or a larger node; if nodes are lost"
            " before a checkpoint is saved, lower checkpoint.every_seconds"
        )
    count = Count(checkpoint_step=newest_step, restarts=restarts)
    store.put(FILE_NAME, count.model_dump_json().encode())
    return restarts
