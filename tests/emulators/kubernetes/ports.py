"""Maps peer names to local ports: all pods share one loopback interface.

A pod that NetworkPolicy objects select refuses what none of them allows, in each direction by itself
(https://kubernetes.io/docs/concepts/services-networking/network-policies/, read 2026-11-22). Rules by IP block
or namespace match no pod of the same namespace here.
"""

from __future__ import annotations

import re
import secrets
import socket
import threading

from emulators.kubernetes.jobs import INDEX, index_of
from emulators.kubernetes.objects import Object, has_labels, owned_by
from emulators.kubernetes.store import Store

PEERS = "CLOUDGAN_PEERS"
TEMPLATE = re.compile(
    r"(?P<job>[a-z0-9-]+)-\{index\}\.(?P<service>[a-z0-9-]+)[a-z0-9.-]*:(?P<port>\d+)"
)
BLOCKED = "127.0.0.1:1"
"""Address of a peer that a NetworkPolicy keeps from a pod: no process listens there."""
FIRST, LAST = 20000, 32000  # below the range of ports that the system assigns itself


class PeerPorts:
    """Gives each job pairs of neighbouring free ports, once, so that a replaced pod keeps its own."""

    def __init__(self, store: Store, *, enforces_policies: bool) -> None:
        self._store, self._enforces = store, enforces_policies
        self._given: dict[str, list[int]] = {}
        self._lock = threading.Lock()

    def resolve(self, pod: Object, value: str) -> tuple[str, dict[int, int]] | None:
        """Returns the local addresses of a template in a pod, and the pod's own ports.

        None: DNS would have no such names.
        """
        found, namespace = TEMPLATE.fullmatch(value), pod["metadata"]["namespace"]
        jobs = [one for one in self._store.select("jobs", namespace) if owned_by([pod], one)]
        if not found or not jobs or found["job"] != jobs[0]["metadata"]["name"]:
            return None
        service = self._store.find("services", namespace, found["service"])
        if pod["spec"].get("subdomain") != found["service"] or not service:
            return None
        with self._lock:
            given = self._given.setdefault(jobs[0]["metadata"]["uid"], [])
            while len(given) < jobs[0]["spec"]["completions"]:
                given.append(free_pair(set().union(*self._given.values())))
        port, mine = int(found["port"]), given[index_of(pod) or 0]
        addresses = ",".join(
            f"127.0.0.1:{one}" if self._reaches(pod, index, port) else BLOCKED
            for index, one in enumerate(given)
        )
        return addresses, {port: mine, port + 1: mine + 1}

    def _reaches(self, pod: Object, index: int, port: int) -> bool:
        """Whether the policies of this moment let a pod connect to a pod of its job."""
        if not self._enforces or index == index_of(pod):
            return True
        own = pod["metadata"]
        peer = {"metadata": own | {"labels": own["labels"] | {INDEX: str(index)}}}
        policies = self._store.select("networkpolicies", own["namespace"])
        return _allows(policies, peer, pod, "ingress", port) and _allows(
            policies, pod, peer, "egress", port
        )


def _allows(
    policies: list[Object], selected: Object, other: Object, direction: str, port: int
) -> bool:
    selecting = [
        one["spec"].get(direction) or ()
        for one in policies
        if direction.capitalize() in one["spec"]["policyTypes"]
        and has_labels(one["spec"]["podSelector"], selected)
    ]
    key = "from" if direction == "ingress" else "to"
    return not selecting or any(
        all(one.get("port") == port for one in rule.get("ports") or ())
        and any(
            set(one) == {"podSelector"} and has_labels(one["podSelector"], other)
            for one in rule.get(key) or [{"podSelector": {}}]
        )
        for rules in selecting
        for rule in rules
    )


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
