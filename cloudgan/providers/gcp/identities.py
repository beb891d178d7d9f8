"""What `setup` makes beside the bucket: APIs that are on, service accounts, and what they may.

None of it carries labels; it is known by the prefix of its name, and costs nothing.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import LaunchError
from cloudgan.core.labels import SHARED
from cloudgan.core.thing import Thing
from cloudgan.providers.gcp.addresses import (
    ACCOUNTS,
    IAM,
    PROJECTS,
    account_email,
)
from cloudgan.providers.gcp.refusal import AbsentError, TakenError

if TYPE_CHECKING:
    from cloudgan.core.plan import Step
    from cloudgan.providers.gcp.api import GoogleApi

KIND, BINDING_KIND, API_KIND = "service account", "binding", "APIs"
_RANK = 80
_LABELS = {SHARED: "identity"}


class Identities:
    """Who acts in one project, and what they may.

    Args:
        api: That is asked.
        project: Its id.
        known_seconds: How long an account that was just made may be unknown to other APIs.
        poll_seconds: Between two tries then.
    """

    kinds = (KIND, BINDING_KIND, API_KIND)

    def __init__(
        self,
        api: GoogleApi,
        project: str,
        *,
        known_seconds: float = 120.0,
        poll_seconds: float = 3.0,
    ) -> None:
        self._api, self._project = api, project
        self._known_seconds, self._poll_seconds = known_seconds, poll_seconds

    def find(self, step: Step) -> Thing | None:
        """Returns what a step wants, where all of it is there."""
        assert step.find is not None  # noqa: S101
        if step.find.endswith(":batchGet"):
            return self._find_apis(step)
        if wanted := _wanted(step):
            policy = self._policy(step.find)
            there = [_holds(policy, one) for one in wanted]
            return _shared(BINDING_KIND, step.ensure) if all(there) else None
        found = self._api.find(step.find)
        return _shared(KIND, found["email"]) if found else None

    def create(self, step: Step) -> None:
        """Switches on, makes, or adds to a policy; what is there stays."""
        wanted = _wanted(step)
        began = monotonic_seconds()
        if not wanted:
            with suppress(TakenError):
                self._api.send(step.method, step.path, step.body, what=step.ensure)
            return
        while True:
            try:
                self._add(step, wanted)
            except LaunchError as error:
                # The account is too new to be known there, or somebody changes the policy just now.
                passes = isinstance(error, TakenError) or "does not exist" in str(error)
                if not passes or monotonic_seconds() - began > self._known_seconds:
                    raise
            else:
                return
            time.sleep(self._poll_seconds)

    def things(self, run: str | None) -> tuple[Thing, ...]:
        """Lists the service accounts that cloudgan made."""
        if run is not None:
            return ()
        url = f"{IAM}/projects/{self._project}/serviceAccounts"
        ours = {account_email(name, self._project) for name in ACCOUNTS}
        pages = self._api.pages(url, pageSize="100")
        found = [one["email"] for page in pages for one in page.get("accounts", ())]
        return tuple(_shared(KIND, email) for email in found if email in ours)

    def delete(self, thing: Thing) -> None:
        """Deletes a service account, after what the project allows it: else that stays for ever."""
        if thing.kind != KIND:
            return
        self._take_away(f"serviceAccount:{thing.name}")
        try:
            self._api.send("DELETE", self._account(thing), what=f"service account {thing.name}")
        except AbsentError:
            return

    def look(self, thing: Thing) -> Thing | None:
        """Returns a service account as it is now."""
        return thing if thing.kind == KIND and self._api.find(self._account(thing)) else None

    def _account(self, thing: Thing) -> str:
        return f"{IAM}/projects/{self._project}/serviceAccounts/{thing.name}"

    def _find_apis(self, step: Step) -> Thing | None:
        assert step.find is not None  # noqa: S101
        body: Any = step.body
        states = api_states(self._api, self._project, body["serviceIds"])
        return _shared(API_KIND, step.ensure) if all(states.values()) else None

    def _policy(self, url: str) -> dict[str, Any]:
        method = "GET" if url.endswith("/iam") else "POST"
        return self._api.send(method, url)

    def _add(self, step: Step, wanted: list[dict[str, Any]]) -> None:
        assert step.find is not None  # noqa: S101
        policy = self._policy(step.find)
        lacking = [one for one in wanted if not _holds(policy, one)]
        self._set(step.path, policy | {"bindings": [*policy.get("bindings", ()), *lacking]})

    def _take_away(self, member: str) -> None:
        resource = f"{PROJECTS}/projects/{self._project}"
        policy = self._policy(f"{resource}:getIamPolicy")
        bindings = [
            one | {"members": [who for who in one.get("members", ()) if who != member]}
            for one in policy.get("bindings", ())
        ]
        kept = [one for one in bindings if one["members"]]
        if kept != policy.get("bindings", []):
            self._set(f"{resource}:setIamPolicy", policy | {"bindings": kept})

    def _set(self, url: str, policy: dict[str, Any]) -> None:
        is_bucket = url.endswith("/iam")
        self._api.send(
            "PUT" if is_bucket else "POST", url, policy if is_bucket else {"policy": policy}
        )


def api_states(api: GoogleApi, project: str, names: list[str] | tuple[str, ...]) -> dict[str, bool]:
    """Returns which APIs are on in a project."""
    url = f"https://serviceusage.googleapis.com/v1/projects/{project}/services:batchGet"
    paths = [f"projects/{project}/services/{name}" for name in names]
    found = api.send("GET", url, query={"names": paths})  # type: ignore[dict-item]
    states = {one["name"].rpartition("/")[2]: one.get("state") for one in found["services"]}
    return {name: states.get(name) == "ENABLED" for name in names}


def _wanted(step: Step) -> list[dict[str, Any]]:
    """The bindings that a step adds; none where it is no policy's."""
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


def _shared(kind: str, name: str) -> Thing:
    return Thing(kind, name, "ready", _LABELS, rank=_RANK, is_free=True)
