"""Derives the state of a run from its Job and pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.clock import parse_time
from cloudgan.launch.kubernetes.job_spec import describe_exit_code
from cloudgan.launch.kubernetes.manifests import TRAINER
from cloudgan.schema.run_state import RunState, WorkerState

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Mapping, Sequence

    from cloudgan.schema.run_state import Cause, Phase, WorkerPhase

    Object = Mapping[str, Any]

INDEX: Final = "batch.kubernetes.io/job-completion-index"
_RESTART_CODES: Final = (75, 137, 143)

_PULL = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
_SETUP = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
_PHASES: Final[dict[str, WorkerPhase]] = {
    "Running": "running",
    "Succeeded": "done",
    "Failed": "failed",
}


def run_state(job: Object | None, pods: Iterable[Object], now: dt.datetime) -> RunState:
    """Returns the state of a run.

    Args:
        job: The Job; None if there is none.
        pods: Pods with the run's label.
        now: Present time, for the durations.
    """
    workers = _workers(pods, now)
    if job is None:
        return RunState("stopped" if workers else "absent", workers)
    status = job.get("status") or {}
    began = status.get("startTime")
    conditions = {
        one["type"]: one for one in status.get("conditions") or () if one.get("status") == "True"
    }
    if done := conditions.get("Complete"):
        ended = status.get("completionTime") or done.get("lastTransitionTime")
        return RunState("finished", workers, started_at=began, ended_at=ended)
    # A failing Job has FailureTarget, and Failed after its last pod is deleted.
    failed = conditions.get("Failed")
    if broken := failed or conditions.get("FailureTarget"):
        why, cause = _why_failed(job, broken, workers)
        ended = failed.get("lastTransitionTime") if failed else None
        return RunState("failed", workers, why, cause, began, ended)
    why, cause = _worst(workers)
    return RunState(_phase(job, workers), workers, why, cause, began)


def _phase(job: Object, workers: Sequence[WorkerState]) -> Phase:
    wanted = int(job["spec"]["completions"])
    if job["spec"].get("suspend"):
        return "waiting"
    up = sum(one.phase in ("running", "done") for one in workers)
    if up == wanted:
        return "running"
    return "waiting" if all(one.phase == "waiting" for one in workers) else "starting"


def _workers(pods: Iterable[Object], now: dt.datetime) -> tuple[WorkerState, ...]:
    by_index: dict[int, list[Object]] = {}
    for pod in pods:
        index = (pod["metadata"].get("annotations") or {}).get(INDEX)
        if index is not None:
            by_index.setdefault(int(index), []).append(pod)
    return tuple(_worker(index, by_index[index], now) for index in sorted(by_index))


def _worker(index: int, pods: list[Object], now: dt.datetime) -> WorkerState:
    """Returns the state of a rank from its newest pod; an older pod's memory error is kept."""
    *older, pod = sorted(pods, key=lambda one: str(one["metadata"].get("creationTimestamp", "")))
    status = pod.get("status") or {}
    phase: WorkerPhase = _PHASES.get(status.get("phase", ""), "waiting")
    if pod["metadata"].get("deletionTimestamp"):
        phase = "stopping"
    elif phase == "waiting" and pod["spec"].get("nodeName"):
        phase = "starting"
    why, cause = _why(pod)
    for one in older:
        if not cause and _why(one)[1] == "memory":
            why, cause = _why(one)
    since = _since(pod)
    seconds = (now - since).total_seconds() if since else None
    node = str(pod["spec"].get("nodeName") or "")
    return WorkerState(index, phase, node, len(older), why, cause, seconds)


def _why(pod: Object) -> tuple[str, Cause]:
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or ""), "placement"
    for each in (
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ):
        found = _why_container(each)
        if found[0]:
            return found
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return f"preempted: {condition.get('message') or condition.get('reason')}", ""
    return str(status.get("message") or ""), ""


def _why_container(status: Object) -> tuple[str, Cause]:
    state = status.get("state") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    reason = waiting.get("reason", "")
    message = " ".join(str(waiting.get("message") or reason).split())
    if reason in _PULL:
        return f"image {status.get('image')} cannot be pulled ({message})", "image"
    if reason in _SETUP:
        return f"its container cannot be created ({message})", "configuration"
    if ended.get("reason") == "OOMKilled":
        return "exceeded its memory limit (OOMKilled)", "memory"
    return _why_ended(str(status.get("name")), int(ended.get("exitCode") or 0))


def _why_ended(container: str, code: int) -> tuple[str, Cause]:
    if not code:
        return "", ""
    why, cause = describe_exit_code(code)
    if container != TRAINER:
        why, cause = f"init container {container} exited with code {code}", "program"
    return why, "" if code in _RESTART_CODES else cause


def _why_failed(
    job: Object, condition: Object, workers: Sequence[WorkerState]
) -> tuple[str, Cause]:
    reason, message = condition.get("reason", ""), condition.get("message", "")
    if reason == "DeadlineExceeded":
        return (
            f"its deadline of {job['spec'].get('activeDeadlineSeconds')} s has passed",
            "deadline",
        )
    why, cause = _worst(one for one in workers if one.cause != "placement")  # never fails a Job
    return (why, cause) if cause else (f"{reason}: {message}", "program")


_BY_SEVERITY: Final[tuple[Cause, ...]] = (
    *("no progress", "memory", "image", "configuration", "program", "placement"),
)


def _worst(workers: Iterable[WorkerState]) -> tuple[str, Cause]:
    known = [one for one in workers if one.cause in _BY_SEVERITY]
    if not known:
        return "", ""
    worst = min(known, key=lambda one: (_BY_SEVERITY.index(one.cause), one.index))
    where = f" on node {worst.node}" if worst.node and worst.cause == "program" else ""
    return f"worker {worst.index}{where}: {worst.reason}", worst.cause


def _since(pod: Object) -> dt.datetime | None:
    status = pod.get("status") or {}
    text = status.get("startTime") or pod["metadata"].get("creationTimestamp")
    return moment(text) if text else None


def moment(text: str) -> dt.datetime:
    """Parses a Kubernetes time stamp."""
    return parse_time(text)
