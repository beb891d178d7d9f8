"""Container states and events for images that cannot be pulled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulators.kubernetes.container import CANNOT_START
from emulators.kubernetes.controller import record_event

if TYPE_CHECKING:
    from emulators.kubernetes.container import Container
    from emulators.kubernetes.store import Store

Object = dict[str, Any]


NOT_FOUND = ("NotFound", "not found")
DENIED = ("Unknown", "pull access denied: insufficient_scope: authorization failed")
UNAVAILABLE = ("Unavailable", "unexpected status from HEAD request: 503 Service Unavailable")
"""gRPC status and words of containerd, as in its issues and https://github.com/apache/airflow/issues/65490."""


def cannot_pull(
    store: Store, pod: Object, container: Container, pulls: int, error: tuple[str, str]
) -> bool:
    """Sets the state of an image that cannot be pulled, at the first and second try; True: it changed."""
    name, (status, said) = container.spec["image"], error
    text = f'failed to pull and unpack image "{name}": failed to resolve reference: {said}'
    if pulls == 0:
        container.wait("ErrImagePull", f"rpc error: code = {status} desc = {text}")
        for outcome in (f'Failed to pull image "{name}": {text}', "Error: ErrImagePull"):
            record_event(store, pod, "Failed", outcome, kind="Warning")
    elif pulls == 1:
        outcome = f'Back-off pulling image "{name}"'
        container.wait("ImagePullBackOff", f"{outcome}: ErrImagePull: {text}")
        record_event(store, pod, "BackOff", outcome)
        record_event(store, pod, "Failed", "Error: ImagePullBackOff", kind="Warning")
    return pulls < 2


def cannot_start(store: Store, pod: Object, container: Container, error: OSError) -> None:
    """Ends a container whose program is not there."""
    text = "failed to create containerd task: failed to create shim task: OCI runtime create "
    text += f"failed: runc create failed: unable to start container process: {error}: unknown"
    container.reason = "StartError"
    container.end(CANNOT_START, None)
    container.state["terminated"]["message"] = text
    record_event(store, pod, "Failed", f"Error: {text}", kind="Warning")
