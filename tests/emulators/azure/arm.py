"""Resource Manager: resources by ID, and the operations that create and delete them."""

from __future__ import annotations

import datetime as dt
import itertools
import re
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from emulators.azure.aks import Aks
from emulators.azure.contract import MODELS, SCHEMAS, complaint
from emulators.azure.faults import Faults, Refusal
from emulators.http import Answer

HOST = "https://management.azure.com"
CLUSTERS = "microsoft.containerservice/managedclusters"
POOLS = f"{CLUSTERS}/agentpools"
ACCOUNTS = "microsoft.storage/storageaccounts"
ASSIGNMENTS = "microsoft.authorization/roleassignments"
IDENTITIES = "microsoft.managedidentity/userassignedidentities"
SCALE_SETS = "microsoft.compute/virtualmachinescalesets"
RESERVATIONS = "microsoft.compute/capacityreservationgroups"
LONG_LASTING = (CLUSTERS, POOLS, ACCOUNTS, "resourcegroups")
AKS_VERSION = "2026-08-01"
"""Of azure-mgmt-containerservice 41.8.0."""
_DATE = re.compile(r"20\d\d-\d\d-\d\d")


@dataclass
class Operation:
    """A long-running operation; each GET of it, or of its resource, advances it."""

    path: str
    target: str
    is_deletion: bool
    looks: int
    error: dict[str, Any] | None = None
    in_resource: bool = True
    is_done: bool = False

    @property
    def status(self) -> str:
        return ("Failed" if self.error else "Succeeded") if self.is_done else "InProgress"


@dataclass
class Resource:
    """What exists; `body` is what its GET answers."""

    kind: str
    body: dict[str, Any]
    operation: Operation | None = None
    hidden: int = 0

    @property
    def is_busy(self) -> bool:
        return self.operation is not None and not self.operation.is_done


class Arm:
    """All state of one subscription."""

    def __init__(self, subscription: str, aks: Aks, faults: Faults) -> None:
        self.subscription, self.aks, self.faults = subscription, aks, faults
        self.resources: dict[str, Resource] = {}
        self.operations: dict[str, Operation] = {}
        self.calls: list[tuple[str, str]] = []
        self.unsold: tuple[str, ...] = ()
        self.taken_accounts: tuple[str, ...] = ()
        self.on_made: Callable[[str, dict[str, Any]], None] = lambda kind, body: None
        self.lock = threading.RLock()
        self._numbers = itertools.count(1)

    def ask(self, method: str, url: str, body: Any) -> Answer:
        """Answers a request."""
        parts = urlsplit(url)
        path, query = unquote(parts.path), {k: v[-1] for k, v in parse_qs(parts.query).items()}
        with self.lock:
            self.calls.append((method, path))
            try:
                _check_version(kind_of(path), query.get("api-version", ""))
                self.faults.strike(method, path)
                return _expanded(self._route(method, path, body), path, query)
            except Refusal as refusal:
                return refusal.answer

    def of_kind(self, kind: str) -> list[Resource]:
        return [one for one in self.resources.values() if one.kind == kind]

    def held(self) -> list[str]:
        """The ids of all resources."""
        return sorted(one.body["id"] for one in self.resources.values())

    def reserve(self, group: str, size: str, count: int, *, zone: str = "2", used: int = 0) -> str:
        """Reserves machines in a new capacity reservation group; returns its id."""
        path = f"/subscriptions/{self.subscription}/resourceGroups/{group.partition('/')[0]}"
        own = f"{path}/providers/Microsoft.Compute/capacityReservationGroups/{group.partition('/')[2]}"
        machines = [{"id": f"{path}/vm-{number}"} for number in range(used)]
        view = {"name": "machines", "utilizationInfo": {"virtualMachinesAllocated": machines}}
        self.put(path, {"location": "eastus"})
        properties = {"instanceView": {"capacityReservations": [view]}}
        self.put(own, {"location": "eastus", "properties": properties})
        sku = {"name": size, "capacity": count}
        self.put(
            f"{own}/capacityReservations/machines",
            {"location": "eastus", "zones": [zone], "sku": sku, "properties": {}},
        )
        return own

    def _refuse_reservation(self, path: str, body: dict[str, Any]) -> None:
        """System-assigned identities do not work, and a group without a reservation is ignored.

        https://learn.microsoft.com/azure/aks/use-capacity-reservation-groups (read 2026-11-22). That Spot
        machines cannot be reserved: https://learn.microsoft.com/azure/virtual-machines/capacity-reservation-overview.
        The text is not Azure's.
        """
        group = body["properties"].get("capacityReservationGroupID")
        if group is None:
            return
        cluster = self._found(path.lower().partition("/agentpools/")[0]).body
        if "UserAssigned" not in cluster.get("identity", {}).get("type", ""):
            raise Refusal(400, "BadRequest", "Capacity reservation needs a user-assigned identity.")
        if body["properties"].get("scaleSetPriority") == "Spot":
            raise Refusal(400, "BadRequest", "Capacity reservation is not supported for Spot.")
        if not any(one.startswith(f"{group.lower()}/") for one in self.resources):
            del body["properties"]["capacityReservationGroupID"]

    def put(self, path: str, body: dict[str, Any]) -> None:
        """Adds a resource without an operation, as another user's."""
        self.resources[path.lower()] = Resource(kind_of(path), _shown(path, body))

    def _route(self, method: str, path: str, body: Any) -> Answer:
        if path.lower() in self.operations:
            operation = self._bring_on(self.operations[path.lower()])
            error = {"error": operation.error} if operation.is_done and operation.error else {}
            return Answer(
                200, {"name": path.rpartition("/")[2], "status": operation.status} | error
            )
        if method == "POST" and path.lower().endswith("/listclusterusercredential"):
            self._found(path.rpartition("/")[0])
            return Answer(200, self.aks.credentials())
        if method == "GET":
            return Answer(200, self._look(path))
        kind = kind_of(path)
        if method == "PUT" and (kind in SCHEMAS or kind in MODELS):
            return self._make(path, kind, body)
        if method == "DELETE":
            return self._remove(path, kind)
        raise Refusal(405, "HttpMethodNotSupported", f"{method} {path}")

    def _look(self, path: str) -> dict[str, Any]:
        resource = self._found(path)
        if resource.hidden:
            resource.hidden -= 1
            raise Refusal(404, "ResourceNotFound", f"{path} was not found.")
        if resource.operation:
            self._bring_on(resource.operation)
            resource = self._found(path)
        return self.answer(resource)

    def answer(self, resource: Resource) -> dict[str, Any]:
        """The answer of a GET, checked against the contract."""
        body = resource.body
        if resource.kind == CLUSTERS:
            pools = [
                one for one in self.of_kind(POOLS) if one.body["id"].startswith(body["id"] + "/")
            ]
            profiles = [{"name": one.body["name"], **one.body["properties"]} for one in pools]
            own = body["properties"]["agentPoolProfiles"]
            properties = body["properties"] | {"agentPoolProfiles": [*own, *profiles]}
            body = body | {"properties": properties}
        wrong = complaint(resource.kind, body, is_answer=True)
        assert not wrong, f"the emulator breaks the contract of AKS: {wrong}"
        return body

    def _found(self, path: str) -> Resource:
        resource = self.resources.get(path.lower())
        if resource is None:
            group = "/".join(path.split("/")[:5])
            if len(path.split("/")) > 5 and group.lower() not in self.resources:
                raise Refusal(404, "ResourceGroupNotFound", f"{group} could not be found.")
            raise Refusal(404, "ResourceNotFound", f"The Resource '{path}' was not found.")
        return resource

    def _make(self, path: str, kind: str, body: Any) -> Answer:
        wrong = complaint(kind, body)
        if wrong:
            raise Refusal(400, "InvalidRequestContent", f"{path}: {wrong}")
        if kind != "resourcegroups":
            self._found("/".join(path.split("/")[:5]))
        parent = path.rpartition("/")[0].rpartition("/")[0]
        if kind.count("/") > 1 and kind_of(parent) in LONG_LASTING:
            self._found(parent)
        there = self.resources.get(path.lower())
        self._refuse_unsold(kind, body)
        self._refuse_busy(path, kind)
        self._refuse_taken(path, kind)
        if kind == ASSIGNMENTS:
            self._refuse_assigned(path, body["properties"])
        if kind == POOLS:
            self._refuse_reservation(path, body)
        shown = _shown(path, body)
        if there:
            shown["properties"] = there.body["properties"] | shown["properties"]
        else:
            self._fill(kind, shown)
        resource = Resource(kind, shown, hidden=0 if there else self.faults.late_gets)
        self.resources[path.lower()] = resource
        if kind not in LONG_LASTING or kind == "resourcegroups":
            self.on_made(kind, shown)
            return Answer(200 if there else 201, shown)
        operation = self._begin(path, is_deletion=False)
        resource.operation = operation
        if kind in (CLUSTERS, POOLS, ACCOUNTS):
            shown["properties"]["provisioningState"] = "Updating" if there else "Creating"
        where = HOST + operation.path + "?api-version=2026-08-01"
        if kind == ACCOUNTS:
            return Answer(202, None, {"Location": where, "Retry-After": "0"})
        headers = {"Azure-AsyncOperation": where, "Retry-After": "0"}
        return Answer(200 if there else 201, self.answer(resource), headers)

    def _remove(self, path: str, kind: str) -> Answer:
        resource = self.resources.get(path.lower())
        if resource is None:
            if kind in (POOLS, *LONG_LASTING):
                return Answer(204)
            raise Refusal(404, "ResourceNotFound", f"The Resource '{path}' was not found.")
        self._refuse_busy(path, kind)
        if kind not in (*LONG_LASTING, SCALE_SETS) or kind == ACCOUNTS:
            self._drop(path)
            return Answer(200)
        resource.operation = operation = self._begin(path, is_deletion=True)
        resource.body["properties"]["provisioningState"] = "Deleting"
        where = HOST + operation.path + "?api-version=2026-08-01"
        headers = {"Location": where, "Azure-AsyncOperation": where, "Retry-After": "0"}
        return Answer(202, None, headers)

    def _refuse_busy(self, path: str, kind: str) -> None:
        """AKS does one operation on a cluster at a time."""
        if kind not in (CLUSTERS, POOLS):
            return
        cluster = path.lower().partition("/agentpools/")[0]
        for address, one in self.resources.items():
            if (address == cluster or address.startswith(cluster + "/")) and one.is_busy:
                raise Refusal(
                    409,
                    "OperationNotAllowed",
                    f"Operation is not allowed: another operation on {one.body['name']} is in progress",
                )

    def _begin(self, path: str, *, is_deletion: bool) -> Operation:
        where = (
            f"/subscriptions/{self.subscription}/providers/Microsoft.ContainerService/locations"
            f"/somewhere/operations/{next(self._numbers)}"
        )
        failure = None if is_deletion else self.faults.failure_of(path)
        error, in_resource = failure or (None, True)
        made = Operation(where, path, is_deletion, self.faults.slow_gets, error, in_resource)
        self.operations[where.lower()] = made
        return made

    def _bring_on(self, operation: Operation) -> Operation:
        operation.looks -= 1
        if operation.looks >= 0 or operation.is_done:
            return operation
        operation.is_done = True
        resource = self.resources.get(operation.target.lower())
        if resource is None:
            return operation
        if operation.is_deletion:
            self._drop(operation.target)
        elif operation.error:
            resource.body["properties"]["provisioningState"] = "Failed"
            if operation.in_resource:
                resource.body["properties"]["status"] = {"provisioningError": operation.error}
        else:
            self._finish(resource)
        return operation

    def _finish(self, resource: Resource) -> None:
        properties = resource.body["properties"]
        properties["provisioningState"] = "Succeeded"
        address = resource.body["id"]
        if resource.kind == CLUSTERS:
            properties |= self.aks.make()
            group = f"/subscriptions/{self.subscription}/resourceGroups/"
            group += properties["nodeResourceGroup"]
            self.put(group, {"location": resource.body["location"], "tags": resource.body["tags"]})
            self.resources[group.lower()].body["managedBy"] = address
        if resource.kind == POOLS:
            cluster = self.resources[address.lower().partition("/agentpools/")[0]].body
            self.aks.add_pool(resource.body)
            group = cluster["properties"]["nodeResourceGroup"]
            name = f"aks-{resource.body['name']}-vmss"
            path = f"/subscriptions/{self.subscription}/resourceGroups/{group}/providers"
            tags = properties.get("tags", {}) | {"aks-managed-poolName": resource.body["name"]}
            path += f"/Microsoft.Compute/virtualMachineScaleSets/{name}"
            self.put(path, {"location": cluster["location"], "tags": tags})
        self.on_made(resource.kind, resource.body)

    def _drop(self, path: str) -> None:
        """Deletes a resource and all resources inside of it."""
        gone = self.resources.pop(path.lower())
        if gone.kind == CLUSTERS:
            group = gone.body["properties"]["nodeResourceGroup"]
            nodes = f"/subscriptions/{self.subscription}/resourceGroups/{group}".lower()
            if nodes in self.resources:
                self._drop(nodes)
        if gone.kind == POOLS:
            self.aks.remove_pool(gone.body)
            for address in list(self.resources):
                if address.endswith(f"/aks-{gone.body['name']}-vmss"):
                    del self.resources[address]
        inside = [one for one in self.resources if one.startswith(path.lower() + "/")]
        for address in inside:
            if address in self.resources:
                self._drop(address)

    def _refuse_unsold(self, kind: str, body: Any) -> None:
        """Refuses sizes that the subscription is not offered, in the words of AKS.

        https://github.com/dotnet/core/issues/8181 and
        https://github.com/hashicorp-education/learn-terraform-provision-aks-cluster/issues/15
        """
        pools = body["properties"].get("agentPoolProfiles", ()) if kind == CLUSTERS else ()
        pools = [body["properties"]] if kind == POOLS else pools
        for size in (one["vmSize"] for one in pools):
            if size in self.unsold:
                raise Refusal(
                    400,
                    "BadRequest",
                    f"The VM size of {size} is not allowed in your subscription in location"
                    f" {body.get('location', 'of the cluster')!r}. For more details, please visit"
                    " https://aka.ms/aks/quotas-skus-regions",
                )

    def _refuse_taken(self, path: str, kind: str) -> None:
        """Refuses the name of a storage account of another subscription, which GET does not find.

        https://github.com/hashicorp/terraform/issues/11485 (read 2026-11-25).
        """
        name = path.rpartition("/")[2]
        if kind == ACCOUNTS and name in self.taken_accounts:
            text = f"The storage account named {name} is already taken."
            raise Refusal(409, "StorageAccountAlreadyTaken", text)

    def _refuse_assigned(self, path: str, wanted: dict[str, Any]) -> None:
        """Refuses a role that its principal has on this scope, and another principal under the same name.

        PUT is not idempotent: https://github.com/Azure/azure-cli/pull/8599. Changes:
        https://learn.microsoft.com/azure/role-based-access-control/troubleshooting (both read 2026-11-25).
        """
        same = ("roleDefinitionId", "principalId")
        for address, one in self.resources.items():
            if one.kind != ASSIGNMENTS:
                continue
            has, is_here = one.body["properties"], address == path.lower()
            is_same = all(str(has[key]).lower() == str(wanted[key]).lower() for key in same)
            if is_same and scope_of(address) == scope_of(path).lower():
                raise Refusal(409, "RoleAssignmentExists", "The role assignment already exists.")
            if is_here:
                raise Refusal(
                    400,
                    "RoleAssignmentUpdateNotPermitted",
                    "Tenant ID, application ID, principal ID, and scope are not allowed to be updated.",
                )

    def _fill(self, kind: str, body: dict[str, Any]) -> None:
        """Adds what the service itself writes."""
        properties = body["properties"]
        if kind == IDENTITIES:
            name = f"{body['id'].lower()} {next(self._numbers)}"  # a new one is another principal
            properties["clientId"] = str(uuid.uuid5(uuid.NAMESPACE_URL, f"client {name}"))
            properties["principalId"] = str(uuid.uuid5(uuid.NAMESPACE_URL, f"principal {name}"))
        if kind == ASSIGNMENTS:
            properties["scope"] = scope_of(body["id"])
        if kind in ("resourcegroups", ACCOUNTS):
            properties["provisioningState"] = "Succeeded"


def _expanded(answer: Answer, path: str, query: dict[str, str]) -> Answer:
    """Adds the use of a reservation if the query has `$expand=instanceView`."""
    if kind_of(path) != RESERVATIONS or query.get("$expand") == "instanceView":
        return answer
    properties = {k: v for k, v in answer.body["properties"].items() if k != "instanceView"}
    return Answer(200, answer.body | {"properties": properties})


def _check_version(kind: str, version: str) -> None:
    if not _DATE.fullmatch(version):
        raise Refusal(
            400, "MissingApiVersionParameter", "The api-version query parameter is required"
        )
    if kind in MODELS and version != AKS_VERSION:
        raise Refusal(400, "NoRegisteredProviderFound", f"the models here are not of {version}")


def kind_of(path: str) -> str:
    """The type of what is at an address, in lower case."""
    _, found, rest = path.lower().rpartition("/providers/")
    if not found:
        return "resourcegroups"
    provider, *parts = rest.split("/")
    return "/".join((provider, *parts[::2]))


def scope_of(path: str) -> str:
    """The scope of a role assignment."""
    return re.split("/providers/microsoft.authorization/", path, flags=re.IGNORECASE)[0]


def _shown(path: str, body: dict[str, Any]) -> dict[str, Any]:
    kind = kind_of(path)
    shown = body | {"id": path, "name": path.rpartition("/")[2]}
    shown["properties"] = dict(body.get("properties") or {})
    if kind != "resourcegroups":
        shown["type"] = kind
    if kind == CLUSTERS:
        now = dt.datetime.now(dt.UTC).isoformat()
        shown["systemData"] = {"createdAt": now, "createdByType": "User"}
    return shown
