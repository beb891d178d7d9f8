"""NetworkPolicy objects: which pods may connect to which.

A pod that policies select refuses what none of them allows, in each direction by itself
(https://kubernetes.io/docs/concepts/services-networking/network-policies/, read 2026-11-22). Rules by
IP block or namespace match no pod of the same namespace here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulators.kubernetes.selection import at

if TYPE_CHECKING:
    from emulators.kubernetes.store import Store

Object = dict[str, Any]


def admits(store: Store, source: Object, target: Object, port: int) -> bool:
    """Returns whether a pod may connect to a port of another pod of its namespace."""
    policies = store.select("networkpolicies", source["metadata"]["namespace"])
    incoming = _allows(_selecting(policies, target, "Ingress"), source, "from", port)
    return incoming and _allows(_selecting(policies, source, "Egress"), target, "to", port)


def _selecting(policies: list[Object], pod: Object, direction: str) -> list[list[Object]]:
    """Returns the rules of each policy that selects a pod for a direction."""
    return [
        policy["spec"].get(direction.lower()) or []
        for policy in policies
        if direction in policy["spec"]["policyTypes"]
        and _matches(policy["spec"]["podSelector"], pod)
    ]


def _allows(selecting: list[list[Object]], other: Object, key: str, port: int) -> bool:
    return not selecting or any(
        _names(rule.get("ports"), port)
        and (not rule.get(key) or any(_is_peer(one, other) for one in rule[key]))
        for rules in selecting
        for rule in rules
    )


def _names(ports: list[Object] | None, port: int) -> bool:
    return not ports or any(
        one.get("protocol", "TCP") == "TCP" and one.get("port") in {None, port} for one in ports
    )


def _is_peer(peer: Object, pod: Object) -> bool:
    return set(peer) == {"podSelector"} and _matches(peer["podSelector"], pod)


def _matches(selector: Object, pod: Object) -> bool:
    wanted = selector.get("matchLabels") or {}
    return wanted.items() <= (at(pod, "metadata", "labels") or {}).items()
