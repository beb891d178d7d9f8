"""The roles that `setup` makes, once per account."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.thing import Thing
from cloudgan.providers.aws.kind import ROLE_RANK, ask_if_there, send, tags_of

if TYPE_CHECKING:
    from cloudgan.core.plan import Step
    from cloudgan.providers.aws.account import Account

_REGION: Final = "us-east-1"  # IAM is in none; its requests are signed for this one


class IamRoles:
    """Roles with their policies."""

    kind = "IAM role"

    def __init__(self, account: Account) -> None:
        self._account = account

    def find(self, step: Step) -> Thing | None:
        """Returns the role, where it has the policy that the step wants."""
        found = self.look(str(step.find))
        return found if found and (step.method == "CreateRole" or self._has(step)) else None

    def create(self, step: Step) -> None:
        """Makes a role, or gives it a policy."""
        send(self._account, step)

    def look(self, name: str) -> Thing | None:
        """Returns a role as it is now."""
        answer = self._ask("GetRole", name)
        if answer is None:
            return None
        return Thing(
            kind=self.kind,
            name=name,
            state="ready",
            labels=tags_of(answer["Role"].get("Tags")),
            rank=ROLE_RANK,
            made=answer["Role"]["CreateDate"].isoformat(),
            is_free=True,
        )

    def delete(self, name: str) -> None:
        """Takes a role's policies away, then deletes it."""
        for policy in self._attached(name):
            self._ask("DetachRolePolicy", name, PolicyArn=policy)
        for policy in (self._ask("ListRolePolicies", name) or {}).get("PolicyNames", ()):
            self._ask("DeleteRolePolicy", name, PolicyName=policy)
        self._ask("DeleteRole", name)

    def _has(self, step: Step) -> bool:
        body: Any = step.body
        role = body["RoleName"]
        if step.method == "AttachRolePolicy":
            return body["PolicyArn"] in self._attached(role)
        there = self._ask("GetRolePolicy", role, PolicyName=body["PolicyName"])
        wanted = json.loads(body["PolicyDocument"])
        return there is not None and there["PolicyDocument"] == wanted

    def _attached(self, role: str) -> list[str]:
        found = self._ask("ListAttachedRolePolicies", role) or {}
        return [one["PolicyArn"] for one in found.get("AttachedPolicies", ())]

    def _ask(self, operation: str, role: str, **others: Any) -> dict[str, Any] | None:
        asked = {"RoleName": role} | others
        return ask_if_there(self._account, "iam", _REGION, operation, **asked)
