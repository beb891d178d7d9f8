"""State of a worker, and the heartbeat that the chief derives from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cloudgan.core.clock import utc_now
from cloudgan.schema import record
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.schema.liveness import Liveness
from cloudgan.schema.quality import quality_of
from cloudgan.worker.pod_environment import PodEnvironment
from cloudgan.worker.preemption import PreemptionNotice
from cloudgan.worker.rendezvous import AgentStatus


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


def read_heartbeat(
    pod: PodEnvironment, state: AgentState, notices: Mapping[int, PreemptionNotice]
) -> Heartbeat:
    """Returns the heartbeat of the run; `notices` are those of all workers."""
    progress = _grid_progress if pod.config.grid else _progress
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
        **progress(pod, state),
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


def _grid_progress(pod: PodEnvironment, state: AgentState) -> dict[str, Any]:
    """The epochs of a grid are the iterations that all cells have done."""
    assert pod.config.grid is not None  # noqa: S101  checked by the caller
    iterations = pod.config.grid.iterations
    done = state.liveness.epoch if state.liveness else None
    return {"epoch": iterations if state.exit_code == 0 else done, "epochs": iterations}


def heartbeat_key(state: AgentState, notices: Mapping[int, PreemptionNotice]) -> object:
    """Returns the parts whose change is uploaded at once."""
    ended = (state.exit_code, state.message)
    return (state.status, state.missing_workers, state.restarts, *ended, tuple(notices.items()))
