"""`GcpClient`: one project of Google Cloud."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping
from typing import Any

from cloudgan.core.errors import CloudganError, LaunchError, PlanError
from cloudgan.core.settings import variable
from cloudgan.launch.backends.tpu_vm.backend import TpuVmBackend
from cloudgan.launch.clouds.client import CloudClient
from cloudgan.launch.clouds.gcp import names, network, preflight
from cloudgan.launch.clouds.gcp.api import GoogleApi
from cloudgan.launch.clouds.gcp.kinds import KINDS
from cloudgan.launch.clouds.gcp.listing import list_clusters, list_resources, list_tpus
from cloudgan.launch.clouds.gcp.login import Login
from cloudgan.launch.clouds.gcp.machines import machine, select_zones, zones_of
from cloudgan.launch.clouds.resource import Finding, Listing
from cloudgan.launch.clouds.rows import look_up
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.launch.kubernetes.kubeconfig import connect_by_token
from cloudgan.schema.plan import LOCATION, ZONES, Plan, Target
from cloudgan.storage.store import open_store

_GRACE_SINCE = (1, 35)
"""First GKE version in which a spot pool configures its shutdown grace period."""


class GcpClient(CloudClient):
    """One project."""

    def __init__(
        self,
        login: Login,
        api: GoogleApi,
        say: Callable[[str], None] = lambda _: None,
        *,
        poll_seconds: float = 5.0,
    ) -> None:
        super().__init__(api, KINDS, say, poll_seconds=poll_seconds)
        self._login, self._api, self._project = login, api, api.project

    @classmethod
    def open(cls, target: Target, say: Callable[[str], None] = lambda _: None) -> GcpClient:
        """Opens the project of a target or of the login, with the application default credentials.

        CLOUDGAN_GCP_ENDPOINT replaces the address of Google's APIs.
        """
        login = Login.find()
        project, endpoint = login.project_for(target.account), variable("CLOUDGAN_GCP_ENDPOINT")
        return cls(login, GoogleApi(login.session(), project, endpoint=endpoint), say)

    def identify(self) -> Mapping[str, str]:
        """Returns project and login, which Google has answered."""
        self._login.token()
        return {"project": self._project, "who": self._login.who}

    def resolve_placeholders(self, plan: Plan) -> Mapping[str, str]:
        """Returns project, zone and the cluster's zone or region."""
        found = {names.PROJECT: self._project}
        if plan.node_pool is None or plan.node_pool.engine != "cluster":
            found |= self._tpu_zones(plan)
            network.require(self._api, plan.target)
            return found
        target = plan.target
        there, missing = list_clusters(self._api)
        if away := [zone for zone in missing if zone.startswith(target.region or "")]:
            raise LaunchError(
                f"Kubernetes Engine does not answer for {', '.join(away)}, where cluster {target.cluster} may"
                " be; nothing was created. Try again later, or pass another --region"
            )
        named = [one for one in there if one["name"] == target.cluster]
        wanted = target.zone if target.zone != names.ZONE else None
        kind, region = machine(plan.node_pool.node_type), target.region or ""
        offered = zones_of(self._api.pages, self._project, kind)
        if plan.node_pool.reservation:
            wanted = network.reserved_zone(self._api, plan)
        zones = select_zones(kind, region, wanted, offered, {one["location"] for one in named})
        zone = zones[0]
        found |= {names.ZONE: zone, ZONES: " ".join(zones)}
        near = [one for one in named if one["location"] in (zone, region)]
        near += [one for one in named if one["location"].startswith(f"{region}-")]
        if target.details.get(LOCATION) != names.CLUSTER_LOCATION:
            near = [one for one in near if one["location"] == zone]
        found[names.CLUSTER_LOCATION] = near[0]["location"] if near else zone
        channel = look_up(near[0], "releaseChannel.channel") if near else "REGULAR"
        has_channel = channel not in (None, "UNSPECIFIED")
        found[names.RELEASE_CHANNEL] = str(channel) if has_channel else names.NO_CHANNEL
        if near:
            _check_cluster(near[0], is_spot=plan.node_pool.market == "spot")
            network.check_cluster(near[0], target)
        else:
            network.require(self._api, target)
        return found

    def check(self, plan: Plan | None, region: str | None = None) -> tuple[Finding, ...]:
        """Checks login, APIs, permissions and quota; creates nothing."""
        del region  # no finding without a plan depends on it
        login = Finding("login", "ok", f"{self._login.who} in project {self._project}")
        found = [login, *preflight.access_findings(self._api)]
        if plan is None or plan.node_pool is None:
            return tuple(found)
        found.append(network.finding(self._api, plan.target))
        if plan.node_pool.engine != "cluster":
            return (*found, *preflight.tpu_findings(self._api, plan))
        try:
            found += preflight.quota_findings(self._api, plan)
        except CloudganError as error:
            found.append(Finding("quota", "unknown", str(error)))
        return tuple(found)

    def list_resources(
        self, run: str | None = None, regions: Collection[str] | None = None
    ) -> Listing:
        """Lists the resources of cloudgan, or of a run, in all regions."""
        return list_resources(self._api, run, regions, self._say)

    def cluster_api(self, target: Target) -> ClusterApi | None:
        """Returns the Kubernetes API of a target's cluster; None without a cluster."""
        location = target.details.get(LOCATION) or target.zone or ""
        found = self._api.find(f"{names.clusters(self._project, location)}/{target.cluster}")
        if found is None or not found.get("endpoint") or found.get("status") == "STOPPING":
            return None
        ca = (found.get("masterAuth") or {}).get("clusterCaCertificate")
        pem = base64.b64decode(ca).decode() if ca else None
        client = connect_by_token(f"https://{found['endpoint']}", pem, self._login.token)
        return ClusterApi(client, say=self._say)

    def job_backend(self, plan: Plan) -> TpuVmBackend | None:
        """Returns the backend of a plan on Cloud TPU VMs, or None for a cluster plan."""
        if plan.node_pool is None or plan.node_pool.engine == "cluster":
            return None
        store, poll_seconds = open_store(plan.store), self._poll_seconds
        return TpuVmBackend(self, store, plan, say=self._say, poll_seconds=poll_seconds)

    def _tpu_zones(self, plan: Plan) -> Mapping[str, str]:
        """Returns the zones that offer the plan's slice; first those in use by it."""
        preflight.check_hosts(plan)
        zone = plan.target.zone
        zones = [str(zone)]
        if plan.node_pool and plan.node_pool.reservation:
            zones = [network.reserved_zone(self._api, plan)]
        elif zone in (None, names.ZONE):
            zones = preflight.tpu_zones(self._api, plan)
            held = {one.region for one in list_tpus(self._api, plan.run, self._say)}
            zones.sort(key=lambda one: (one not in held, one))
        return {names.ZONE: zones[0], names.CLUSTER_LOCATION: zones[0], ZONES: " ".join(zones)}


def _check_cluster(cluster: dict[str, Any], *, is_spot: bool) -> None:
    """Refuses a cluster that runs cannot use, before anything is created."""
    # https://github.com/turbot/steampipe-plugin-gcp/issues/591 (read 2026-11-25)
    if (cluster.get("autopilot") or {}).get("enabled"):
        raise PlanError(
            f"cluster {cluster['name']} is an Autopilot cluster, in which Google refuses node pools of"
            " users; pass --cluster of a Standard cluster, or omit it: cloudgan creates one"
        )
    if not (cluster.get("workloadIdentityConfig") or {}).get("workloadPool"):
        raise PlanError(
            f"cluster {cluster['name']} has no workload identity, which pods need for their bucket;"
            " enable it (gcloud container clusters update --workload-pool), or pass another"
            " --cluster"
        )
    version = str(cluster.get("currentMasterVersion", ""))
    known = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if is_spot and known and known < _GRACE_SINCE:
        raise PlanError(
            f"cluster {cluster['name']} has Kubernetes {version}, whose spot nodes end after 15 s,"
            " too soon for a checkpoint; upgrade it to 1.35, or pass --market=on_demand or another"
            " --cluster"
        )
