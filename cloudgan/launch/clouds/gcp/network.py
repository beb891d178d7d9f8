"""Network and reservations of clusters, node pools and TPU VMs: fields of their requests, and whether they exist.

GKE and Cloud TPU use the network `default` unless a request names another. An organization may forbid it
(constraints/compute.skipDefaultNetworkCreation):
https://github.com/GoogleCloudPlatform/cloud-ops-sandbox/issues/678 (2021-04, read 2026-11-22). Fields: the
discovery documents of container.v1 and tpu.v2.

Reservations (discovery documents of compute.v1, container.v1 and tpu.v2): TPUs are reserved by chips
(`aggregateReservation`), other machines by their number. A reservation cannot be used for spot machines
(https://docs.cloud.google.com/compute/docs/instances/reservations-consume), and bills as its machines do, used
or not (https://docs.cloud.google.com/batch/docs/create-run-job-reservation, both read 2026-11-22). No page
states that machines with `maxRunDuration` cannot use one.
"""

from __future__ import annotations

import re
from typing import Any, Final

from cloudgan.core.errors import CredentialsError, PlanError
from cloudgan.launch.clouds.gcp import names
from cloudgan.launch.clouds.gcp.api import GoogleApi
from cloudgan.launch.clouds.gcp.machines import machine
from cloudgan.launch.clouds.planner import pool_of, reservation_parts
from cloudgan.launch.clouds.resource import Finding
from cloudgan.schema.plan import INTERNAL_IPS, NETWORK, SUBNET, NodePool, Plan, Target
from cloudgan.schema.price_row import PoolFee

DEFAULT: Final = "default"
NO_ADDRESSES: Final = (
    "nodes without public addresses need Cloud NAT in their network for public images, and Private Google"
    " Access in their subnet for the bucket"
)

NAT: Final = PoolFee(kind="nat", product="traffic through Cloud NAT")
"""0.0014 USD per node and hour, and 0.045 per GiB both ways, which no program here counts, so its cost is unknown
(https://cloud.google.com/nat/pricing, read 2026-11-30). Traffic to Google's services does not pass it."""


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
    """Refuses an existing cluster in another network or subnet than the requested one."""
    for field, wanted in cluster_fields(target).items():
        there = cluster.get(field, DEFAULT)
        if there != wanted:
            flag = "subnet" if field == "subnetwork" else field
            raise PlanError(
                f"cluster {cluster['name']} is in the {flag} {there!r}, not in {wanted!r}; omit --{flag},"
                " or pass another --cluster"
            )


def require(api: GoogleApi, target: Target) -> None:
    """Checks the network before anything is created; a login that may not read it is no error."""
    found = finding(api, target)
    if found.status == "missing":
        raise PlanError(found.message)


def finding(api: GoogleApi, target: Target) -> Finding:
    """Returns whether network and subnet exist."""
    subject = f"network {target.details.get(NETWORK, DEFAULT)}"
    try:
        problem = _problem(api, target)
    except CredentialsError as error:
        return Finding(subject, "unknown", str(error))
    return Finding(subject, "missing" if problem else "ok", problem or "it exists")


def _problem(api: GoogleApi, target: Target) -> str:
    """Returns what is wrong with network and subnet; empty: nothing."""
    name, subnet = target.details.get(NETWORK, DEFAULT), target.details.get(SUBNET)
    found = api.find(f"{names.COMPUTE}/projects/{api.project}/global/networks/{name}")
    if found is None:
        return (
            f"project {api.project} has no network {name!r}; pass --network=NAME of one that it has (and"
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


_NAME = re.compile(
    r"(?:projects/([a-z][-a-z0-9.:]{2,98})/reservations/)?([a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)"
)


def parse_reservation(text: str) -> tuple[str, str]:
    """Returns owner and name of the reservation that --reservation names; no owner: this project."""
    expected = "a name, such as week-48, or projects/OWNER/reservations/NAME of a shared one"
    owner, name = reservation_parts(_NAME, text, expected)
    return owner, name


def tpu_reservation(text: str, project: str, zone: str) -> str:
    """Returns the name of a reservation in Cloud TPU's API."""
    owner, name = parse_reservation(text)
    return f"projects/{owner or project}/locations/{zone}/reservations/{name}"


def reserved_zone(api: GoogleApi, plan: Plan) -> str:
    """Returns the zone of a plan's reservation."""
    pool, target = pool_of(plan), plan.target
    owner, name = parse_reservation(str(pool.reservation))
    owner = owner or api.project
    url = f"{names.COMPUTE}/projects/{owner}/aggregated/reservations"
    found = {
        zone.partition("/")[2]: reservation
        for page in api.pages(url, filter=f"name={name}")
        for zone, listed in page.get("items", {}).items()
        for reservation in listed.get("reservations", ())
    }
    where = target.zone if target.zone != names.ZONE else f"{target.region}-"
    fitting = {zone: body for zone, body in found.items() if zone.startswith(where or "")}
    if not fitting:
        elsewhere = f"; it is in {', '.join(sorted(found))}: give --zone" if found else ""
        raise PlanError(
            f"project {owner} has no reservation {name} in"
            f" {(where or '').removesuffix('-')}{elsewhere}"
        )
    problems = [_unfit(body, pool, plan.workers.nodes) for body in fitting.values()]
    for zone, problem in zip(fitting, problems, strict=True):
        if not problem:
            return str(zone)
    raise PlanError(f"reservation {name} in {', '.join(fitting)} {'; '.join(problems)}")


def _unfit(body: dict[str, Any], pool: NodePool, nodes: int) -> str:
    """Returns why a reservation cannot serve a node pool; empty: Google says the rest with the nodes."""
    if body.get("status", "READY") != "READY":
        return f"is {str(body['status']).lower()}"
    if pool.engine == "tpu_vm":
        aggregate = body.get("aggregateReservation") or {}
        wanted = machine(pool.node_type).accelerators
        free = _chips(aggregate, "reservedResources") - _chips(aggregate, "inUseResources")
        needs = f"{free} free chips, and {pool.node_type} needs {wanted}"
    else:
        specific, wanted = body.get("specificReservation") or {}, nodes
        free = int(specific.get("count", 0)) - int(specific.get("inUseCount", 0))
        needs = f"{free} free machines, and the run needs {wanted}"
    return "" if free >= wanted else f"has {needs}"


def _chips(aggregate: dict[str, Any], key: str) -> int:
    listed = aggregate.get(key) or ()
    return sum(int((one.get("accelerator") or {}).get("acceleratorCount", 0)) for one in listed)
