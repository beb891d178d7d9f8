"""`GcpClient`: one project of Google Cloud."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

from cloudgan.core.clouds import region_of
from cloudgan.core.errors import CloudganError, LaunchError, PlanError
from cloudgan.launch.backends.tpu_vm.backend import TpuVmBackend
from cloudgan.launch.backends.tpu_vm.client import TpuVmClient
from cloudgan.launch.clouds.gcp import network
from cloudgan.launch.clouds.gcp.addresses import (
    CLUSTER_LOCATION,
    LOCATION,
    NO_CHANNEL,
    PROJECT,
    RELEASE_CHANNEL,
    ZONE,
    clusters,
)
from cloudgan.launch.clouds.gcp.buckets import Buckets
from cloudgan.launch.clouds.gcp.identities import Identities
from cloudgan.launch.clouds.gcp.kubernetes_engine import KubernetesEngine, OrphanedMachines
from cloudgan.launch.clouds.gcp.login import Login
from cloudgan.launch.clouds.gcp.machines import machine, select_zones, zones_of
from cloudgan.launch.clouds.gcp.preflight import access_findings, quota_findings
from cloudgan.launch.clouds.gcp.reservations import reserved_zone
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.launch.kubernetes.kubeconfig import connect_by_token
from cloudgan.schema.plan import ZONES
from cloudgan.schema.resource import Finding, Listing
from cloudgan.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from cloudgan.launch.clouds.gcp.api import GoogleApi
    from cloudgan.schema.plan import Plan, Step, Target
    from cloudgan.schema.resource import Resource

_PLACE = re.compile(r"[a-z]+-[a-z]+[0-9]+(-[a-z])?")
_GRACE_SINCE = (1, 35)
"""First GKE version in which a spot pool configures its shutdown grace period."""


class GcpClient:
    """One project; implements `CloudClient`.

    Args:
        login: The login.
        api: Google's APIs.
        project: Project ID.
        say: Receives progress and warnings.
        poll_seconds: Interval between two requests while a resource is busy.
    """

    def __init__(
        self,
        login: Login,
        api: GoogleApi,
        project: str,
        say: Callable[[str], None] = lambda _: None,
        *,
        poll_seconds: float = 5.0,
    ) -> None:
        self._login, self._api, self._project, self._say = login, api, project, say
        self._engine = KubernetesEngine(api, project, poll_seconds=poll_seconds)
        self._tpus, self._poll_seconds = TpuVmClient(api, project, say), poll_seconds
        self._orphans = OrphanedMachines(api, project, say)
        self._buckets = Buckets(api, project)
        self._identities = Identities(api, project, poll_seconds=poll_seconds)

    @classmethod
    def open(cls, target: Target, say: Callable[[str], None] = lambda _: None) -> GcpClient:
        """Opens the project of a target, or of the login, with the application default credentials.

        Raises:
            CredentialsError: There is no login, or no project.
        """
        login = Login.find()
        project = login.project_for(target.account)
        return cls(login, login.api(), project, say)

    def identify(self) -> Mapping[str, str]:
        """Returns project and login, which Google has answered."""
        self._login.token()
        return {"project": self._project, "who": self._login.who}

    def resolve_placeholders(self, plan: Plan) -> Mapping[str, str]:
        """Returns project, zone and the cluster's zone or region.

        Raises:
            PlanError: The region or the cluster cannot serve the plan.
        """
        found = {PROJECT: self._project}
        if plan.node_pool is None or plan.node_pool.engine != "cluster":
            found |= self._tpus.resolve_placeholders(plan)
            network.require(self._api, self._project, plan.target)
            return found
        target = plan.target
        there, missing = self._engine.clusters()
        if away := [zone for zone in missing if zone.startswith(target.region or "")]:
            raise LaunchError(
                f"Kubernetes Engine does not answer for {', '.join(away)}, where cluster {target.cluster} may"
                " be; nothing was created. Try again later, or pass another --region"
            )
        named = [one for one in there if one["name"] == target.cluster]
        wanted = target.zone if target.zone != ZONE else None
        kind, region = machine(plan.node_pool.node_type), target.region or ""
        offered = zones_of(self._api, self._project, kind)
        if plan.node_pool.reservation:
            wanted = reserved_zone(self._api, self._project, plan)
        zones = select_zones(kind, region, wanted, offered, {one["location"] for one in named})
        zone = zones[0]
        found |= {ZONE: zone, ZONES: " ".join(zones)}
        near = [one for one in named if one["location"] in (zone, region)]
        near += [one for one in named if one["location"].startswith(f"{region}-")]
        if target.details.get(LOCATION) != CLUSTER_LOCATION:
            near = [one for one in near if one["location"] == zone]
        found[CLUSTER_LOCATION] = near[0]["location"] if near else zone
        found[RELEASE_CHANNEL] = _channel(near[0]) if near else "REGULAR"
        if near:
            _check_cluster(near[0], is_spot=plan.node_pool.market == "spot")
            network.check_cluster(near[0], target)
        else:
            network.require(self._api, self._project, target)
        return found

    def check(self, plan: Plan | None, region: str | None = None) -> tuple[Finding, ...]:
        """Checks login, APIs, permissions and quota; creates nothing."""
        del region  # no finding without a plan depends on it
        login = Finding("login", "ok", f"{self._login.who} in project {self._project}")
        found = [login, *access_findings(self._api, self._project)]
        if plan is None or plan.node_pool is None:
            return tuple(found)
        found.append(network.finding(self._api, self._project, plan.target))
        if plan.node_pool.engine != "cluster":
            return (*found, *self._tpus.check(plan))
        try:
            found += quota_findings(self._api, self._project, plan)
        except CloudganError as error:
            found.append(Finding("quota", "unknown", str(error)))
        return tuple(found)

    def find(self, step: Step) -> Resource | None:
        """Returns the resource of a step, including unmanaged ones."""
        found: Resource | None = self._handler_of(step).find(step)
        return found

    def create(self, step: Step) -> None:
        """Sends a step's request."""
        self._handler_of(step).create(step)

    def list_resources(
        self, run: str | None = None, regions: Collection[str] | None = None
    ) -> Listing:
        """Lists the resources of cloudgan, or of a run, in all regions."""
        pools = _asked("Kubernetes Engine", lambda: self._engine.list_resources(run))
        held = {one.run for one in pools if one.run}
        machines = _asked("Compute Engine", lambda: self._orphans.list_resources(run, held))
        others = (
            _asked("Cloud Storage", lambda: self._buckets.list_resources(run)),
            _asked("IAM", lambda: self._identities.list_resources(run)),
            _asked("Cloud TPU", lambda: self._tpus.list_resources(run)),
        )
        silent = [one for part in (pools, machines, *others) for one in part.silent]
        # The pool of a machine may be in a zone that was not listed.
        away = {one.partition(" (")[0] for one in pools.silent}
        orphans = [one for one in machines if not away & {one.region, "Kubernetes Engine"}]
        return Listing(
            (*pools, *orphans, *(one for part in others for one in part)),
            (one for one in silent if regions is None or _is_near(one, regions)),
        )

    def delete(self, resource: Resource) -> None:
        """Requests deletion."""
        self._handler_for(resource).delete(resource)

    def refresh(self, resource: Resource) -> Resource | None:
        """Returns the current state of a resource."""
        found: Resource | None = self._handler_for(resource).refresh(resource)
        return found

    def cluster_api(self, plan: Plan) -> ClusterApi | None:
        """Returns the Kubernetes API of the plan's cluster; None without a cluster."""
        location = plan.target.details.get(LOCATION) or plan.target.zone or ""
        url = f"{clusters(self._project, location)}/{plan.target.cluster}"
        found = self._api.find(url)
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
        return TpuVmBackend(self._tpus, store, plan, say=self._say, poll_seconds=poll_seconds)

    def _handler_of(self, step: Step) -> Any:
        address = step.find or step.path
        host = address.partition("://")[2].partition("/")[0]
        if address.endswith("/iam"):  # the policy of a bucket
            return self._identities
        handlers = {one.host: one for one in (self._engine, self._buckets, self._tpus)}
        return handlers.get(host, self._identities)

    def _handler_for(self, resource: Resource) -> Any:
        handlers = (
            self._engine,
            self._buckets,
            self._identities,
            self._tpus,
            self._orphans,
        )
        return next(one for one in handlers if resource.kind in one.kinds)


def _asked(service: str, ask: Callable[[], Listing]) -> Listing:
    """Returns what a service lists; one that does not answer keeps no other from being listed."""
    try:
        found = ask()
    except LaunchError as error:
        return Listing(silent=(f"{service} ({error})",))
    return Listing(found, (f"{one} ({service})" for one in found.silent))


def _is_near(silent: str, regions: Collection[str]) -> bool:
    """Whether what does not answer is in one of these regions, or in no region."""
    place = silent.partition(" (")[0]
    return region_of("gcp", place) in regions or not _PLACE.fullmatch(place)


def _channel(cluster: dict[str, Any]) -> str:
    found = (cluster.get("releaseChannel") or {}).get("channel", "UNSPECIFIED")
    return NO_CHANNEL if found == "UNSPECIFIED" else str(found)


def _check_cluster(cluster: dict[str, Any], *, is_spot: bool) -> None:
    """Refuses a cluster that runs cannot use, before anything is created.

    Raises:
        PlanError: It is an Autopilot cluster, has no workload identity, or is too old for spot.
    """
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
