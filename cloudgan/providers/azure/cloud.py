"""One subscription of Azure, as launching, check and doctor know a cloud."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from azure.identity import DefaultAzureCredential

from cloudgan.core import settings
from cloudgan.core.errors import ConfigError, LaunchError
from cloudgan.core.thing import Finding
from cloudgan.kubernetes.api import ClusterApi
from cloudgan.providers.azure import access, ids, quota, rights, sweep
from cloudgan.providers.azure.api import ArmApi
from cloudgan.providers.azure.refusal import BusyError, MissingError, cause_of, failure
from cloudgan.providers.azure.resources import ACCOUNTS, CLUSTERS, GROUPS, LEFTOVER, POOLS, thing_of
from cloudgan.providers.azure.subscription import find_subscription, who

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloudgan.core.plan import Place, Plan, Step
    from cloudgan.core.thing import Thing

_BUSY_SECONDS: Final = 10.0
_BUSY_TRIES: Final = 60
"""AKS adds one pool after the other; making one takes some minutes."""


class AzureCloud:
    """Fulfils `launching.cloud.Cloud`."""

    def __init__(
        self,
        api: ArmApi,
        place: Place,
        say: Callable[[str], None] = lambda _: None,
        *,
        busy_seconds: float = _BUSY_SECONDS,
    ) -> None:
        """Takes a login and a place.

        Args:
            api: Of the Resource Manager, with the login.
            place: Whose subscription is meant, by id or name, or not named at all.
            say: Is told what is waited for.
            busy_seconds: Between two tries while another operation runs on what is asked.
        """
        self._api, self._place, self._say = api, place, say
        self._busy_seconds = busy_seconds

    @classmethod
    def open(cls, place: Place, say: Callable[[str], None] = lambda _: None) -> AzureCloud:
        """Opens the subscription of a place with whatever login azure-identity finds."""
        away = not settings.may_ask_metadata_server()
        return cls(
            ArmApi(DefaultAzureCredential(exclude_managed_identity_credential=away)), place, say
        )

    def identify(self) -> Mapping[str, str]:
        """Returns who is logged in, and for which subscription."""
        found = self._subscription
        return {
            "subscription": str(found["subscriptionId"]),
            "name": str(found["displayName"]),
            "who": who(self._api.claims()),
        }

    def known(self, plan: Plan) -> Mapping[str, str]:
        """Returns subscription, storage account, zone, and the pods' identity.

        Raises:
            ConfigError: Nobody typed `cloudgan setup` for this region.
            PlanError: The region does not have the machine, or not for this subscription.
        """
        assert plan.rental is not None  # noqa: S101  only rented plans are resolved
        place = self._filled(plan.place)
        region = place.region or ""
        asked = None if place.zone == ids.ZONE else place.zone
        zone = quota.zone(self._api, place.account or "", region, plan.rental.node_type, asked)
        identity = self._api.get(ids.versioned(ids.identity_id(place)))
        if identity is None:
            raise ConfigError(
                f"nothing was set up for cloudgan in {region}; somebody who may give rights types"
                f" once: cloudgan setup --provider=azure --region={region}"
            )
        return {
            ids.SUBSCRIPTION: place.account or "",
            ids.ACCOUNT: ids.store_account(place),
            ids.ZONE: zone,
            ids.CLIENT: str(identity["properties"]["clientId"]),
        }

    def check(self, plan: Plan | None, region: str | None = None) -> tuple[Finding, ...]:
        """Looks at login, services, rights and quota; makes nothing."""
        told = self.identify()
        subscription = told["subscription"]
        found = [
            Finding("login", "ok", f"{told['who']}, subscription {told['name']} ({subscription})"),
            *rights.services(self._api, subscription),
            *rights.rights(self._api, subscription),
        ]
        where = plan.place.region if plan else region
        if plan is not None and plan.rental is not None:
            cluster = ids.versioned(ids.cluster_id(self._filled(plan.place)))
            has_cluster = self._api.get(cluster) is not None
            found += quota.quotas(self._api, subscription, plan, has_cluster=has_cluster)
        elif where:
            found += quota.all_quotas(self._api, subscription, where)
        return tuple(found)

    def find(self, step: Step) -> Thing | None:
        """Returns what a step wants, where there is something of that name.

        Raises:
            ConfigError: A storage account that everybody could read, or read by plain HTTP.
        """
        assert step.find is not None  # noqa: S101  every step of requests.py can be found
        found = self._api.get(step.find)
        if found is None:
            why = self._api.why_failed(step.path)
            if why:  # refused after it was taken, so that nothing came to be
                raise failure(why, f"{step.ensure}: {why}") or LaunchError(f"{step.ensure}: {why}")
            return None
        wanted: Any = step.body or {}
        if ids.ISSUER in json.dumps(wanted) and not self._is_current(found, step):
            return None  # of a cluster that is gone: written anew
        if ids.type_of(step.find) == ACCOUNTS:
            _refuse_public(found)
        thing = thing_of(found, self._place.region or "")
        if thing.state == "failed" and not thing.why:
            why = self._api.why_failed(step.path)
            thing = replace(thing, why=why, cause=cause_of(why))
        return thing

    def create(self, step: Step) -> None:
        """Sends a step's request; waits while another operation runs on the same cluster.

        Raises:
            CapacityError: No machine of this kind, or no quota.
            LaunchError: Refused for another reason.
        """
        body = self._completed(step)
        for number in range(_BUSY_TRIES):
            try:
                self._api.send(step.method, step.path, body)
            except BusyError as error:
                if number == _BUSY_TRIES - 1:
                    raise
                if number == 0:
                    self._say(f"{step.ensure} has to wait: {error}")
                time.sleep(self._busy_seconds)
            else:
                return

    def things(self, run: str | None = None) -> tuple[Thing, ...]:
        """Lists what carries cloudgan's labels, or those of one run, in all regions."""
        return sweep.things(self._api, self._account, run)

    def delete(self, thing: Thing) -> None:
        """Asks for deletion; what is gone already, or goes with its cluster, is no error.

        Raises:
            LaunchError: Refused, such as while another operation runs.
        """
        kind = ids.type_of(thing.name)
        if kind == POOLS and thing.shared:
            return  # AKS lets no cluster be without one
        if kind == GROUPS and thing.shared != LEFTOVER:
            self._refuse_full_group(thing)
        try:
            self._api.send("DELETE", ids.versioned(thing.name))
        except MissingError:
            return

    def look(self, thing: Thing) -> Thing | None:
        """Returns a thing as it is now; None when it is gone."""
        found = self._api.get(ids.versioned(thing.name))
        return None if found is None else thing_of(found, thing.region)

    def cluster(self, plan: Plan) -> ClusterApi | None:
        """Returns the API of the plan's cluster; None where there is none, or none any more."""
        address = ids.cluster_id(self._filled(plan.place))
        found = self._api.get(ids.versioned(address))
        if found is None or thing_of(found).state == "leaving":
            return None
        if not found["properties"].get("fqdn"):
            return None  # just being made
        try:
            client = access.connect(self._api, address, ids.VERSIONS[CLUSTERS])
        except MissingError:
            return None
        return ClusterApi(client, say=self._say)

    @cached_property
    def _subscription(self) -> dict[str, Any]:
        return find_subscription(self._api, self._place.account)

    @property
    def _account(self) -> str:
        return str(self._subscription["subscriptionId"])

    def _filled(self, place: Place) -> Place:
        return place.model_copy(update={"account": self._account})

    def _is_current(self, found: Mapping[str, Any], step: Step) -> bool:
        there, wanted = found["properties"].get("issuer"), self._issuer(step)
        return wanted is not None and there == wanted

    def _issuer(self, step: Step) -> str | None:
        """Who signs the tokens of the cluster that a credential is for."""
        name = step.path.partition("?")[0].rpartition("/")[2]
        place = self._filled(self._place).model_copy(
            update={"cluster": self._place.cluster or name}
        )
        cluster = self._api.get(ids.versioned(ids.cluster_id(place)))
        profile = ((cluster or {}).get("properties") or {}).get("oidcIssuerProfile") or {}
        issuer: str | None = profile.get("issuerURL")
        return issuer

    def _completed(self, step: Step) -> Any:
        """Returns a step's body with what only what was made before it can tell."""
        text = json.dumps(step.body)
        if ids.ISSUER in text:
            issuer = self._issuer(step)
            if not issuer:
                raise LaunchError(
                    f"cluster {self._place.cluster} tells nobody who its pods are; type: az aks"
                    " update --enable-oidc-issuer --enable-workload-identity, or leave --cluster out"
                )
            text = text.replace(ids.ISSUER, issuer)
        if ids.POD_PRINCIPAL in text:
            identity = (
                self._api.get(ids.versioned(ids.identity_id(self._filled(self._place)))) or {}
            )
            text = text.replace(ids.POD_PRINCIPAL, str(identity["properties"]["principalId"]))
        if ids.USER_PRINCIPAL in text:
            claims = self._api.claims()
            kind = "ServicePrincipal" if claims.get("idtyp") == "app" else "User"
            text = text.replace(ids.USER_PRINCIPAL, str(claims["oid"]))
            text = text.replace(ids.USER_KIND, kind)
        return json.loads(text)

    def _refuse_full_group(self, thing: Thing) -> None:
        """A group takes along all that is in it, so it goes last, when nothing is."""
        path = f"{thing.name}/resources?api-version={ids.VERSIONS[GROUPS]}"
        inside = next(self._api.list(path), None)
        if inside is not None:
            raise LaunchError(
                f"{thing.name.rpartition('/')[2]} still holds {inside['id']}; a group goes when it is"
                " empty, for what is in it would go along"
            )


def _refuse_public(account: Mapping[str, Any]) -> None:
    properties = account["properties"]
    if properties.get("allowBlobPublicAccess") or not properties.get("supportsHttpsTrafficOnly"):
        raise ConfigError(
            f"storage account {account['name']} lets everybody in, or answers plain HTTP; correct it"
            " in Azure's portal (Configuration), or give another --store"
        )
