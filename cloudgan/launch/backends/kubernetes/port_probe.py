"""Waits for the test whether pods outside a run can reach the ports of its workers.

TensorFlow's gRPC server has no authentication and executes what it receives
(https://github.com/tensorflow/tensorflow/blob/master/SECURITY.md, read 2026-11-22). A NetworkPolicy
admits the pods of the run only, and a cluster without a policy engine stores it without effect
(https://kubernetes.io/docs/concepts/services-networking/network-policies/, read 2026-11-22).
"""

from __future__ import annotations

import time
from typing import Any, Final

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import OpenPortsError
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.launch.kubernetes.job_state import INDEX
from cloudgan.schema.plan import Plan, Step

_OUTSIDE: Final = "2"
"""Index of the pod that no NetworkPolicy admits; its exit code is the result."""
_ENFORCED, _OPEN = 0, 3
_POLL_SECONDS: Final = 0.5
_ALLOW: Final = (
    "If you trust every pod of the cluster, pass --allow-open-ports; see docs/security.md"
)


def wait_for_port_probe(api: ClusterApi, pods: str, step: Step, plan: Plan) -> None:
    """Returns when the pods of the probe found that the policy is enforced.

    Raises:
        OpenPortsError: The policy is not enforced, or there is no result within the gang timeout.
    """
    job = step.path.rpartition("/")[2]
    deadline = monotonic_seconds() + plan.limits.gang_timeout_seconds
    while True:
        found = api.list(pods, f"batch.kubernetes.io/job-name={job}")["items"]
        codes = {_index(pod): _exit_code(pod) for pod in found}
        if codes.get(_OUTSIDE) == _ENFORCED:
            return
        if codes.get(_OUTSIDE) == _OPEN:
            raise OpenPortsError(
                "this cluster does not enforce NetworkPolicy: a pod outside the run could connect to"
                " the ports of the workers, and TensorFlow executes what it receives there. Nothing"
                " was started. Use a cluster with a network policy engine, or --nodes=1."
                f" {_ALLOW}"
            )
        failed = any(code for code in codes.values())
        if failed or monotonic_seconds() > deadline:
            raise OpenPortsError(
                f"whether this cluster enforces NetworkPolicy is unknown: Job {job}"
                f" {'failed' if failed else 'did not finish'} ({_states(found)}). Nothing was"
                f" started; rerun the command. {_ALLOW}"
            )
        time.sleep(_POLL_SECONDS)


def _index(pod: dict[str, Any]) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(INDEX, ""))


def _exit_code(pod: dict[str, Any]) -> int | None:
    """Returns the exit code of a pod's container; None if it has not ended."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (status.get("state") or {}).get("terminated")
        if ended:
            return int(ended.get("exitCode", 1))
    return None


def _states(pods: list[dict[str, Any]]) -> str:
    """Returns the phase of each pod, with the reason for which its container waits."""
    shown = []
    for pod in pods:
        status = pod.get("status") or {}
        waits = [
            str(((one.get("state") or {}).get("waiting") or {}).get("reason", ""))
            for one in status.get("containerStatuses") or ()
        ]
        conditions = [str(one.get("message", "")) for one in status.get("conditions") or ()]
        why = next(filter(None, (*waits, *conditions)), "")
        shown.append(f"pod {_index(pod)} {status.get('phase', 'Unknown')}{why and f': {why}'}")
    return "; ".join(shown) or "no pods"
