"""Reads a Job: its manifest for workers without a pod, and the state of a run from its status and pods."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from cloudgan.core.clock import parse_time
from cloudgan.core.errors import ConfigError, NoProgress
from cloudgan.launch.kubernetes.extensions import conditions_of
from cloudgan.launch.kubernetes.image import pinned
from cloudgan.launch.kubernetes.manifests import TRAINER, trainer
from cloudgan.schema.run_state import (
    PREEMPTS,
    STOPPING,
    Cause,
    Phase,
    RunState,
    WorkerPhase,
    WorkerState,
)

Object = Mapping[str, Any]

CONFIG: Final = "/cloudgan/config"
WORK: Final = "/cloudgan/scratch"
KEY_FOLDER: Final = "/cloudgan/secret"
KEY_FILE: Final = "key"
"""File in `KEY_FOLDER` that holds the secret of the run."""
RESTART_CODES: Final = (75, 137, 143)
"""Exit codes after which the podFailurePolicy of k8s/job.yaml restarts a worker."""
INDEX: Final = "batch.kubernetes.io/job-completion-index"


def command(job: Object, python: str) -> list[str]:
    """Returns the command of a worker; `python` is the interpreter that has cloudgan."""
    first, *rest = trainer(dict(job))["command"]
    return [python if first in ("python", "python3") else first, *rest]


def environment(job: Object, folders: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variables that all workers share, with `folders` for mount paths.

    All except CLOUDGAN_PEERS, which holds names of a cluster, HOME, and those in a Secret, which the
    backend delivers by itself.
    """
    found = {}
    for variable in trainer(dict(job))["env"]:
        if "value" not in variable or variable["name"] in ("CLOUDGAN_PEERS", "HOME"):
            continue
        value = str(variable["value"]).replace("$$", "$")
        for mount, folder in folders.items():
            if value == mount or value.startswith(f"{mount}/"):
                value = folder + value[len(mount) :]
                break
        found[variable["name"]] = value
    return found


def describe_exit_code(exit_code: int) -> tuple[str, Cause]:
    """Returns a description and the cause for an exit code that ends the run."""
    if exit_code == NoProgress.exit_code:
        return f"no newer checkpoint after three restarts (exit code {exit_code})", "no progress"
    if exit_code == ConfigError.exit_code:
        why = "its devices or its settings do not fit the plan"
        return f"{why} (exit code {exit_code})", "program"
    return f"exited with code {exit_code}", "program"


# Reasons of kubernetes/pkg/kubelet/images/types.go and kuberuntime_container.go (read 2026-11-25).
_PULL = {
    *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"),
    *("ImageInspectError", "RegistryUnavailable"),
}
_NO_IMAGE = re.compile(
    "InvalidImageName|not ?found|manifest unknown|unauthorized|403 Forbidden|denied|authorization failed"
    "|no basic auth credentials",
    re.IGNORECASE,
)
"""What containerd, CRI-O and registries say of an image that another try does not get."""
_RUNTIME = {"CreateContainerError", "RunContainerError"}
MAX_EVICTIONS: Final = 3
"""So many evictions for the same lack on nodes of one size: the next node of it has no more."""
_LACK = re.compile(r"memory|pid", re.IGNORECASE)
_PHASES: Final[dict[str, WorkerPhase]] = {
    "Running": "running",
    "Succeeded": "done",
    "Failed": "failed",
}


def run_state(
    job: Object | None,
    pods: Sequence[Object],
    now: dt.datetime,
    node_sizes: Callable[[], Mapping[str, str]] = dict,
) -> RunState:
    """Returns the state of a run from its Job and the pods with its label.

    `node_sizes` returns the types of nodes by name, as far as they are known.
    """
    workers = _workers(pods, now)
    return replace(_run_state(job, pods, workers, node_sizes), image=_pulled_image(pods))


def _run_state(
    job: Object | None,
    pods: Sequence[Object],
    workers: tuple[WorkerState, ...],
    node_sizes: Callable[[], Mapping[str, str]],
) -> RunState:
    if job is None:
        return RunState("stopped" if workers else "absent", workers)
    status = job.get("status") or {}
    began = status.get("startTime")
    conditions = {k: one for k, one in conditions_of(job).items() if one.get("status") == "True"}
    if done := conditions.get("Complete"):
        ended = status.get("completionTime") or done.get("lastTransitionTime")
        return RunState("finished", workers, started_at=began, ended_at=ended)
    # A failing Job has FailureTarget, and Failed after its last pod is deleted.
    failed = conditions.get("Failed")
    if broken := failed or conditions.get("FailureTarget"):
        why, cause = _why_failed(job, broken, workers)
        ended = failed.get("lastTransitionTime") if failed else None
        return RunState("failed", workers, why, cause, began, ended)
    if job["metadata"].get("deletionTimestamp"):
        return RunState("stopping", workers, STOPPING, "", began)
    why, cause = _often_evicted(pods, node_sizes) or _worst(workers)
    up = sum(one.phase in ("running", "done") for one in workers)
    phase: Phase = "running" if up == int(job["spec"]["completions"]) else "starting"
    if job["spec"].get("suspend") or all(one.phase == "waiting" for one in workers):
        phase = "waiting"
    return RunState(phase, workers, why, cause, began)


def _pulled_image(pods: Sequence[Object]) -> str | None:
    """Returns the image of the workers with the digest that the kubelet of the first pod reports."""
    for pod in sorted(pods, key=_made):
        images = {one["name"]: one["image"] for one in pod["spec"].get("containers") or ()}
        for each in _statuses(pod):
            if each.get("name") == TRAINER in images and each.get("imageID"):
                return pinned(images[TRAINER], each["imageID"])
    return None


def _often_evicted(
    pods: Sequence[Object], node_sizes: Callable[[], Mapping[str, str]]
) -> tuple[str, Cause] | None:
    evicted = [pod for pod in pods if _is_evicted(pod)]
    if len(evicted) < MAX_EVICTIONS:
        return None
    sizes = node_sizes()
    alike: dict[tuple[str, str], list[Object]] = {}
    for pod in sorted(evicted, key=_made):
        said = _LACK.search(str(pod["status"].get("message")).partition(".")[0])
        size = sizes.get(str(pod["spec"].get("nodeName")), "")
        alike.setdefault((said[0].lower() if said else "disk", size), []).append(pod)
    for (lack, size), same in alike.items():
        if len(same) >= MAX_EVICTIONS:
            where = f" of type {size}" if size else ""
            why = f"{len(same)} pods lost on nodes{where}: {_why(same[-1])[0]}"
            return why, "memory" if lack == "memory" else "eviction"
    return None


def _is_evicted(pod: Object) -> bool:
    """Whether the kubelet ended or refused a pod because its node lacks a resource.

    https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/ (read 2026-11-25): that is
    a disruption, too, but no preemption.
    """
    return (pod.get("status") or {}).get("reason") == "Evicted"


def _disruption(pod: Object) -> str | None:
    """Returns why a pod was taken away, or left before; None if it did not."""
    for each in _statuses(pod):
        ended = (each.get("state") or {}).get("terminated") or {}
        for line in str(ended.get("message") or "").splitlines():
            if PREEMPTS in line:
                return line
    taken = conditions_of(pod).get("DisruptionTarget") or {}
    return (
        str(taken.get("message") or taken.get("reason")) if taken.get("status") == "True" else None
    )


def index_of(pod: Object) -> int | None:
    """Returns the rank of a pod; None: it has none."""
    found = (pod["metadata"].get("annotations") or {}).get(INDEX)
    return None if found is None else int(found)


def _made(pod: Object) -> str:
    return str(pod["metadata"].get("creationTimestamp", ""))


def _workers(pods: Sequence[Object], now: dt.datetime) -> tuple[WorkerState, ...]:
    by_index: dict[int, list[Object]] = {}
    has_image = any(each.get("imageID") for pod in pods for each in _statuses(pod))
    for pod in pods:
        if (index := index_of(pod)) is not None:
            by_index.setdefault(index, []).append(pod)
    workers = (_worker(index, by_index[index], now) for index in sorted(by_index))
    return tuple(
        # A node has pulled the image for this run: it exists, and the login is right.
        replace(one, cause="registry") if one.cause == "image" and has_image else one
        for one in workers
    )


def _worker(index: int, pods: list[Object], now: dt.datetime) -> WorkerState:
    """Returns the state of a rank from its newest pod.

    An older pod's memory error is kept, and the reason of its end until the newest pod runs.
    """
    *older, pod = sorted(pods, key=_made)
    status = pod.get("status") or {}
    phase: WorkerPhase = _PHASES.get(status.get("phase", ""), "waiting")
    if pod["metadata"].get("deletionTimestamp"):
        phase = "stopping"
    elif phase == "waiting" and pod["spec"].get("nodeName"):
        phase = "starting"
    why, cause = _why(pod)
    for one in reversed(older):
        before = _why(one)
        if not cause and before[1] == "memory":
            why, cause = before
        elif not why and phase in ("waiting", "starting"):
            why = before[0]
    since = status.get("startTime") or pod["metadata"].get("creationTimestamp")
    seconds = (now - parse_time(since)).total_seconds() if since else None
    node = str(pod["spec"].get("nodeName") or "")
    taken = sum(_disruption(one) is not None and not _is_evicted(one) for one in pods)
    return WorkerState(index, phase, node, len(older), why, cause, seconds, taken)


def _why(pod: Object) -> tuple[str, Cause]:
    status = pod.get("status") or {}
    placed = conditions_of(pod).get("PodScheduled") or {}
    if placed.get("status") == "False":
        return str(placed.get("message") or placed.get("reason") or ""), "placement"
    if _is_evicted(pod):
        return f"evicted: {_one_line(status.get('message'))}", ""
    if (why := _disruption(pod)) is not None:
        return f"preempted: {why}", ""
    for each in _statuses(pod):
        found = _why_container(each)
        if found[0]:
            return found
    return str(status.get("message") or ""), ""


def _statuses(pod: Object) -> tuple[Object, ...]:
    status = pod.get("status") or {}
    return (
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    )


def _one_line(text: object) -> str:
    return " ".join(str(text or "no reason given").split())


def _why_container(status: Object) -> tuple[str, Cause]:
    state = status.get("state") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    reason = waiting.get("reason", "")
    message = _one_line(waiting.get("message") or reason)
    if reason in _PULL:
        image = str(status.get("image"))
        said = f"{reason}: {message}".replace(image, "")
        cause: Cause = "image" if _NO_IMAGE.search(said) else "registry"
        return f"image {image} cannot be pulled ({message})", cause
    if reason == "CreateContainerConfigError":
        return f"its container cannot be created ({message})", "configuration"
    if reason in _RUNTIME:
        return f"the container runtime cannot create its container ({message})", "runtime"
    if ended.get("reason") == "OOMKilled":
        return "exceeded its memory limit (OOMKilled)", "memory"
    return _why_ended(str(status.get("name")), ended)


def _why_ended(container: str, ended: Object) -> tuple[str, Cause]:
    code = int(ended.get("exitCode") or 0)
    if not code:
        return "", ""
    why, cause = describe_exit_code(code)
    if container != TRAINER:
        last = str(ended.get("message") or "").strip().rpartition("\n")[2]
        why = f"init container {container} exited with code {code}{last and f': {last}'}"
        cause = "program"
    return why, "" if code in RESTART_CODES else cause


def _why_failed(
    job: Object, condition: Object, workers: Sequence[WorkerState]
) -> tuple[str, Cause]:
    reason, message = condition.get("reason", ""), condition.get("message", "")
    if reason == "DeadlineExceeded":
        return (
            f"its deadline of {job['spec'].get('activeDeadlineSeconds')} s has passed",
            "deadline",
        )
    why, cause = _worst(one for one in workers if one.cause not in _WAITS)
    if cause:
        return why, cause
    # A policy names the container that failed; a limit names nothing.
    said = f" ({why})" if why and reason != "PodFailurePolicy" else ""
    return f"{reason}: {message}{said}", "program"


_WAITS: Final[tuple[Cause, ...]] = ("placement", "runtime", "registry")
"""These never fail a Job."""
_BY_SEVERITY: Final[tuple[Cause, ...]] = (
    *("no progress", "memory", "image", "configuration", "program"),
    *(*_WAITS, ""),
)


def _worst(workers: Iterable[WorkerState]) -> tuple[str, Cause]:
    known = [
        one for one in workers if one.cause or (one.reason and one.phase not in ("running", "done"))
    ]
    if not known:
        return "", ""
    worst = min(known, key=lambda one: (_BY_SEVERITY.index(one.cause), one.index))
    where = f" on node {worst.node}" if worst.node and worst.cause in ("program", "runtime") else ""
    return f"worker {worst.index}{where}: {worst.reason}", worst.cause
