"""Which of a cloud's own addresses pods may speak to: who they are, and whether their machine goes.

Sources, all as of 2026-11-21. GKE: https://cloud.google.com/kubernetes-engine/docs/how-to/network-policy
and .../how-to/workload-identity: pods reach the GKE metadata server at 169.254.169.254:80 on clusters
with Dataplane V2, and after the node's own address translation at 169.254.169.252:988 on others. EKS:
https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html: the Pod Identity agent at
169.254.170.23:80; EC2's metadata service, which tells notices, at 169.254.169.254:80. AKS:
https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service: 169.254.169.254:80.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cloudgan.core.plan import Plan

_INSTANCE = ("169.254.169.254", 80)
_ADDRESSES = {
    "aws": (_INSTANCE, ("169.254.170.23", 80)),
    "azure": (_INSTANCE,),
    "gcp": (_INSTANCE, ("169.254.169.252", 988)),
}
_CLOUD_OF_STORE = {"gs": "gcp", "https": "azure", "s3": "aws"}


def metadata_rules(plan: Plan) -> list[dict[str, Any]]:
    """Returns the egress rules of a NetworkPolicy: none where no cloud is spoken to.

    On a cluster that was there already, the store says in which cloud its login is to be had.
    """
    scheme = plan.store.partition("://")[0]
    cloud = plan.place.provider if plan.place.is_rented else _CLOUD_OF_STORE.get(scheme, "")
    return [
        {
            "to": [{"ipBlock": {"cidr": f"{address}/32"}}],
            "ports": [{"protocol": "TCP", "port": port}],
        }
        for address, port in _ADDRESSES.get(cloud, ())
    ]
