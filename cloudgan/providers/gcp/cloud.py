"""One project of Google Cloud."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from cloudgan.core import settings
from cloudgan.core.errors import CloudganError, CredentialsError, PlanError
from cloudgan.core.thing import Finding
from cloudgan.kubernetes.access import connect_by_token
from cloudgan.kubernetes.api import ClusterApi
from cloudgan.providers.gcp.addresses import clusters
from cloudgan.providers.gcp.api import GoogleApi
from cloudgan.providers.gcp.buckets import Buckets
from cloudgan.providers.gcp.engine import Engine
from cloudgan.providers.gcp.ground import CLUSTER_LOCATION, LOCATION, PROJECT, ZONE
from cloudgan.providers.gcp.identities import Identities
from cloudgan.providers.gcp.leftovers import Leftovers
from cloudgan.providers.gcp.login import Login
from cloudgan.providers.gcp.machines import machine
from cloudgan.providers.gcp.quota import quota_findings
from cloudgan.providers.gcp.registries import Registries
from cloudgan.providers.gcp.rights import rights_findings
from cloudgan.providers.gcp.tpu_vms import TpuVms
from cloudgan.providers.gcp.zones import chosen_zone, zones_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloudgan.core.plan import Place, Plan, Step
    from cloudgan.core.thing import Thing
    from cloudgan.providers.gcp.tpu_provider import TpuProvider

_GRACE_SINCE = (1, 35)
"""Kubernetes Engine's version that lets a spot pool choose its grace."""


class GcpCloud:
    """What cloudgan does in one project; see `launching.cloud.Cloud`.

    Args:
        login: Who does it.
        api: By which Google is asked.
        project: Its id.
        say: Is told what is waited for.
        poll_seconds: Between two looks at what is busy.
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
        self._engine = Engine(api, project, poll_seconds=poll_seconds)
        self._tpus = TpuVms(api, project, say, poll_seconds=poll_seconds)
        self._leftovers = Leftovers(api, project, say)
        self._parts: tuple[Any, ...] = (
            self._engine,
            Buckets(api, project),
            Identities(api, project, poll_seconds=poll_seconds),
            self._tpus,
            Registries(api, project, say),
        )

    @classmethod
    def open(cls, place: Place, say: Callable[[str], None] = lambda _: None) -> GcpCloud:
        """Opens the project of a place, or of the login, with the login that Google's library finds.

        Raises:
            CredentialsError: There is no login, or nothing says which project.
        """
        login = Login.find()
        named = place.account if place.account not in (None, PROJECT) else login.project
        if not named:
            raise CredentialsError(
                "Google Cloud: this login names no project; give --project=ID, or type: gcloud auth"
                " application-default set-quota-project ID"
            )
        endpoint = settings.variable("CLOUDGAN_GCP_ENDPOINT")
        return cls(login, GoogleApi(login.session(), endpoint=endpoint), named, say)

    def identify(self) -> Mapping[str, str]:
        """Returns project and login."""
        return {"project": self._project, "who": self._login.who}

    def known(self, plan: Plan) -> Mapping[str, str]:
        """Returns project, zone and the cluster's zone or region.

        Raises:
            PlanError: The region or the cluster cannot serve the plan.
        """
        found = {PROJECT: self._project}
        if plan.rental is None or plan.rental.engine != "cluster":
            return {**found, **self._tpus.known(plan)}
        there = [one for one in self._engine.clusters() if one["name"] == plan.place.cluster]
        asked = plan.place.zone if plan.place.zone != ZONE else None
        kind, region = machine(plan.rental.node_type), plan.place.region or ""
        zones = zones_of(self._api, self._project, kind)
        zone = chosen_zone(kind, region, asked, zones, {one["location"] for one in there})
        found[ZONE] = zone
        near = [one for one in there if one["location"] in (zone, region)]
        near += [one for one in there if one["location"].startswith(f"{region}-")]
        if plan.place.details.get(LOCATION) != CLUSTER_LOCATION:
            near = [one for one in near if one["location"] == zone]
        found[CLUSTER_LOCATION] = near[0]["location"] if near else zone
        if near:
            _check_cluster(near[0], is_spot=plan.rental.market == "spot")
        return found

    def check(self, plan: Plan | None, region: str | None = None) -> tuple[Finding, ...]:
        """Looks at login, APIs, rights and quota; makes nothing."""
        del region  # without a plan nothing differs by it
        who = Finding("login", "ok", f"{self._login.who} in project {self._project}")
        found = [who, *rights_findings(self._api, self._project)]
        if plan is None or plan.rental is None:
            return tuple(found)
        if plan.rental.engine != "cluster":
            return (*found, *self._tpus.check(plan))
        try:
            found += quota_findings(self._api, self._project, plan)
        except CloudganError as error:
            found.append(Finding("quota", "unknown", str(error)))
        return tuple(found)

    def find(self, step: Step) -> Thing | None:
        """Returns what a step wants, whosever it is."""
        found: Thing | None = self._part_of(step).find(step)
        return found

    def create(self, step: Step) -> None:
        """Sends a step's request."""
        self._part_of(step).create(step)

    def things(self, run: str | None = None) -> tuple[Thing, ...]:
        """Lists what is cloudgan's, or a run's, in all regions."""
        pools = self._engine.things(run)
        left = self._leftovers.things(run, {one.run for one in pools if one.run})
        rest = (one for part in self._parts[1:] for one in part.things(run))
        return (*pools, *left, *rest)

    def delete(self, thing: Thing) -> None:
        """Asks for deletion."""
        self._part_with(thing).delete(thing)

    def look(self, thing: Thing) -> Thing | None:
        """Returns a thing as it is now."""
        found: Thing | None = self._part_with(thing).look(thing)
        return found

    def cluster(self, plan: Plan) -> ClusterApi | None:
        """Returns the API of the plan's cluster; None: there is none, or not yet."""
        location = plan.place.details.get(LOCATION) or plan.place.zone or ""
        url = f"{clusters(self._project, location)}/{plan.place.cluster}"
        found = self._api.find(url)
        if found is None or not found.get("endpoint") or found.get("status") == "STOPPING":
            return None
        ca = (found.get("masterAuth") or {}).get("clusterCaCertificate")
        pem = base64.b64decode(ca).decode() if ca else None
        client = connect_by_token(f"https://{found['endpoint']}", pem, self._login.token)
        return ClusterApi(client, say=self._say)

    def tpu_vms(self, plan: Plan) -> TpuProvider:
        """Returns what runs a plan on machines of Cloud TPU."""
        return self._tpus.provider(plan)

    def _part_of(self, step: Step) -> Any:
        address = step.find or step.path
        host = address.partition("://")[2].partition("/")[0]
        parts = {part.host: part for part in (*self._parts[:2], self._tpus)}
        is_policy = address.endswith("/iam")
        return self._parts[2] if is_policy else parts.get(host, self._parts[2])

    def _part_with(self, thing: Thing) -> Any:
        parts = (*self._parts, self._leftovers)
        return next(part for part in parts if thing.kind in part.kinds)


def _check_cluster(cluster: dict[str, Any], *, is_spot: bool) -> None:
    """Refuses a cluster in which workers could not do their work, before anything is made there."""
    if not (cluster.get("workloadIdentityConfig") or {}).get("workloadPool"):
        raise PlanError(
            f"cluster {cluster['name']} has no workload identity, by which pods reach their bucket;"
            " give it one (gcloud container clusters update --workload-pool), or another --cluster"
        )
    version = str(cluster.get("currentMasterVersion", ""))
    parts = version.split(".")
    known = tuple(int(part) for part in parts[:2] if part.isdigit())
    if is_spot and known and known < _GRACE_SINCE:
        raise PlanError(
            f"cluster {cluster['name']} has Kubernetes {version}, whose spot nodes end after 15 s,"
            " too soon to save; upgrade it to 1.35, or give --spot=never or another --cluster"
        )
