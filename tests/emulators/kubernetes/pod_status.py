"""Derives a pod's status from its container states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulators.kubernetes.store import set_condition

if TYPE_CHECKING:
    from emulators.kubernetes.container import Container

Object = dict[str, Any]
ADDRESS = "127.0.0.1"


def phase_of(initial: list[Container], main: list[Container], policy: str, *, ending: bool) -> str:
    """Returns the phase of a pod."""
    broken = [one for one in initial if one.has_ended and one.exit_code]
    if broken and (policy == "Never" or ending):
        return "Failed"
    if main and all(one.has_ended and not one.restarts for one in main):
        return "Failed" if any(one.exit_code for one in main) else "Succeeded"
    if any(one.was_started for one in main):
        return "Running"
    return "Failed" if ending and not any(one.is_running for one in initial) else "Pending"


def describe(
    pod: Object, initial: list[Container], main: list[Container], phase: str, started: str
) -> None:
    """Writes phase, conditions and the states of containers into a pod."""
    status = pod.setdefault("status", {})
    over = phase in {"Succeeded", "Failed"}
    status.update(phase=phase, hostIP=ADDRESS, startTime=started, hostIPs=[{"ip": ADDRESS}])
    if any(one.was_started for one in [*initial, *main]):
        status.update(podIP=ADDRESS, podIPs=[{"ip": ADDRESS}])
    if initial:
        status["initContainerStatuses"] = [one.status() for one in initial]
    status["containerStatuses"] = [one.status() for one in main]
    initialized = all(one.has_ended and not one.exit_code for one in initial)
    _say(pod, "Initialized", initialized, "ContainersNotInitialized")
    ready = initialized and not over and all(one.is_ready for one in main)
    done = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    why = done if over else "ContainersNotReady"
    for kind in ("ContainersReady", "Ready"):
        _say(pod, kind, ready, why)


def _say(pod: Object, kind: str, holds: bool, otherwise: str) -> None:
    set_condition(pod, kind, "True" if holds else "False", None if holds else otherwise)
