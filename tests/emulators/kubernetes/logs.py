"""Container logs for `pods/log`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from emulators.kubernetes.faults import AnswerLost
from emulators.kubernetes.quantities import is_over
from emulators.kubernetes.selection import at
from emulators.kubernetes.status_errors import Refusal
from emulators.kubernetes.store import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from emulators.kubernetes.store import Store

Object = dict[str, Any]
POLL_SECONDS = 0.03


def log_of(root: Path, pod: Object, container: str) -> Path:
    """Returns where the kubelet keeps what a container prints."""
    return root / "pods" / pod["metadata"]["uid"] / f"{container}.log"


class Logs:
    """Reads the logs of pods whose kubelet answers."""

    def __init__(self, store: Store, root: Path, lost_nodes: set[str]) -> None:
        self._store, self._root, self._lost_nodes = store, root, lost_nodes

    def read(self, namespace: str, name: str, query: dict[str, str]) -> Iterator[bytes]:
        """Yields a container's log; refuses when there is none yet."""
        pod = self._store.get("pods", namespace, name)
        container = self._container(pod, query.get("container"))
        node = pod["spec"].get("nodeName")
        if node in self._lost_nodes:
            text = (
                f'Get "https://{node}:10250/containerLogs/{namespace}/{name}/{container}": dial tcp'
            )
            raise Refusal(500, f"{text}: connect: no route to host")
        state = _status(pod, container).get("state") or {}
        if not node or "waiting" in state or not state:
            why = at(state, "waiting", "reason") or "ContainerCreating"
            outcome = "is waiting to start: " + why
            if why in {"ErrImagePull", "ImagePullBackOff"}:
                outcome = "is waiting to start: trying and failing to pull image"
            raise Refusal(400, f'container "{container}" in pod "{name}" {outcome}')
        path = log_of(self._root, pod, container)
        follow = query.get("follow") in {"true", "True", "1"}
        tail = query.get("tailLines")
        found = self._lines(pod, container, path, int(tail) if tail is not None else None, follow)
        if query.get("timestamps") not in {"true", "True", "1"}:
            return found
        return _timed(
            found, str(at(state, "running", "startedAt") or at(state, "terminated", "startedAt"))
        )

    @staticmethod
    def _container(pod: Object, wanted: str | None) -> str:
        spec, name = pod["spec"], pod["metadata"]["name"]
        names = [one["name"] for one in spec["containers"]]
        initial = [one["name"] for one in spec.get("initContainers") or []]
        if wanted is None:
            if len(names) > 1:
                text = f"a container name must be specified for pod {name}, choose one of: "
                outcome = f"[{' '.join(names)}]"
                outcome += (
                    f" or one of the init containers: [{' '.join(initial)}]" if initial else ""
                )
                raise Refusal(400, text + outcome)
            return names[0]
        if wanted not in names + initial:
            raise Refusal(400, f"container {wanted} is not valid for pod {name}")
        return wanted

    def _lines(
        self, pod: Object, container: str, path: Path, tail: int | None, follow: bool
    ) -> Iterator[bytes]:
        with path.open("rb") as log:
            if tail is not None:
                kept = log.read()
                lines = kept.splitlines(keepends=True)
                yield from [b"".join(lines[-tail:])] if tail and lines else []
            while True:
                ended = not follow or self._has_ended(pod, container)
                if found := log.read():
                    yield found
                if ended:
                    return
                if self._store.closed:
                    raise AnswerLost
                time.sleep(POLL_SECONDS)

    def _has_ended(self, pod: Object, container: str) -> bool:
        own = pod["metadata"]
        found = self._store.find(KINDS["pods"], own["namespace"], own["name"])
        if found is None or found["metadata"]["uid"] != own["uid"]:
            return True
        return is_over(found) or "terminated" in (_status(found, container).get("state") or {})


def _timed(chunks: Iterator[bytes], started: str) -> Iterator[bytes]:
    """Lines with a time: the container's start and the number of the line, as nothing notes more.

    The same line has the same time whenever it is read, as with a real kubelet.
    """
    number, rest = 0, b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield f"{started.removesuffix('Z')}.{number:09}Z ".encode() + line + b"\n"
            number += 1
    if rest:
        yield f"{started.removesuffix('Z')}.{number:09}Z ".encode() + rest


def _status(pod: Object, container: str) -> Object:
    status = pod["status"]
    outcome = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    return next((one for one in outcome if one["name"] == container), {})
