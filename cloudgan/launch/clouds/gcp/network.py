"""The network of clusters, node pools and TPU VMs: fields of their requests, and whether it exists.

GKE and Cloud TPU use the network `default` unless a request names another. An organization may forbid it
(constraints/compute.skipDefaultNetworkCreation):
https://github.com/GoogleCloudPlatform/cloud-ops-sandbox/issues/678 (2021-04, read 2026-11-22). Fields: the
discovery documents of container.v1 and tpu.v2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.errors import CredentialsError, PlanError
from cloudgan.launch.clouds.gcp.addresses import COMPUTE
from cloudgan.schema.plan import INTERNAL_IPS, NETWORK, SUBNET
from cloudgan.schema.resource import Finding

if TYPE_CHECKING:
    from cloudgan.launch.clouds.gcp.api import GoogleApi
    from cloudgan.schema.plan import Target

DEFAULT: Final = "default"
NO_ADDRESSES: Final = (
    "nodes without public addresses need Cloud NAT in their network for public images, and Private Google"
    " Access in their subnet for the bucket"
)


def is_internal(target: Target) -> bool:
    """Whether nodes get no public addresses."""
    return INTERNAL_IPS in target.details


def cluster_fields(target: Target) -> dict[str, Any]:
    """Returns network and subnet of a cluster's request; empty: those called default."""
    fields = {"network": NETWORK, "subnetwork": SUBNET}
    return {field: target.details[key] for field, key in fields.items() if key in target.details}


def tpu_fields(target: Target) -> dict[str, Any]:
    """Returns the network configuration of TPU VMs."""
    return {"enableExternalIps": not is_internal(target)} | cluster_fields(target)


def check_cluster(cluster: dict[str, Any], target: Target) -> None:
    """Refuses an existing cluster in another network or subnet than the requested one.

    Raises:
        PlanError: It is in another one.
    """
    for field, wanted in cluster_fields(target).items():
        there = cluster.get(field, DEFAULT)
        if there != wanted:
            flag = "subnet" if field == "subnetwork" else field
            raise PlanError(
                f"cluster {cluster['name']} is in the {flag} {there!r}, not in {wanted!r}; omit --{flag},"
                " or pass another --cluster"
            )


def require(api: GoogleApi, project: str, target: Target) -> None:
    """Checks the network before anything is created; a login that may not read it is no error.

    Raises:
        PlanError: Network or subnet do not exist; names the flag.
    """
    try:
        problem = _problem(api, project, target)
    except CredentialsError:
        return  # Google says it when the cluster is created
    if problem:
        raise PlanError(problem)


def finding(api: GoogleApi, project: str, target: Target) -> Finding:
    """Returns whether network and subnet exist."""
    subject = f"network {target.details.get(NETWORK, DEFAULT)}"
    try:
        problem = _problem(api, project, target)
    except CredentialsError as error:
        return Finding(subject, "unknown", str(error))
    return Finding(subject, "missing" if problem else "ok", problem or "it exists")


def _problem(api: GoogleApi, project: str, target: Target) -> str:
    """Returns what is wrong with network and subnet; empty: nothing."""
    name, subnet = target.details.get(NETWORK, DEFAULT), target.details.get(SUBNET)
    found = api.find(f"{COMPUTE}/projects/{project}/global/networks/{name}")
    if found is None:
        return (
            f"project {project} has no network {name!r}; pass --network=NAME of one that it has (and"
            " --subnet=NAME, if its subnets are not automatic), or create it"
        )
    there = sorted(
        str(url).rpartition("/")[2]
        for url in found.get("subnetworks", ())
        if f"/regions/{target.region}/" in url
    )
    known = ", ".join(there) or f"none, so pass another --region than {target.region}"
    if subnet and subnet not in there:
        return (
            f"network {name} has no subnet {subnet!r} in {target.region}; --subnet can be: {known}"
        )
    if not subnet and found.get("autoCreateSubnetworks") is False:
        return (
            f"the subnets of network {name} are not automatic; pass --subnet, which can be: {known}"
        )
    return ""
