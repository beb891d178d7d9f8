"""What pods may reach besides the internet: the services that give them credentials."""

from __future__ import annotations

from typing import Any, Final

from cloudgan.core import clouds
from cloudgan.core.labels import RUN
from cloudgan.schema.plan import Plan

CILIUM: Final = "cilium.io/"
"""API group, with a slash; a cluster without Cilium does not know it."""

_AGENT: Final = ("169.254.170.23", 80)  # of EKS Pod Identity, on the network of the node


def asks_agent(plan: Plan) -> bool:
    """Whether pods of a cluster that cloudgan did not create get their credentials from EKS Pod Identity."""
    own = (*plan.workers.kubernetes_secrets, "AWS_SECRET_ACCESS_KEY" in plan.workers.secrets)
    has_own = plan.target.cluster == clouds.CLUSTER or any(own)
    return not has_own and _AGENT in _pod_endpoints(plan)


def cilium_policy(plan: Plan) -> dict[str, Any]:
    """Returns what lets pods reach the Pod Identity agent where Cilium enforces the NetworkPolicy.

    Cilium matches no address of a node by an IP block, but by the entity `host`
    (https://docs.cilium.io/en/latest/security/policy/layer3/, https://github.com/cilium/cilium/issues/34387
    and https://github.com/Smana/runlore/pull/57, which tried this policy; 2026-11-25).
    """
    address = {"port": str(_AGENT[1]), "protocol": "TCP"}
    return {
        "apiVersion": f"{CILIUM}v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": {
            "labels": {"app.kubernetes.io/name": "cloudgan"},
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": plan.run, "uid": "<of the Job>"}
            ],
        },
        "spec": {
            "endpointSelector": {"matchLabels": {RUN: plan.run}},
            "egress": [{"toEntities": ["host"], "toPorts": [{"ports": [address]}]}],
        },
    }


def metadata_rules(plan: Plan) -> list[dict[str, Any]]:
    """Returns the egress rules for the cloud's metadata services; none outside a cloud.

    On a preexisting cluster the store's cloud decides, because it issues the pods' credentials.
    """
    return [
        {
            "to": [{"ipBlock": {"cidr": f"{address}/32"}}],
            "ports": [{"protocol": "TCP", "port": port}],
        }
        for address, port in _pod_endpoints(plan)
    ]


def _pod_endpoints(plan: Plan) -> tuple[tuple[str, int], ...]:
    cloud = plan.target.provider if plan.target.is_provisioned else clouds.of_bucket(plan.store)
    return clouds.find(cloud).pod_endpoints if cloud else ()
