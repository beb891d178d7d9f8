"""Compute Engine: zones, quotas, instance groups of node pools, and orphaned resources."""

from __future__ import annotations

from typing import Any

from emulators.gcp.kubernetes_engine import STOCK_OUT, KubernetesEngine
from emulators.gcp.refusal import Refusal
from emulators.gcp.server import Call, GoogleServer, Route

Object = dict[str, Any]
ZONES = {
    "us-central1-a": ("g2-standard-4", "nvidia-tesla-v100", "a2-highgpu-1g"),
    "us-central1-b": ("g2-standard-4", "ct6e-standard-4t"),
    "us-central1-f": ("nvidia-tesla-v100", "ct5lp-hightpu-4t", "ct6e-standard-4t"),
    "europe-west4-a": ("g2-standard-4", "a3-highgpu-8g"),
}
"""What is where: machine types, and GPUs that are attached to machines."""


class ComputeEngine:
    """Quotas, networks, reservations and orphaned resources of one project.

    Attributes:
        quotas: Limits by metric, in each region.
        global_quotas: In all regions together.
        left: Machines and disks, by table and address.
        networks: Subnets by network; those of `default` are automatic.
        reservations: By zone.
        silent_zones: Zones with a warning UNREACHABLE in place of what they have (discovery document of
            compute.v1, revision 20261106: InstancesScopedList).
    """

    def __init__(self, server: GoogleServer, engine: KubernetesEngine) -> None:
        self._engine = engine
        self.quotas = {"NVIDIA_L4_GPUS": 8.0, "NVIDIA_V100_GPUS": 8.0, "CPUS": 72.0}
        self.quotas |= {"PREEMPTIBLE_NVIDIA_L4_GPUS": 8.0, "PREEMPTIBLE_NVIDIA_V100_GPUS": 0.0}
        self.global_quotas = {"GPUS_ALL_REGIONS": 8.0}
        self.networks = {"default": ("us-central1/default", "europe-west4/default")}
        self.left: dict[str, dict[str, Object]] = {"instances": {}, "disks": {}}
        self.reservations: dict[str, list[Object]] = {}
        self.silent_zones: set[str] = set()
        for table in self.left:
            server.add(self._routes(table))
        listed = Route(self._list_reservations, ("compute.reservations.list",))
        server.add({"compute.reservations.aggregatedList": listed})
        engine.refuse_reservation = self._refuse_reservation
        server.add({"compute.networks.get": Route(self._network, ("compute.networks.get",))})
        group = ("compute.instanceGroupManagers.get",)
        server.add(
            {
                "compute.machineTypes.aggregatedList": Route(
                    lambda call: _listed(call, "machineTypes"), ("compute.machineTypes.list",)
                ),
                "compute.acceleratorTypes.aggregatedList": Route(
                    lambda call: _listed(call, "acceleratorTypes"),
                    ("compute.acceleratorTypes.list",),
                ),
                "compute.regions.get": Route(
                    lambda call: _shown(self.quotas), ("compute.regions.get",)
                ),
                "compute.projects.get": Route(
                    lambda call: _shown(self.global_quotas), ("compute.projects.get",)
                ),
                "compute.instanceGroupManagers.get": Route(self._group, group),
                "compute.instanceGroupManagers.listErrors": Route(self._errors, group),
            }
        )

    def _network(self, call: Call) -> Object:
        name = call.path["network"]
        if name not in self.networks:
            raise Refusal(404, f"The resource 'projects/lab/global/networks/{name}' was not found")
        root = "https://www.googleapis.com/compute/v1/projects/lab/regions"
        places = (one.partition("/") for one in self.networks[name])
        subnets = [f"{root}/{region}/subnetworks/{subnet}" for region, _, subnet in places]
        return {
            "name": name,
            "autoCreateSubnetworks": name == "default",
            "subnetworks": subnets,
        }

    def refuse_network(self, asked: Object, zone: str) -> None:
        """Refuses a network or subnet that does not exist.

        In the words of https://github.com/gitpod-io/gitpod-gke-guide/issues/21 (2022-03); for subnets the
        words are made up.
        """
        name, subnet = asked.get("network", "default"), asked.get("subnetwork")
        if name not in self.networks:
            raise Refusal(400, f'Network "{name}" does not exist.')
        region = zone.rpartition("-")[0]
        if (subnet or name != "default") and f"{region}/{subnet}" not in self.networks[name]:
            raise Refusal(400, f'Subnetwork "{subnet}" does not exist in {region}.')

    def reserve(self, name: str, machine: str, count: int, zone: str, **properties: Any) -> Object:
        """Reserves machines; returns the reservation."""
        kind = {"machineType": machine} | properties
        reserved = {"count": str(count), "inUseCount": "0", "instanceProperties": kind}
        return self._reserve(name, zone, specificReservation=reserved)

    def reserve_tpus(self, name: str, family: str, chips: int, zone: str) -> Object:
        """Reserves chips of a family, such as VM_FAMILY_CLOUD_TPU_LITE_POD_SLICE_CT5LP."""
        reserved = [{"accelerator": {"acceleratorCount": chips}}]
        return self._reserve(
            name, zone, aggregateReservation={"vmFamily": family, "reservedResources": reserved}
        )

    def _reserve(self, name: str, zone: str, **what: Any) -> Object:
        made = {"name": name, "zone": zone, "status": "READY", "specificReservationRequired": True}
        self.reservations.setdefault(zone, []).append(made | what)
        return self.reservations[zone][-1]

    def _list_reservations(self, call: Call) -> Object:
        name = call.query["filter"].removeprefix("name=")
        items: Object = {f"zones/{zone}": {} for zone in ZONES}
        for zone, there in self.reservations.items():
            if named := [one for one in there if one["name"] == name]:
                items[f"zones/{zone}"] = {"reservations": named}
        return {"items": items}

    def _refuse_reservation(self, pool: Object) -> None:
        """Refuses what a reservation cannot serve: another zone or machine, or too many nodes.

        Such machines do not start
        (https://docs.cloud.google.com/compute/docs/instances/reservations-consume, read 2026-11-22, which
        also excludes spot machines); the words are made up.
        """
        config = pool["config"]
        affinity = config.get("reservationAffinity", {})
        if affinity.get("consumeReservationType") != "SPECIFIC_RESERVATION":
            return
        if config.get("spot") or config.get("flexStart"):
            raise Refusal(400, "Spot and flex-start VMs cannot consume a reservation.")
        if affinity.get("key") != "compute.googleapis.com/reservation-name":
            raise Refusal(400, "reservation_affinity.key must name a reservation.")
        (zone,), (name,) = pool["locations"], affinity["values"]
        for one in self.reservations.get(zone, ()):
            specific = one.get("specificReservation", {})
            kind = specific.get("instanceProperties", {}).get("machineType")
            enough = int(specific.get("count", 0)) >= pool["initialNodeCount"]
            if one["name"] == name.rpartition("/")[2] and kind == config["machineType"] and enough:
                return
        raise Refusal(400, f"The reservation {name} in {zone} does not match the node pool.")

    def leave(self, table: str, name: str, zone: str = "us-central1-a", **body: Any) -> Object:
        """Adds a machine or a disk, as a deleted pool may have left it."""
        path = f"projects/lab/zones/{zone}/{table}/{name}"
        root = "https://www.googleapis.com/compute/v1"
        made = {"name": name, "selfLink": f"{root}/{path}", "status": "RUNNING"}
        if table == "disks":
            made["status"] = "READY"
        self.left[table][path] = made | body
        return self.left[table][path]

    def _routes(self, table: str) -> dict[str, Route]:
        one = table.removesuffix("s")

        def path(call: Call) -> str:
            found = f"projects/lab/zones/{call.path['zone']}/{table}/{call.path[one]}"
            if found not in self.left[table]:
                raise Refusal(404, f"The resource '{found}' was not found")
            return found

        def delete(call: Call) -> Object:
            if self.left[table][path(call)].get("users"):
                raise Refusal(400, "The disk resource is already being used")
            del self.left[table][path(call)]
            return {"status": "RUNNING", "operationType": "delete"}

        handlers = {
            "aggregatedList": (lambda call: self._aggregated(call, table), "list"),
            "get": (lambda call: self.left[table][path(call)], "get"),
            "delete": (delete, "delete"),
        }
        return {
            f"compute.{table}.{name}": Route(handler, (f"compute.{table}.{right}",))
            for name, (handler, right) in handlers.items()
        }

    def _aggregated(self, call: Call, table: str) -> Object:
        """Returns, by zone, the resources whose label matches the filter."""
        key, equals, value = call.query["filter"].removeprefix("labels.").partition("=")
        key = key.removesuffix(":*")
        items: Object = {f"zones/{zone}": {} for zone in ZONES}
        for path, body in self.left[table].items():
            has = body.get("labels", {}).get(key)
            if has is not None and (not equals or has == value):
                items[f"zones/{path.split('/')[3]}"].setdefault(table, []).append(body)
        for zone in self.silent_zones:
            warning = {"code": "UNREACHABLE", "message": f"'zones/{zone}' was unreachable"}
            items[f"zones/{zone}"] = {"warning": warning}
        return {"items": items}

    def _group(self, call: Call) -> Object:
        pool = self._pool(call)
        ready = pool["status"] == "RUNNING"
        size = pool.get("initialNodeCount", 0) if ready else 0
        return {"name": call.path["instanceGroupManager"], "targetSize": size}

    def _errors(self, call: Call) -> Object:
        self._pool(call)
        if not self._engine.stock_out:
            return {}
        code = "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
        return {"items": [{"error": {"code": code, "message": STOCK_OUT}}]}

    def _pool(self, call: Call) -> Object:
        name = call.path["instanceGroupManager"].removeprefix("gke-").removesuffix("-grp")
        for pool in self._engine.pools():
            if pool["name"] == name:
                return pool
        raise Refusal(404, f"The resource {name} was not found")


def _listed(call: Call, table: str) -> Object:
    """Lists zones without such a resource too, with a warning, as Google does it."""
    wanted = call.query["filter"].removeprefix("name=")
    items: Object = {}
    for zone, names in ZONES.items():
        if wanted in names:
            items[f"zones/{zone}"] = {table: [{"name": wanted}]}
        else:
            nothing = {"code": "NO_RESULTS_ON_PAGE", "message": "There are no results"}
            items[f"zones/{zone}"] = {"warning": nothing}
    return {"items": items}


def _shown(limits: dict[str, float]) -> Object:
    return {"quotas": [{"metric": k, "limit": v, "usage": 0.0} for k, v in limits.items()]}
