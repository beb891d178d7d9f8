"""State of a worker, the chief's record of all, which decides when a generation starts, and its heartbeat.

No network.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict, Field

from cloudgan.core.clock import utc_now
from cloudgan.core.document import Document
from cloudgan.schema import record
from cloudgan.schema.heartbeat import Heartbeat, Liveness, Phase
from cloudgan.schema.quality import quality_of
from cloudgan.worker.pod_environment import PodEnvironment
from cloudgan.worker.preemption import PreemptionNotice

_FRESH_SECONDS = 5.0
_READY = frozenset({"gathering", "waiting"})
"""Phases of a worker that a generation can start with."""


class AgentStatus(Document):
    """Status of a worker; replaced as a whole, so that readers see one state.

    A replacing pod has another incarnation. `generation` is the last one in which it trained; port 0: that
    of CLOUDGAN_PEERS.
    """

    model_config = ConfigDict(strict=True)

    incarnation: str = Field(pattern=r"^[0-9A-Za-z-]{1,64}$")
    phase: Phase = "staging"
    generation: int = Field(default=0, ge=0, le=999_999)
    notice: PreemptionNotice | None = None
    port: int = Field(default=0, ge=0, le=65_535)


@dataclass
class AgentState:
    """State of one worker; written by its main loop, read by the control server."""

    index: int
    world: int
    status: AgentStatus
    liveness: Liveness | None = None
    missing_workers: tuple[int, ...] = ()
    restarts: int = 0
    exit_code: int | None = None
    message: str = ""

    def change(self, **values: Any) -> None:
        """Changes parts of the status."""
        self.status = self.status.model_copy(update=values)

    def as_json(self) -> dict[str, Any]:
        """Returns the public state, for `/state`."""
        return {
            "index": self.index,
            "world": self.world,
            **self.status.model_dump(include={"incarnation", "phase", "generation"}),
            "step": self.liveness.step if self.liveness else None,
            "exit_code": self.exit_code,
        }


class JoinResponse(Document):
    """Response of the chief to a worker.

    Attributes:
        generation: The newest generation.
        start: Whether the worker shall begin to train in it.
        restart: Whether the worker ends its training because another waits for a new generation.
        exit_code: Exit code of the chief; None while it runs.
        ports: Ports of the TensorFlow servers of this generation; empty: those of CLOUDGAN_PEERS.
        smoke: Whether this generation is a smoke step, not a training.
        launch: Arguments with which this worker starts its ranks of this generation; empty: there are none.
    """

    generation: int = 0
    start: bool = False
    restart: bool = False
    exit_code: int | None = None
    ports: tuple[int, ...] = ()
    smoke: bool = False
    launch: str = ""


class Rendezvous:
    """All workers of a run, including the chief (index 0)."""

    def __init__(self, world: int, *, fresh_seconds: float = _FRESH_SECONDS) -> None:
        self._world, self._fresh_seconds = world, fresh_seconds
        self._members: dict[int, AgentStatus] = {}
        self._seen: dict[int, float] = {}
        self._began: dict[int, str] = {}
        self._noticed: dict[str, tuple[int, PreemptionNotice]] = {}
        self._lock = threading.RLock()
        self._newest = 0
        self.generation = 0
        self.ports: tuple[int, ...] = ()
        self.launch: tuple[str, ...] = ()
        self.smoke = False
        self.exit_code: int | None = None

    def join(self, index: int, member: AgentStatus, now_seconds: float) -> JoinResponse | None:
        """Records the status of a worker and returns the response.

        Returns None, and records nothing, for a generation that has not begun. Only a chief that has
        begun none yet, because it replaces another, learns of higher ones.
        """
        with self._lock:
            if 0 < self.generation < member.generation:
                return None
            self._members[index], self._seen[index] = member, now_seconds
            if member.notice and member.incarnation not in self._noticed:
                self._noticed[member.incarnation] = (index, member.notice)
            self._newest = max(self._newest, member.generation)
            began = self._began.get(index) == member.incarnation
            return JoinResponse(
                generation=self.generation,
                start=member.phase in _READY
                and began
                and member.generation < self.generation
                and self.waiting_member() is None,
                restart=member.phase in {"training", "checking"} and self._is_over(),
                exit_code=self.exit_code,
                ports=self.ports,
                smoke=self.smoke,
                launch=self.launch[index] if self.launch else "",
            )

    def begin(self, now_seconds: float, launch: tuple[str, ...] = ()) -> int | None:
        """Starts a generation if all workers wait for one; returns its number."""
        with self._lock:
            if not self.all_waiting(now_seconds):
                return None
            self._began = {i: member.incarnation for i, member in self._members.items()}
            self.smoke = self.is_smoke_step_due()
            self._newest += 1
            self.generation = self._newest
            given = tuple(member.port for _, member in sorted(self._members.items()))
            self.ports, self.launch = given if all(given) else (), launch
            return self.generation

    def notices(self) -> dict[int, PreemptionNotice]:
        """Returns the preemption notices of the present workers by index."""
        with self._lock:
            return {i: one.notice for i, one in sorted(self._members.items()) if one.notice}

    def all_notices(self) -> tuple[tuple[int, PreemptionNotice], ...]:
        """Returns all notices so far in order, also of replaced workers."""
        with self._lock:
            return tuple(self._noticed.values())

    def missing_members(self, now_seconds: float) -> tuple[int, ...]:
        """Returns the workers without a recent status."""
        with self._lock:
            seen = self._seen.items()
            fresh = {i for i, at in seen if now_seconds - at <= self._fresh_seconds}
        return tuple(index for index in range(self._world) if index not in fresh)

    def all_waiting(self, now_seconds: float) -> bool:
        """Whether a generation can start."""
        with self._lock:
            waiting = all(member.phase in _READY for member in self._members.values())
            return waiting and not (self.missing_members(now_seconds) or self._is_beginning())

    def is_smoke_step_due(self) -> bool:
        """Whether the next generation is a smoke step, because a worker has not had one."""
        with self._lock:
            return any(member.phase == "gathering" for member in self._members.values())

    def waiting_member(self) -> int | None:
        """Returns a worker of this generation that waits again or was replaced."""
        with self._lock:
            again = {"gathering"} if self.smoke else {"gathering", "staging", "waiting"}
            for index, incarnation in self._began.items():
                member = self._members[index]
                if member.incarnation != incarnation:
                    return index
                if member.generation >= self.generation and member.phase in again:
                    return index
            return None

    def _is_beginning(self) -> bool:
        """Whether a worker will take part in the present generation but does not know of it yet."""
        return self.waiting_member() is None and any(
            self._began.get(index) == member.incarnation and member.generation < self.generation
            for index, member in self._members.items()
        )

    def _is_over(self) -> bool:
        """Whether the present generation cannot finish."""
        chief = self._members.get(0)
        if chief is None or self._began.get(0) != chief.incarnation:
            return True  # started by another chief
        return self.waiting_member() is not None


def read_heartbeat(
    pod: PodEnvironment, state: AgentState, notices: Mapping[int, PreemptionNotice]
) -> Heartbeat:
    """Returns the heartbeat of the run; `notices` are those of all workers."""
    # The epochs of a grid are the iterations that all cells have done.
    progress, grid = {}, pod.config.grid
    if grid:
        done = state.liveness.epoch if state.liveness else None
        progress = {"epoch": grid.iterations if state.exit_code == 0 else done}
        progress |= {"epochs": grid.iterations}
    return Heartbeat(
        time=utc_now(),
        config_hash=pod.config_hash,
        phase=state.status.phase,
        world=state.world,
        missing_workers=state.missing_workers,
        generation=state.status.generation,
        restarts=state.restarts,
        exit_code=state.exit_code,
        notices={index: notice.seconds for index, notice in notices.items()},
        message=state.message,
        **(progress or _progress(pod, state)),
    )


def _progress(pod: PodEnvironment, state: AgentState) -> dict[str, Any]:
    known = record.read_if_whole(pod.folder.record_file)
    epochs = known.epochs()
    whole = [each for each in epochs if each.complete]
    liveness, last = state.liveness, epochs[-1] if epochs else None
    if state.status.phase == "ended":
        liveness = None  # the file may lack the last steps
    return {
        "step": liveness.step if liveness else last.step if last else None,
        "epoch": liveness.epoch if liveness else last.epoch + last.complete if last else None,
        "epochs": pod.config.training.epochs,
        "steps_per_second": liveness.steps_per_second if liveness else None,
        "seconds_per_epoch": whole[-1].train_seconds if whole else None,
        "quality": quality_of(known.validations()),
        "damaged_checkpoints": known.damaged_checkpoints(),
    }


def heartbeat_key(state: AgentState, notices: Mapping[int, PreemptionNotice]) -> object:
    """Returns the parts whose change is uploaded at once."""
    ended = (state.exit_code, state.message)
    return (state.status, state.missing_workers, state.restarts, *ended, tuple(notices.items()))
