"""Reservations of Compute Engine and Cloud TPU: names, the fields that use one, and the check before a launch.

Fields: discovery documents of compute.v1, container.v1 (revision 20261027) and tpu.v2 (20261001). TPUs are
reserved by chips of a family (`aggregateReservation`), other machines by their number. A reservation cannot
be used for spot machines (https://docs.cloud.google.com/compute/docs/instances/reservations-consume), and
bills as its machines do, used or not (https://docs.cloud.google.com/batch/docs/create-run-job-reservation,
both read 2026-11-22). No page states that machines with `maxRunDuration` cannot use one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.core.errors import ConfigError, PlanError, shorten
from cloudgan.launch.backends.tpu_vm.slices import SLICES
from cloudgan.launch.clouds.gcp.addresses import COMPUTE, ZONE
from cloudgan.launch.clouds.gcp.machines import machine

if TYPE_CHECKING:
    from cloudgan.launch.clouds.gcp.api import GoogleApi
    from cloudgan.schema.plan import NodePool, Plan

_KEY = "compute.googleapis.com/reservation-name"
_NAME = re.compile(
    r"(?:projects/([a-z][-a-z0-9.:]{2,98})/reservations/)?([a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)"
)
_FAMILIES = {
    "v3": ("CT3", "CT3P"),
    "v4": ("CT4P",),
    "v5litepod": ("CT5L", "CT5LP"),
    "v5p": ("CT5P",),
    "v6e": ("CT6E",),
}
"""Ends of the names of VM families, by the generation of a slice."""


class Reservation(NamedTuple):
    """A reservation by name.

    Attributes:
        project: Its owner, if another project shares it.
        name: Its name.
    """

    project: str
    name: str


def parse(text: str) -> Reservation:
    """Returns the reservation that --reservation names.

    Raises:
        ConfigError: It is no name.
    """
    found = _NAME.fullmatch(text)
    if found is None:
        raise ConfigError(
            f"--reservation={shorten(text)} is not valid: give a name, such as week-48, or"
            " projects/OWNER/reservations/NAME of a shared one"
        )
    return Reservation(found[1] or "", found[2])


def affinity(text: str) -> dict[str, Any]:
    """Returns the reservation affinity of a node pool."""
    return {"consumeReservationType": "SPECIFIC_RESERVATION", "key": _KEY, "values": [text]}


def tpu_name(text: str, project: str, zone: str) -> str:
    """Returns the name of a reservation in Cloud TPU's API."""
    one = parse(text)
    return f"projects/{one.project or project}/locations/{zone}/reservations/{one.name}"


def reserved_zone(api: GoogleApi, project: str, plan: Plan) -> str:
    """Returns the zone of a plan's reservation.

    Raises:
        CredentialsError: This login may not list the reservations of their owner.
        PlanError: The reservation does not exist in the requested place, or cannot serve the plan.
    """
    pool, target = plan.node_pool, plan.target
    assert pool is not None  # noqa: S101  the caller checked
    assert pool.reservation is not None  # noqa: S101
    one = parse(pool.reservation)
    owner = one.project or project
    url = f"{COMPUTE}/projects/{owner}/aggregated/reservations"
    found = {
        zone.partition("/")[2]: reservation
        for page in api.pages(url, filter=f"name={one.name}")
        for zone, listed in page.get("items", {}).items()
        for reservation in listed.get("reservations", ())
    }
    where = target.zone if target.zone != ZONE else f"{target.region}-"
    fitting = {zone: body for zone, body in found.items() if zone.startswith(where or "")}
    if not fitting:
        elsewhere = f"; it is in {', '.join(sorted(found))}: give --zone" if found else ""
        raise PlanError(
            f"project {owner} has no reservation {one.name} in"
            f" {(where or '').removesuffix('-')}{elsewhere}"
        )
    problems = [_problem(body, pool, plan.workers.nodes) for body in fitting.values()]
    for zone, problem in zip(fitting, problems, strict=True):
        if not problem:
            return str(zone)
    raise PlanError(f"reservation {one.name} in {', '.join(fitting)} {'; '.join(problems)}")


def _problem(body: dict[str, Any], pool: NodePool, nodes: int) -> str:
    """Returns why a reservation cannot serve a node pool; empty: it can."""
    if body.get("status", "READY") != "READY":
        return f"is {str(body['status']).lower()}"
    if pool.node_type in SLICES:
        return _problem_of_chips(body.get("aggregateReservation") or {}, pool.node_type)
    wanted, specific = machine(pool.node_type), body.get("specificReservation") or {}
    properties = specific.get("instanceProperties") or {}
    kind = str(properties.get("machineType", "another kind")).rpartition("/")[2]
    gpus = [
        (str(one.get("acceleratorType", "")).rpartition("/")[2], one.get("acceleratorCount"))
        for one in properties.get("guestAccelerators") or ()
    ]
    if kind != wanted.machine_type:
        return f"is of {kind}, and the run needs {wanted.machine_type}"
    if wanted.is_attached and gpus != [(wanted.kind.name, wanted.accelerators)]:
        has = ", ".join(f"{count} x {gpu}" for gpu, count in gpus) or "no GPU"
        return f"has {has} per machine, and the run needs {wanted.node_type}"
    free = int(specific.get("count", 0)) - int(specific.get("inUseCount", 0))
    return "" if free >= nodes else f"has {free} free machines, and the run needs {nodes}"


def _problem_of_chips(aggregate: dict[str, Any], node_type: str) -> str:
    family = str(aggregate.get("vmFamily", "another kind")).rpartition("_")[2]
    if family not in _FAMILIES.get(node_type.partition("-")[0], ()):
        return f"is of {family}, and the run needs {node_type}"
    free = _chips(aggregate, "reservedResources") - _chips(aggregate, "inUseResources")
    wanted = SLICES[node_type].chips
    return "" if free >= wanted else f"has {free} free chips, and {node_type} needs {wanted}"


def _chips(aggregate: dict[str, Any], key: str) -> int:
    listed = aggregate.get(key) or ()
    return sum(int((one.get("accelerator") or {}).get("acceleratorCount", 0)) for one in listed)
