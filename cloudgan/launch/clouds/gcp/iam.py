"""Enabled APIs and IAM policies: what `setup` changes beside the resources that it creates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from cloudgan.core.errors import LaunchError
from cloudgan.launch.clouds.gcp import names
from cloudgan.launch.clouds.gcp.api import GoogleApi
from cloudgan.launch.clouds.gcp.errors import TakenError, sentence
from cloudgan.launch.clouds.rows import BusyError
from cloudgan.schema.plan import Step

POLICY_VERSION: Final = 3
"""Older ones cannot hold conditions: Google shows conditional bindings without them, or refuses the request
(https://cloud.google.com/iam/docs/policies#versions, read 2026-11-25)."""


class Policies(NamedTuple):
    """How a service reads and writes policies; each asks for their version in its own way.

    Attributes:
        url: Of the resource.
        read: Method, end of the URL, body and query.
        write: Method and end of the URL.
        is_wrapped: Whether the body of a write holds the policy as ``policy``.
    """

    url: str
    read: tuple[str, str, Any, dict[str, str]]
    write: tuple[str, str]
    is_wrapped: bool = True


_VERSION: Final = str(POLICY_VERSION)
POLICIES: Final = {
    "bucket": Policies(
        f"{names.STORAGE}/b/{{name}}",
        ("GET", "/iam", None, {"optionsRequestedPolicyVersion": _VERSION}),
        ("PUT", "/iam"),
        is_wrapped=False,
    ),
    "project": Policies(
        f"{names.PROJECTS}/projects/{{name}}",
        ("POST", ":getIamPolicy", {"options": {"requestedPolicyVersion": POLICY_VERSION}}, {}),
        ("POST", ":setIamPolicy"),
    ),
    "account": Policies(
        f"{names.IAM}/projects/{{project}}/serviceAccounts/{{name}}",
        ("POST", ":getIamPolicy", None, {"options.requestedPolicyVersion": _VERSION}),
        ("POST", ":setIamPolicy"),
    ),
}
"""By the key `of` of a binding's reference."""


def api_states(api: GoogleApi, wanted: list[str] | tuple[str, ...]) -> dict[str, bool]:
    """Returns whether each API is enabled in the project."""
    parent = f"projects/{api.project}/services"
    query = {"names": [f"{parent}/{name}" for name in wanted]}
    found = api.send("GET", f"{names.SERVICES}/{parent}:batchGet", query=query)
    states = {one["name"].rpartition("/")[2]: one.get("state") for one in found["services"]}
    enabled = {name: states.get(name) == "ENABLED" for name in wanted}
    api.expect_enabled(name for name, is_on in enabled.items() if is_on)
    return enabled


def are_enabled(api: GoogleApi, step: Step) -> bool:
    """Whether all APIs of a step are enabled."""
    body: Any = step.body
    return all(api_states(api, body["serviceIds"]).values())


def enable(api: GoogleApi, step: Step, body: Any) -> None:
    """Enables APIs and follows the operation, which may take minutes.

    https://github.com/hashicorp/terraform-provider-google/issues/2129 (read 2026-11-22); a second
    request meanwhile is refused: "Another activation or deactivation is in progress"
    (https://github.com/terraform-google-modules/terraform-google-project-factory/issues/461).

    Raises:
        BusyError: It is not done yet.
    """
    running = api.operations.pop(step.path, None)
    if running:
        operation = api.send("GET", running)
    else:
        operation = api.send(step.method, step.path, body, what=step.ensure)
    if not operation.get("done"):
        api.operations[step.path] = f"{names.SERVICES}/{operation['name']}"
        raise BusyError("Google is enabling them; rerun cloudgan setup --provider=gcp if it stops")
    if error := operation.get("error"):
        raise LaunchError(
            f"{step.ensure}: {sentence(error.get('message', ''))}. Check the project's billing"
            " account and policies, then rerun cloudgan setup --provider=gcp"
        )
    api.expect_enabled(body["serviceIds"])


def is_bound(api: GoogleApi, step: Step) -> bool:
    """Whether a policy has all bindings of a step."""
    policy = _policy(api, step.ref)
    return all(_holds(policy, one) for one in _bindings(step.body))


def bind(api: GoogleApi, step: Step, body: Any) -> None:
    """Adds the bindings of a step to the existing policy.

    Raises:
        BusyError: The account has not propagated yet, or another client is changing the policy.
    """
    policy = _policy(api, step.ref)
    missing = [one for one in _bindings(body) if not _holds(policy, one)]
    policy |= {"bindings": [*policy.get("bindings", ()), *missing]}
    try:
        _set_policy(api, step.ref, policy)
    except LaunchError as error:
        if isinstance(error, TakenError) or "does not exist" in str(error):
            raise BusyError(str(error)) from error
        raise


def unbind(api: GoogleApi, member: str) -> None:
    """Removes a member from the project's policy, where it would stay as deleted."""
    project = {"of": "project", "name": api.project}
    policy = _policy(api, project)
    bindings = [
        one | {"members": [other for other in one.get("members", ()) if other != member]}
        for one in policy.get("bindings", ())
    ]
    kept = [one for one in bindings if one["members"]]
    if kept != policy.get("bindings", []):
        _set_policy(api, project, policy | {"bindings": kept})


def _policy(api: GoogleApi, ref: Mapping[str, str]) -> dict[str, Any]:
    """Returns a policy with its conditions."""
    row = POLICIES[ref["of"]]
    method, end, body, query = row.read
    url = row.url.format(project=api.project, name=ref["name"])
    found: dict[str, Any] = api.send(method, f"{url}{end}", body, query=query)
    return found


def _set_policy(api: GoogleApi, ref: Mapping[str, str], policy: dict[str, Any]) -> None:
    row = POLICIES[ref["of"]]
    method, end = row.write
    url = row.url.format(project=api.project, name=ref["name"])
    policy = policy | {"version": POLICY_VERSION}
    api.send(method, f"{url}{end}", {"policy": policy} if row.is_wrapped else policy)


def _bindings(body: Any) -> list[dict[str, Any]]:
    """Returns the bindings that a step adds."""
    return list(body.get("policy", body)["bindings"])


def _holds(policy: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return any(
        one.get("role") == wanted["role"]
        and not one.get("condition")
        and set(wanted["members"]) <= set(one.get("members", ()))
        for one in policy.get("bindings", ())
    )
