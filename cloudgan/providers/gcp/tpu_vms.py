"""What Cloud TPU has of a project: found, made, listed and deleted, one at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cloudgan.core.errors import CredentialsError, PlanError
from cloudgan.core.thing import Finding, Thing
from cloudgan.providers.gcp.addresses import TPU, TPU_ACCOUNT
from cloudgan.providers.gcp.ground import CLUSTER_LOCATION, ZONE
from cloudgan.providers.gcp.refusal import AbsentError, SwitchedOffError, TakenError
from cloudgan.providers.gcp.rights import account_finding
from cloudgan.providers.gcp.tpu_provider import TpuProvider
from cloudgan.providers.gcp.tpu_requests import KIND
from cloudgan.providers.gcp.tpu_slices import SLICES, notes
from cloudgan.providers.gcp.tpu_things import NODE_KIND, node_thing, queued_thing, spec_of
from cloudgan.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cloudgan.core.plan import Plan, Step
    from cloudgan.providers.gcp.api import GoogleApi


class TpuVms:
    """What Cloud TPU has of one project.

    Args:
        api: That is asked.
        project: Its id.
        say: Is told what happens to a run.
        poll_seconds: Between two looks at a run.
    """

    host = "tpu.googleapis.com"
    kinds = (KIND, NODE_KIND)

    def __init__(
        self,
        api: GoogleApi,
        project: str,
        say: Callable[[str], None] = lambda _: None,
        *,
        poll_seconds: float = 5.0,
    ) -> None:
        self._api, self._project = api, project
        self._say, self._poll_seconds = say, poll_seconds

    def provider(self, plan: Plan) -> TpuProvider:
        """Returns what runs a plan on such machines."""
        store = open_store(plan.store)
        return TpuProvider(self, store, plan, say=self._say, poll_seconds=self._poll_seconds)

    def known(self, plan: Plan) -> Mapping[str, str]:
        """Returns a zone that has the plan's slice, by placeholder.

        Raises:
            PlanError: No zone of the region has, or it has several hosts.
        """
        assert plan.rental is not None  # noqa: S101  asked for TPUs only
        if plan.rental.hosts > 1:
            raise PlanError(notes(SLICES[plan.rental.node_type])[-1])
        zone = plan.place.zone
        if zone in (None, ZONE):
            zone = self._zone(plan.place.region or "", plan.rental.node_type)
        return {ZONE: str(zone), CLUSTER_LOCATION: str(zone)}

    def check(self, plan: Plan) -> tuple[Finding, ...]:
        """Looks whether slice and system image are there, and says which quota is needed."""
        rented = plan.rental
        assert rented is not None  # noqa: S101  asked for TPUs only
        zone = f"{TPU}/projects/{self._project}/locations/{plan.place.zone}"
        kind = self._api.find(f"{zone}/acceleratorTypes/{rented.node_type}")
        image = self._api.find(f"{zone}/runtimeVersions/{rented.runtime}")
        generation, _, count = rented.node_type.rpartition("-")
        spot = "preemptible " if rented.market == "spot" else ""
        return (
            account_finding(self._api, self._project, TPU_ACCOUNT),
            _offered(f"TPU {rented.node_type} in {plan.place.zone}", is_there=kind is not None),
            _offered(f"system image {rented.runtime}", is_there=image is not None),
            Finding(
                f"quota of {spot}TPU {generation} in {plan.place.zone}",
                "unknown",
                f"{count} are needed; the console shows how many there are: IAM & Admin, Quotas,"
                f" Cloud TPU API, {spot}TPU {generation} per project per zone",
            ),
        )

    def find(self, step: Step) -> Thing | None:
        """Returns the queued resource that a step wants, or how it failed to become."""
        found = self._api.find(step.find or step.path)
        return queued_thing(found) if found else None

    def create(self, step: Step) -> None:
        """Sends a step's request; what is there already is no error.

        Raises:
            CapacityError: There is no quota.
        """
        try:
            self._api.send(step.method, step.path, step.body)
        except TakenError:
            return

    def things(self, run: str | None = None) -> tuple[Thing, ...]:
        """Lists what carries cloudgan's labels in all zones: the queue, and machines without it.

        A queued resource has no labels of its own; those of the node that it asks for are its. Who
        may not look at TPUs has made none; that nobody may is no reason to hide the rest.
        """
        try:
            return self._labelled(run)
        except SwitchedOffError:
            return ()
        except CredentialsError as error:
            self._say(f"TPUs were not looked at: {error}")
            return ()

    def _labelled(self, run: str | None) -> tuple[Thing, ...]:
        queue = {one["name"]: queued_thing(one) for one in self._listed("queuedResources")}
        alone = []
        for node in map(node_thing, self._listed("nodes")):
            asked = queue.get(node.parent)
            if asked is None:
                alone.append(node)
            elif not asked.labels:
                queue[asked.name] = replace(asked, labels=node.labels)
        return tuple(one for one in (*queue.values(), *alone) if one.run and run in (None, one.run))

    def delete(self, thing: Thing) -> None:
        """Asks for deletion, of the machines too; what is gone already is no error."""
        force = {"force": "true"} if thing.kind == KIND else {}
        try:
            self._api.send("DELETE", f"{TPU}/{thing.name}", query=force)
        except AbsentError:
            return

    def look(self, thing: Thing) -> Thing | None:
        """Returns a thing as it is now; None when it is gone."""
        found = self._api.find(f"{TPU}/{thing.name}")
        if found is None:
            return None
        return queued_thing(found) if thing.kind == KIND else node_thing(found)

    def resource(self, name: str) -> dict[str, Any] | None:
        """Returns a queued resource as Google tells it; None: there is none."""
        return self._api.find(f"{TPU}/{name}")

    def node(self, resource: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the machines of a queued resource; None: they are not made."""
        spec = spec_of(resource)
        return self._api.find(f"{TPU}/{spec['parent']}/nodes/{spec['nodeId']}") if spec else None

    def _zones(self, region: str, node_type: str) -> tuple[str, ...]:
        """Returns the zones of a region that have slices of this type, in the order of names."""
        where = f"{TPU}/projects/{self._project}/locations"
        places = [one["locationId"] for page in self._api.pages(where) for one in _of(page)]
        near = sorted(one for one in places if one.startswith(f"{region}-"))
        return tuple(
            zone for zone in near if self._api.find(f"{where}/{zone}/acceleratorTypes/{node_type}")
        )

    def _zone(self, region: str, node_type: str) -> str:
        """Returns a zone that has slices of this type.

        Raises:
            PlanError: No zone of this region has; names the nearest that is sold.
        """
        if found := self._zones(region, node_type):
            return found[0]
        instead = SLICES[node_type].instead
        hint = f" {instead} is the nearest that is sold to everybody:" if instead else ""
        raise PlanError(
            f"Google offers this project no TPU {node_type} in any zone of {region};{hint}"
            " `cloudgan offers --provider=gcp` lists regions"
        )

    def _listed(self, what: str) -> Iterator[dict[str, Any]]:
        for page in self._api.pages(f"{TPU}/projects/{self._project}/locations/-/{what}"):
            yield from page.get(what, ())


def _offered(subject: str, *, is_there: bool) -> Finding:
    if is_there:
        return Finding(subject, "ok", "offered to this project")
    return Finding(subject, "missing", "Google offers this project none there; take another --zone")


def _of(page: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(page.get("locations", ()))
