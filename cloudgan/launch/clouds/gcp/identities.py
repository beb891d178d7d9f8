"""Enabled APIs, service accounts and IAM bindings: what `setup` creates besides the bucket.

None of them carries labels: cloudgan recognises them by name. They cost nothing.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import LaunchError
from cloudgan.core.labels import SHARED
from cloudgan.launch.clouds.gcp.addresses import ACCOUNTS, IAM, PROJECTS, SERVICES, account_email
from cloudgan.launch.clouds.gcp.error_mapping import BusyError, TakenError, sentence
from cloudgan.schema.resource import Listing, Resource

if TYPE_CHECKING:
    from cloudgan.launch.clouds.gcp.api import GoogleApi
    from cloudgan.schema.plan import Step

KIND, BINDING_KIND, API_KIND = "service account", "binding", "APIs"
_RANK = 80
_POLICY_VERSION = "3"
"""Older ones cannot hold conditions: Google shows conditional bindings without them, or refuses the request
(https://cloud.google.com/iam/docs/policies#versions, read 2026-11-25)."""
_LABELS = {SHARED: "identity"}


class Identities:
    """The service accounts and IAM policies of one project.

    Args:
        api: Google's APIs.
        project: Project ID.
        known_seconds: Limit for a new account's propagation to other APIs.
        enabling_seconds: Limit for the operation that enables APIs.
        poll_seconds: Interval between two attempts meanwhile.
    """

    kinds = (KIND, BINDING_KIND, API_KIND)

    def __init__(
        self,
        api: GoogleApi,
        project: str,
        *,
        known_seconds: float = 120.0,
        enabling_seconds: float = 600.0,
        poll_seconds: float = 3.0,
    ) -> None:
        self._api, self._project = api, project
        self._known_seconds, self._poll_seconds = known_seconds, poll_seconds
        self._enabling_seconds = enabling_seconds

    def find(self, step: Step) -> Resource | None:
        """Returns a step's account, bindings or APIs, if all of them exist."""
        assert step.find is not None  # noqa: S101
        if step.find.endswith(":batchGet"):
            return self._find_apis(step)
        if wanted := _bindings(step):
            policy = self._policy(step.find)
            there = [_holds(policy, one) for one in wanted]
            return _shared(BINDING_KIND, step.ensure) if all(there) else None
        found = self._api.find(step.find)
        return _shared(KIND, found["email"]) if found else None

    def create(self, step: Step) -> None:
        """Enables APIs, creates an account, or adds bindings to the existing policy."""
        wanted = _bindings(step)
        began = monotonic_seconds()
        if step.path.endswith(":batchEnable"):
            self._enable(step)
            return
        if not wanted:
            with suppress(TakenError):
                self._api.send(step.method, step.path, step.body, what=step.ensure)
            return
        while True:
            try:
                self._add(step, wanted)
            except LaunchError as error:
                # The account has not propagated yet, or another client is changing the policy.
                is_transient = isinstance(error, TakenError) or "does not exist" in str(error)
                if not is_transient or monotonic_seconds() - began > self._known_seconds:
                    raise
            else:
                return
            time.sleep(self._poll_seconds)

    def list_resources(self, run: str | None) -> Listing:
        """Lists the service accounts that cloudgan created."""
        if run is not None:
            return Listing()
        url = f"{IAM}/projects/{self._project}/serviceAccounts"
        ours = {account_email(name, self._project) for name in ACCOUNTS}
        pages = self._api.pages(url, pageSize="100")
        found = [one["email"] for page in pages for one in page.get("accounts", ())]
        return Listing(_shared(KIND, email) for email in found if email in ours)

    def delete(self, resource: Resource) -> None:
        """Deletes a service account, after its project bindings, which would stay otherwise."""
        if resource.kind != KIND:
            return
        self._unbind(f"serviceAccount:{resource.name}")
        self._api.delete(self._account(resource), f"service account {resource.name}")

    def refresh(self, resource: Resource) -> Resource | None:
        """Returns the current state of a service account."""
        is_account = resource.kind == KIND
        return resource if is_account and self._api.find(self._account(resource)) else None

    def _account(self, resource: Resource) -> str:
        return f"{IAM}/projects/{self._project}/serviceAccounts/{resource.name}"

    def _find_apis(self, step: Step) -> Resource | None:
        body: Any = step.body
        states = api_states(self._api, self._project, body["serviceIds"])
        return _shared(API_KIND, step.ensure) if all(states.values()) else None

    def _enable(self, step: Step) -> None:
        """Enables APIs and follows the operation, which may take minutes.

        https://github.com/hashicorp/terraform-provider-google/issues/2129 (read 2026-11-22); a second
        request meanwhile is refused: "Another activation or deactivation is in progress"
        (https://github.com/terraform-google-modules/terraform-google-project-factory/issues/461).
        """
        body: Any = step.body
        operation: dict[str, Any] = {}
        deadline = monotonic_seconds() + self._enabling_seconds
        while not operation.get("done"):
            try:
                if operation:
                    operation = self._api.send("GET", f"{SERVICES}/{operation['name']}")
                else:
                    operation = self._api.send(step.method, step.path, body, what=step.ensure)
            except BusyError:
                operation = {}
            if not operation.get("done"):
                if monotonic_seconds() > deadline:
                    raise LaunchError(
                        f"{step.ensure}: not enabled within {self._enabling_seconds:.0f} s; rerun"
                        " cloudgan setup --provider=gcp"
                    )
                time.sleep(self._poll_seconds)
        if error := operation.get("error"):
            raise LaunchError(
                f"{step.ensure}: {sentence(error.get('message', ''))}. Check the project's billing"
                " account and policies, then rerun cloudgan setup --provider=gcp"
            )
        self._api.expect_enabled(body["serviceIds"])

    def _policy(self, url: str) -> dict[str, Any]:
        """Returns a policy with its conditions; each service asks for their version in its own way."""
        if url.endswith("/iam"):
            return self._api.send(
                "GET", url, query={"optionsRequestedPolicyVersion": _POLICY_VERSION}
            )
        if url.startswith(PROJECTS):
            options = {"options": {"requestedPolicyVersion": int(_POLICY_VERSION)}}
            return self._api.send("POST", url, options)
        return self._api.send(
            "POST", url, query={"options.requestedPolicyVersion": _POLICY_VERSION}
        )

    def _add(self, step: Step, wanted: list[dict[str, Any]]) -> None:
        assert step.find is not None  # noqa: S101
        policy = self._policy(step.find)
        missing = [one for one in wanted if not _holds(policy, one)]
        self._set(step.path, policy | {"bindings": [*policy.get("bindings", ()), *missing]})

    def _unbind(self, member: str) -> None:
        resource = f"{PROJECTS}/projects/{self._project}"
        policy = self._policy(f"{resource}:getIamPolicy")
        bindings = [
            one | {"members": [other for other in one.get("members", ()) if other != member]}
            for one in policy.get("bindings", ())
        ]
        kept = [one for one in bindings if one["members"]]
        if kept != policy.get("bindings", []):
            self._set(f"{resource}:setIamPolicy", policy | {"bindings": kept})

    def _set(self, url: str, policy: dict[str, Any]) -> None:
        is_bucket = url.endswith("/iam")
        policy = policy | {"version": int(_POLICY_VERSION)}
        self._api.send(
            "PUT" if is_bucket else "POST", url, policy if is_bucket else {"policy": policy}
        )


def api_states(api: GoogleApi, project: str, names: list[str] | tuple[str, ...]) -> dict[str, bool]:
    """Returns whether each API is enabled in a project."""
    url = f"{SERVICES}/projects/{project}/services:batchGet"
    paths = [f"projects/{project}/services/{name}" for name in names]
    found = api.send("GET", url, query={"names": paths})  # type: ignore[dict-item]
    states = {one["name"].rpartition("/")[2]: one.get("state") for one in found["services"]}
    enabled = {name: states.get(name) == "ENABLED" for name in names}
    api.expect_enabled(name for name, is_on in enabled.items() if is_on)
    return enabled


def _bindings(step: Step) -> list[dict[str, Any]]:
    """Returns the bindings that a step adds; none for other steps."""
    body: Any = step.body
    policy = body.get("policy", body) if isinstance(body, dict) else {}
    return list(policy.get("bindings", ()))


def _holds(policy: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return any(
        one.get("role") == wanted["role"]
        and not one.get("condition")
        and set(wanted["members"]) <= set(one.get("members", ()))
        for one in policy.get("bindings", ())
    )


def _shared(kind: str, name: str) -> Resource:
    return Resource(kind, name, "ready", _LABELS, deletion_order=_RANK, is_free=True)
