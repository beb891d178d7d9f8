"""What an attempt cost beside its nodes: cluster, storage, traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloudgan.core.launch import Attempt, Cluster
    from cloudgan.cost.fees import Fees
    from cloudgan.cost.ledger import Ledger

CLUSTER = "cluster"
SYSTEM_NODES = "cluster's own nodes"
STORAGE = "storage"
EGRESS = "egress"
TO_THE_INTERNET = "to the internet"
"""As fees.csv names it. Between regions it is cheaper, which would be too low a sum."""
_HOUR_SECONDS = 3600


def charge_attempt(ledger: Ledger, attempt: Attempt, fees: Fees) -> None:
    """Adds what is charged beside nodes; what launch.json or the fees do not say is unknown."""
    if attempt.cluster is None:
        why = "launch.json does not say which cluster the nodes belonged to"
        ledger.unknown(CLUSTER, why, "billed_seconds", None)
    else:
        _charge_cluster(ledger, attempt, attempt.cluster, fees)
    of = (attempt.provider, attempt.region)
    storage = fees.find("storage_gib_month", *of)
    egress = fees.find("egress_gib", *of, TO_THE_INTERNET)
    for name, quantity, fee in (
        (STORAGE, attempt.stored_gib_months, storage),
        (EGRESS, attempt.egress_gib, egress),
    ):
        if quantity is None:
            ledger.unknown(name, "launch.json does not say how much", "billed_seconds", None)
        elif fee is None:
            why = f"no price of {name} in {attempt.provider} {attempt.region}"
            ledger.unknown(name, why, "billed_seconds", None)
        else:
            ledger.charge(name, fee, quantity=quantity)


def _charge_cluster(ledger: Ledger, attempt: Attempt, cluster: Cluster, fees: Fees) -> None:
    seconds = cluster.share_seconds()
    if seconds is None:
        why = f"how long cluster {cluster.name} ran, or for which runs, was not noted"
        ledger.unknown(CLUSTER, why, "billed_seconds", None)
        return
    of = (attempt.provider, attempt.region)
    plane = fees.find("control_plane", *of, cluster.control_plane)
    hours = seconds / _HOUR_SECONDS
    if cluster.control_plane is None or plane is None:
        what = cluster.control_plane or "of an unknown kind"
        ledger.unknown(CLUSTER, f"no fee of a control plane {what}", "billed_seconds", seconds)
    else:
        ledger.charge(CLUSTER, plane, quantity=hours, seconds=seconds)
    if cluster.system_nodes == 0:
        return
    node = fees.find("system_node", *of, cluster.system_node) if cluster.system_node else None
    if node is None or cluster.system_nodes is None:
        what = cluster.system_node or "of an unknown type"
        why = f"number or price of nodes {what} that did not train is not known"
        ledger.unknown(SYSTEM_NODES, why, "billed_seconds", seconds)
        return
    ledger.charge(SYSTEM_NODES, node, quantity=hours, seconds=seconds, units=cluster.system_nodes)
