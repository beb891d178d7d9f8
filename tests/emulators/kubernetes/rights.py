"""Bearer tokens, and what their roles allow."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from emulators.kubernetes.objects import Object, Refusal, Resource, forbidden


class Identity(NamedTuple):
    user: str
    rules: tuple[Object, ...] | None
    """Roles, cluster roles or bare rules; None: everything is allowed."""
    ends: float = float("inf")
    """When the token expires, on the monotonic clock."""


class Question(NamedTuple):
    """A requested action."""

    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str


class Rights:
    """Makes and checks tokens; a real cluster binds roles to users, here a token has its roles."""

    def __init__(self) -> None:
        self._known: dict[str, Identity] = {}
        self.authenticator: Callable[[str], str | None] = lambda _: None
        """Returns the user of a cloud's token, as a webhook of a real cluster does; may do everything."""

    def token(self, rules: Sequence[Object] | None, seconds: float) -> str:
        token = f"token-{secrets.token_urlsafe(24)}"
        name = "admin" if rules is None else f"user-{len(self._known)}"
        known = None if rules is None else tuple(rules)
        self._known[token] = Identity(name, known, time.monotonic() + seconds)
        return token

    def who(self, header: str | None) -> Identity:
        """Returns who sends a request with this `Authorization` header; refuses unknown tokens."""
        token = (header or "").removeprefix("Bearer ")
        found = self._known.get(token)
        if found is None and token and (user := self.authenticator(token)):
            found = Identity(user, None)
        if found is None or time.monotonic() > found.ends:
            raise Refusal(401, "Unauthorized")
        return found

    def allows(self, who: Identity, question: Question) -> bool:
        for role in who.rules or ():
            is_bound = role.get("kind") != "ClusterRole"
            place = role.get("metadata", {}).get("namespace", "") if is_bound else ""
            if place in {"", question.namespace} and any(
                _rule_allows(rule, question) for rule in role.get("rules", [role])
            ):
                return True
        return who.rules is None

    def require(self, who: Identity, question: Question, resource: Resource) -> None:
        """Raises Kubernetes' error for a missing permission."""
        if self.allows(who, question):
            return
        part = f"/{question.subresource}" if question.subresource else ""
        where = f'in the namespace "{question.namespace}"'
        why = (
            f'User "{who.user}" cannot {question.verb} resource "{question.resource}{part}" in API group '
            f'"{question.group}" {where if question.namespace else "at the cluster scope"}'
        )
        raise forbidden(resource, question.name, why)

    def review(self, who: Identity, body: Object) -> Object:
        """Answers a SelfSubjectAccessReview."""
        asked = body["spec"]["resourceAttributes"]
        allowed = self.allows(who, Question(*(asked.get(one, "") for one in Question._fields)))
        return {**body, "metadata": {}, "status": {"allowed": allowed}}


def _rule_allows(rule: Object, question: Question) -> bool:
    part = f"/{question.subresource}" if question.subresource else ""
    names = rule.get("resourceNames")
    return (
        bool({question.verb, "*"} & set(rule["verbs"]))
        and bool({question.group, "*"} & set(rule.get("apiGroups") or ()))
        and bool({f"{question.resource}{part}", "*"} & set(rule.get("resources") or ()))
        and (not names or question.name in names)
    )
