"""CloudClient of one Azure subscription."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.documents import parse_yaml
from cloudgan.core.errors import ConfigError, CredentialsError, LaunchError, UnknownNameError
from cloudgan.core.settings import variable
from cloudgan.launch.clouds.azure import ids, kinds, preflight
from cloudgan.launch.clouds.azure.api import ArmApi
from cloudgan.launch.clouds.azure.errors import failure
from cloudgan.launch.clouds.azure.planner import store_url
from cloudgan.launch.clouds.client import CloudClient
from cloudgan.launch.clouds.planner import pool_of
from cloudgan.launch.clouds.resource import Finding, Listing, Resource
from cloudgan.launch.clouds.rows import AbsentError, Kind, look_up
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.launch.kubernetes.kubeconfig import (
    ApiClient,
    connect_by_certificate,
    connect_by_token,
)
from cloudgan.schema.plan import ZONES, Plan, Step, Target
from cloudgan.storage.azure import find_login
from cloudgan.storage.store import Store, open_store

_POLL_SECONDS: Final = 10.0
_BUSY_SECONDS: Final = 600.0
"""AKS creates node pools one at a time, some minutes each."""
_EFFECT_SECONDS: Final = 900.0
"""A role assignment takes up to 10 minutes to have an effect
(https://learn.microsoft.com/azure/role-based-access-control/troubleshooting, read 2026-11-25)."""
_NO_NAME: Final = "access-of-setup/"
_VARIABLE: Final = "AZURE_SUBSCRIPTION_ID"


class AzureClient(CloudClient):
    """One subscription."""

    def __init__(
        self,
        api: ArmApi,
        target: Target,
        say: Callable[[str], None] = lambda _: None,
        *,
        store: Callable[[str], Store] = open_store,
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        super().__init__(
            api,
            kinds.KINDS,
            say,
            references=kinds.references(api),
            poll_seconds=poll_seconds,
            busy_seconds=_BUSY_SECONDS,
        )
        self._api, self._target, self._store = api, target, store
        self._refused_since: float | None = None

    @classmethod
    def open(cls, target: Target, say: Callable[[str], None] = lambda _: None) -> AzureClient:
        """Opens the subscription of a target with the login found by azure-identity."""
        endpoint = variable("CLOUDGAN_AZURE_ENDPOINT")
        how = {"base_url": endpoint} if endpoint else {}
        return cls(ArmApi(find_login(), **how), target, say)

    def identify(self) -> Mapping[str, str]:
        """Returns user and subscription of the login."""
        found = self._subscription
        return {
            "subscription": str(found["subscriptionId"]),
            "name": str(found["displayName"]),
            "who": _login_name(self._api.claims()),
        }

    def resolve_placeholders(self, plan: Plan) -> Mapping[str, str]:
        """Returns subscription, storage account, zone, and the pods' identity."""
        pool, target = pool_of(plan), self._filled(plan.target)
        region = target.region or ""
        request = None if target.zone == ids.ZONE else target.zone
        if pool.reservation:
            request = preflight.reserved_zone(self._api, plan, target)
        zones = preflight.zones(self._api, target.account or "", region, pool.node_type, request)
        identity = self._api.get(kinds.IDENTITY, ids.identity_id(target))
        if identity is None:
            raise ConfigError(preflight.not_set_up(region))
        return {
            ids.SUBSCRIPTION: target.account or "",
            ids.ACCOUNT: ids.store_account(target),
            ids.ZONE: next(iter(zones), ""),
            ZONES: " ".join(zones),
            ids.SYSTEM_SIZE: self._system_size(target),
            ids.CLIENT: str(identity["properties"]["clientId"]),
        }

    def _system_size(self, target: Target) -> str:
        """Returns the size of the cluster's own node: that of an existing cluster, else one on offer."""
        cluster = self._api.get(kinds.CLUSTER, ids.cluster_id(target))
        pools = look_up(cluster, "properties.agentPoolProfiles") or ()
        there = (str(one["vmSize"]) for one in pools if one.get("mode") == "System")
        size = next(there, "")
        return size or preflight.system_size(self._api, target.account or "", target.region or "")

    def check(self, plan: Plan | None, region: str | None = None) -> tuple[Finding, ...]:
        """Checks login, services, permissions and quota; read-only."""
        identity = self.identify()
        subscription = identity["subscription"]
        where = plan.target.region if plan else region
        target = self._filled(plan.target if plan else self._target)
        target = target.model_copy(update={"region": where or target.region})
        found = [
            Finding(
                "login",
                "ok",
                f"{identity['who']}, subscription {identity['name']} ({subscription})",
            ),
            *preflight.services(self._api, subscription),
            *preflight.rights(self._api, target),
        ]
        if plan is not None and plan.node_pool is not None:
            cluster = ids.cluster_id(self._filled(plan.target))
            has_cluster = self._api.get(kinds.CLUSTER, cluster) is not None
            found += preflight.quotas(self._api, subscription, plan, has_cluster=has_cluster)
        elif where:
            found += preflight.all_quotas(self._api, subscription, where)
        return tuple(found)

    def find(self, step: Step) -> Resource | None:
        """Returns the resource of a step; None if it does not exist.

        Raises:
            CapacityError: Azure accepted the request, and had no machine or quota.
        """
        found = super().find(step)
        if found is None:
            name = self.kinds[str(step.kind)].name_of(step.ref)
            if why := self._api.why_failed(name):
                raise failure(why, f"{step.ensure}: {why}")
            return None
        return self._in_effect(step, found) if "login" in step.ref else self._placed(found)

    def get(self, kind: Kind, name: str) -> Resource | None:
        """Returns a resource; one without a location is in the region of the target."""
        found = super().get(kind, name)
        return None if found is None else self._placed(found)

    def _placed(self, found: Resource) -> Resource:
        return found if found.region else replace(found, region=self._target.region or "")

    def list_resources(
        self, run: str | None = None, regions: Collection[str] | None = None
    ) -> Listing:
        """Lists resources with cloudgan's labels, or those of one run, in all regions."""
        del regions  # one request lists all
        return kinds.list_resources(self._api, self._account, run)

    def cluster_api(self, target: Target) -> ClusterApi | None:
        """Returns the API of a target's cluster; None if it does not exist."""
        address = ids.cluster_id(self._filled(target))
        found = self._api.get(kinds.CLUSTER, address)
        if found is None or kinds.CLUSTER.resource(address, found).state == "deleting":
            return None
        if not found["properties"].get("fqdn"):
            return None  # being created
        try:
            client = _connect(self._api, address)
        except AbsentError:
            return None
        return ClusterApi(client, say=self._say)

    @cached_property
    def _subscription(self) -> dict[str, Any]:
        return _find_subscription(self._api, self._target.account)

    @property
    def _account(self) -> str:
        return str(self._subscription["subscriptionId"])

    def _filled(self, target: Target) -> Target:
        return target.model_copy(update={"account": self._account})

    def _in_effect(self, step: Step, assignment: Resource) -> Resource:
        """Returns the assignment, as being created while Blob Storage still refuses this login.

        Only the current user's: the pods' can be tried by pods only.
        """
        try:
            self._store(store_url(self._filled(self._target))).list(_NO_NAME)
        except CredentialsError as error:
            now = monotonic_seconds()
            self._refused_since = now if self._refused_since is None else self._refused_since
            if now - self._refused_since < _EFFECT_SECONDS:
                why = "the role is not in effect yet, which takes Azure up to 10 minutes"
                return replace(assignment, state="creating", reason=why)
            raise LaunchError(
                f"{step.ensure}: the role is assigned, and Blob Storage still refuses this login ({error});"
                " check the network rules of the storage account, then rerun cloudgan setup"
                " --provider=azure"
            ) from error
        return assignment


# Application id of AKS clusters with Entra login
# (https://learn.microsoft.com/azure/aks/kubelogin-authentication, read 2026-11-21).
_AKS_SCOPE: Final = "6dae42f8-4368-4678-94ff-3960e28e3630/.default"


def _connect(api: ArmApi, cluster: str) -> ApiClient:
    """Returns a Kubernetes client with the AKS credentials: certificate, token or Entra login."""
    found = api.send(
        "POST", f"{cluster}/listClusterUserCredential?api-version={kinds.CLUSTER.request}"
    )
    configs = found.get("kubeconfigs") or ()
    if not configs:
        raise LaunchError(f"AKS returned no credentials for {cluster.rpartition('/')[2]}")
    config: dict[str, Any] = parse_yaml(
        base64.b64decode(configs[0]["value"]).decode(),
        "the kubeconfig of AKS",
        LaunchError,
        secret=True,
    )
    there, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    server, authority = there["server"], _pem(there["certificate-authority-data"])
    if "client-certificate-data" in user:
        certificate, key = _pem(user["client-certificate-data"]), _pem(user["client-key-data"])
        return connect_by_certificate(server, authority, certificate, key)
    if "token" in user:
        return connect_by_token(server, authority, lambda: str(user["token"]))
    return connect_by_token(server, authority, lambda: api.token(_AKS_SCOPE))


def _pem(text: str) -> str:
    return base64.b64decode(text).decode("ascii")


def _find_subscription(api: ArmApi, request: str | None) -> dict[str, Any]:
    """Returns the subscription: `request`, else that of the environment, else the only one."""
    found = {
        str(one["subscriptionId"]): one for one in api.list("/subscriptions?api-version=2022-12-01")
    }
    if not found:
        raise CredentialsError(
            "this Azure login has no subscription; ask an owner for the role of"
            " deploy/azure/reader-role.json"
        )
    wanted = (None if request == ids.SUBSCRIPTION else request) or variable(_VARIABLE)
    if wanted:
        if wanted not in found:
            raise UnknownNameError("subscription of Azure", wanted, found)
        return found[wanted]
    if len(found) > 1:
        names = ", ".join(f"{one['displayName']} ({name})" for name, one in sorted(found.items()))
        raise ConfigError(
            f"this login has several subscriptions: {names}. Give --subscription, or set {_VARIABLE}"
        )
    return next(iter(found.values()))


def _login_name(claims: Any) -> str:
    """Returns the name of the logged-in user from the token claims."""
    keys = ("upn", "unique_name", "preferred_username", "appid", "oid")
    return next((str(claims[key]) for key in keys if claims.get(key)), "unknown")
