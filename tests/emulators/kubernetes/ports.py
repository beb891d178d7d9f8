"""Maps peer names to local ports: all pods share one loopback interface."""

from __future__ import annotations

import re
import secrets
import socket
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from emulators.kubernetes.job_pods import INDEX, index_of
from emulators.kubernetes.network_policies import admits
from emulators.kubernetes.store import owned_by

if TYPE_CHECKING:
    from emulators.kubernetes.store import Store

Object = dict[str, Any]
PEERS = "CLOUDGAN_PEERS"
TEMPLATE = re.compile(
    r"(?P<job>[a-z0-9-]+)-\{index\}\.(?P<service>[a-z0-9-]+)[a-z0-9.-]*:(?P<port>\d+)"
)
BLOCKED = "127.0.0.1:1"
"""Address of a peer that a NetworkPolicy keeps from a pod: no process listens there."""
FIRST, LAST = 20000, 32000  # below the range of ports that the system assigns itself


class Peers(NamedTuple):
    addresses: str
    """The comma list in the place of the template."""
    ports: dict[int, int]
    """This pod's ports, as the manifest names them -> as they are."""


class PeerPorts:
    """Gives each job pairs of neighbouring free ports, once, so that a replaced pod keeps its own."""

    def __init__(self, store: Store, *, enforces_policies: bool) -> None:
        self._store, self._enforces = store, enforces_policies
        self._given: dict[str, list[int]] = {}
        self._lock = threading.Lock()

    def resolve(self, pod: Object, value: str) -> Peers | None:
        """Returns the local addresses of a template in a pod; None if DNS would have no such names."""
        found, own = TEMPLATE.fullmatch(value), pod["metadata"]
        job = next(iter(self._jobs(pod)), None)
        if not found or job is None or found["job"] != job["metadata"]["name"]:
            return None
        if pod["spec"].get("subdomain") != found["service"] or not self._store.find(
            "services", own["namespace"], found["service"]
        ):
            return None
        with self._lock:
            given = self._given.setdefault(job["metadata"]["uid"], [])
            while len(given) < job["spec"]["completions"]:
                given.append(free_pair(set().union(*self._given.values())))
        port, mine = int(found["port"]), given[index_of(pod) or 0]
        addresses = ",".join(
            f"127.0.0.1:{one}" if self._reaches(pod, index, port) else BLOCKED
            for index, one in enumerate(given)
        )
        return Peers(addresses, {port: mine, port + 1: mine + 1})

    def _reaches(self, pod: Object, index: int, port: int) -> bool:
        """Whether the policies of this moment let a pod connect to a pod of its job."""
        own = pod["metadata"]
        peer = {"metadata": own | {"labels": own["labels"] | {INDEX: str(index)}}}
        return not self._enforces or index == index_of(pod) or admits(self._store, pod, peer, port)

    def _jobs(self, pod: Object) -> list[Object]:
        jobs = self._store.select("jobs", pod["metadata"]["namespace"])
        return [job for job in jobs if owned_by([pod], job)]


def free_pair(taken: set[int]) -> int:
    """Returns a port that is free together with the next one."""
    while True:
        port = FIRST + 2 * secrets.randbelow((LAST - FIRST) // 2)
        if port not in taken and _is_free(port) and _is_free(port + 1):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
