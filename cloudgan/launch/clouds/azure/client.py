"""CloudClient of one Azure subscription."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.documents import parse_json, parse_yaml
from cloudgan.core.errors import ConfigError, CredentialsError, LaunchError
from cloudgan.launch.clouds.azure import ids, preflight, reservations, resources
from cloudgan.launch.clouds.azure.api import ArmApi, find_subscription, login_name
from cloudgan.launch.clouds.azure.error_mapping import (
    AssignedError,
    BusyError,
    MissingError,
    capacity_error,
    cause_of,
)
from cloudgan.launch.clouds.azure.planner import store_url
from cloudgan.launch.clouds.azure.resources import (
    ACCOUNTS,
    CLUSTERS,
    GROUPS,
    LEFTOVER,
    POOLS,
    parse_resource,
)
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.launch.kubernetes.kubeconfig import connect_by_certificate, connect_by_token
from cloudgan.schema.plan import ZONES
from cloudgan.schema.resource import Finding
from cloudgan.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kubernetes.client import ApiClient

    from cloudgan.schema.plan import Plan, Step, Target
    from cloudgan.schema.resource import Listing, Resource
    from cloudgan.storage.store import Store


_BUSY_SECONDS: Final = 10.0
_BUSY_TRIES: Final = 60
"""AKS creates node pools one at a time, some minutes each."""


_EFFECT_SECONDS: Final = 900.0
"""A role assignment takes up to 10 minutes to have an effect
(https://learn.microsoft.com/azure/role-based-access-control/troubleshooting, read 2026-11-25)."""
_NO_NAME: Final = "access-of-setup/"


class AzureClient:
    """Implements `CloudClient`."""

    def __init__(
        self,
        api: ArmApi,
        target: Target,
        say: Callable[[str], None] = lambda _: None,
        *,
        store: Callable[[str], Store] = open_store,
        busy_seconds: float = _BUSY_SECONDS,
    ) -> None:
        """Creates a client.

        Args:
            api: Of the Resource Manager.
            target: Subscription by id, by name or unset.
            say: Progress callback.
            store: Opens the container of a URL.
            busy_seconds: Retry interval while another operation runs on a resource.
        """
        self._api, self._target, self._say = api, target, say
        self._busy_seconds, self._store = busy_seconds, store
        self._refused_since: float | None = None

    @classmethod
    def open(cls, target: Target, say: Callable[[str], None] = lambda _: None) -> AzureClient:
        """Opens the subscription of a target with the login found by azure-identity."""
        return cls(ArmApi.open(), target, say)

    def identify(self) -> Mapping[str, str]:
        """Returns user and subscription of the login."""
        found = self._subscription
        return {
            "subscription": str(found["subscriptionId"]),
            "name": str(found["displayName"]),
            "who": login_name(self._api.claims()),
        }

    def resolve_placeholders(self, plan: Plan) -> Mapping[str, str]:
        """Returns subscription, storage account, zone, and the pods' identity.

        Raises:
            ConfigError: The region is not set up.
            PlanError: The region does not offer the node type to this subscription.
        """
        assert plan.node_pool is not None  # noqa: S101  provisioned plans only
        target = self._filled(plan.target)
        region = target.region or ""
        request = None if target.zone == ids.ZONE else target.zone
        if plan.node_pool.reservation:
            request = reservations.reserved_zone(self._api, plan, target)
        zones = preflight.zones(
            self._api, target.account or "", region, plan.node_pool.node_type, request
        )
        identity = self._api.get(ids.versioned(ids.identity_id(target)))
        if identity is None:
            raise ConfigError(
                f"region {region} is not set up; an administrator runs once: cloudgan setup"
                f" --provider=azure --region={region}"
            )
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
        cluster = self._api.get(ids.versioned(ids.cluster_id(target)))
        pools = ((cluster or {}).get("properties") or {}).get("agentPoolProfiles") or ()
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
            cluster = ids.versioned(ids.cluster_id(self._filled(plan.target)))
            has_cluster = self._api.get(cluster) is not None
            found += preflight.quotas(self._api, subscription, plan, has_cluster=has_cluster)
        elif where:
            found += preflight.all_quotas(self._api, subscription, where)
        return tuple(found)

    def find(self, step: Step) -> Resource | None:
        """Returns the resource of a step; None if it does not exist.

        Raises:
            ConfigError: The storage account allows public access or plain HTTP.
        """
        assert step.find is not None  # noqa: S101  every step has a find path
        if ids.ASSIGNMENT in step.find:
            return self._find_assignment(step)
        found = self._api.get(step.find)
        if found is None:
            why = self._api.why_failed(step.path)
            if why:  # rejected after acceptance
                raise capacity_error(why, f"{step.ensure}: {why}") or LaunchError(
                    f"{step.ensure}: {why}"
                )
            return None
        wanted: Any = step.body or {}
        if ids.ISSUER in json.dumps(wanted) and not self._is_current(found, step):
            return None  # issued by a deleted cluster: replace it
        if ids.type_of(step.find) == ACCOUNTS:
            _refuse_public(found)
        resource = parse_resource(found, self._target.region or "")
        if resource.state == "failed" and not resource.reason:
            why = self._api.why_failed(step.path)
            resource = replace(resource, reason=why, cause=cause_of(why))
        return resource

    def create(self, step: Step) -> None:
        """Sends a step's request; retries while another operation runs on the cluster.

        Raises:
            CapacityError: No capacity or quota.
            LaunchError: Rejected for another reason.
        """
        body = self._completed(step)
        path = step.path
        if ids.ASSIGNMENT in path:
            path = path.replace(ids.ASSIGNMENT, _assignment(step, body["properties"])[1])
        for number in range(_BUSY_TRIES):
            try:
                self._api.send(step.method, path, body)
            except AssignedError:
                return
            except BusyError as error:
                if number == _BUSY_TRIES - 1:
                    raise
                if number == 0:
                    self._say(f"{step.ensure} waits: {error}")
                time.sleep(self._busy_seconds)
            else:
                return

    def list_resources(
        self, run: str | None = None, regions: Collection[str] | None = None
    ) -> Listing:
        """Lists resources with cloudgan's labels, or those of one run, in all regions."""
        del regions  # one request lists all
        return resources.list_resources(self._api, self._account, run)

    def delete(self, resource: Resource) -> None:
        """Requests the deletion; a missing resource is no error.

        Raises:
            LaunchError: Rejected, such as during another operation.
        """
        kind = ids.type_of(resource.name)
        if kind == POOLS and resource.shared:
            return  # AKS requires a system pool
        if kind == GROUPS and resource.shared != LEFTOVER:
            self._refuse_full_group(resource)
        try:
            self._api.send("DELETE", ids.versioned(resource.name))
        except MissingError:
            return

    def refresh(self, resource: Resource) -> Resource | None:
        """Returns the current state of a resource; None if it is gone."""
        found = self._api.get(ids.versioned(resource.name))
        return None if found is None else parse_resource(found, resource.region)

    def cluster_api(self, plan: Plan) -> ClusterApi | None:
        """Returns the API of the plan's cluster; None if it does not exist."""
        address = ids.cluster_id(self._filled(plan.target))
        found = self._api.get(ids.versioned(address))
        if found is None or parse_resource(found).state == "deleting":
            return None
        if not found["properties"].get("fqdn"):
            return None  # being created
        try:
            client = _connect(self._api, address, ids.VERSIONS[CLUSTERS])
        except MissingError:
            return None
        return ClusterApi(client, say=self._say)

    def job_backend(self, plan: Plan) -> None:
        """Returns None: every plan runs in a cluster."""

    @cached_property
    def _subscription(self) -> dict[str, Any]:
        return find_subscription(self._api, self._target.account)

    @property
    def _account(self) -> str:
        return str(self._subscription["subscriptionId"])

    def _filled(self, target: Target) -> Target:
        return target.model_copy(update={"account": self._account})

    def _find_assignment(self, step: Step) -> Resource | None:
        """Returns the assignment of a step, or one that grants the same on the scope or above it."""
        wanted = self._completed(step)["properties"]
        scope, name = _assignment(step, wanted)
        listed, region = ids.assignments_id(scope), self._target.region or ""
        if own := self._api.get(ids.versioned(f"{listed}/{name}")):
            return self._in_effect(step, parse_resource(own, region))
        role = wanted["roleDefinitionId"].rpartition("/")[2].lower()
        query = {"$filter": f"principalId eq '{wanted['principalId']}'"}
        for one in self._api.list(ids.versioned(listed), **query):
            has = {key: str(value).lower() for key, value in one["properties"].items()}
            is_role = has["roleDefinitionId"].rpartition("/")[2] == role
            if is_role and f"{scope.lower()}/".startswith(f"{has['scope']}/"):
                return self._in_effect(step, parse_resource(one, region))
        return None

    def _in_effect(self, step: Step, assignment: Resource) -> Resource:
        """Returns the assignment, as being created while Blob Storage still refuses this login."""
        if ids.USER_PRINCIPAL not in json.dumps(step.body):
            return assignment  # only the pods can try theirs
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

    def _is_current(self, found: Mapping[str, Any], step: Step) -> bool:
        there, wanted = found["properties"].get("issuer"), self._issuer(step)
        return wanted is not None and there == wanted

    def _issuer(self, step: Step) -> str | None:
        """OIDC issuer of the cluster of a credential."""
        name = step.path.partition("?")[0].rpartition("/")[2]
        target = self._filled(self._target).model_copy(
            update={"cluster": self._target.cluster or name}
        )
        cluster = self._api.get(ids.versioned(ids.cluster_id(target)))
        profile = ((cluster or {}).get("properties") or {}).get("oidcIssuerProfile") or {}
        issuer: str | None = profile.get("issuerURL")
        return issuer

    def _completed(self, step: Step) -> Any:
        """Returns a step's body with values known only after earlier steps."""
        text = json.dumps(step.body)
        if ids.ISSUER in text:
            issuer = self._issuer(step)
            if not issuer:
                raise LaunchError(
                    f"cluster {self._target.cluster} has no OIDC issuer; run: az aks update"
                    " --enable-oidc-issuer --enable-workload-identity, or omit --cluster"
                )
            text = text.replace(ids.ISSUER, issuer)
        if ids.POD_PRINCIPAL in text:
            identity = (
                self._api.get(ids.versioned(ids.identity_id(self._filled(self._target)))) or {}
            )
            text = text.replace(ids.POD_PRINCIPAL, str(identity["properties"]["principalId"]))
        if ids.USER_PRINCIPAL in text:
            claims = self._api.claims()
            kind = "ServicePrincipal" if claims.get("idtyp") == "app" else "User"
            text = text.replace(ids.USER_PRINCIPAL, str(claims["oid"]))
            text = text.replace(ids.USER_KIND, kind)
        return parse_json(text, step.ensure)

    def _refuse_full_group(self, resource: Resource) -> None:
        """Raises if a resource group is not empty: deleting it would delete its contents."""
        path = f"{resource.name}/resources?api-version={ids.VERSIONS[GROUPS]}"
        inside = next(self._api.list(path), None)
        if inside is not None:
            raise LaunchError(
                f"{resource.name.rpartition('/')[2]} still contains {inside['id']}; deleting the group"
                " would delete its contents"
            )


def _assignment(step: Step, properties: Mapping[str, str]) -> tuple[str, str]:
    """Returns scope and name of the role assignment of a step."""
    scope = str(step.find).partition("/providers/Microsoft.Authorization/")[0]
    role, principal = properties["roleDefinitionId"], properties["principalId"]
    return scope, ids.assignment_name(scope, role, principal)


def _refuse_public(account: Mapping[str, Any]) -> None:
    properties = account["properties"]
    if properties.get("allowBlobPublicAccess") or not properties.get("supportsHttpsTrafficOnly"):
        raise ConfigError(
            f"storage account {account['name']} allows public access or plain HTTP; correct it in the"
            " Azure portal (Configuration), or give another --store"
        )


# Application id of AKS clusters with Entra login
# (https://learn.microsoft.com/azure/aks/kubelogin-authentication, read 2026-11-21).
_AKS_SCOPE: Final = "6dae42f8-4368-4678-94ff-3960e28e3630/.default"


def _connect(api: ArmApi, cluster: str, version: str) -> ApiClient:
    """Returns a Kubernetes client with the AKS credentials: certificate, token or Entra login.

    Args:
        api: Of the Resource Manager.
        cluster: Resource id.
        version: API version.

    Raises:
        LaunchError: AKS returned no credentials.
    """
    found = api.send("POST", f"{cluster}/listClusterUserCredential?api-version={version}")
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
