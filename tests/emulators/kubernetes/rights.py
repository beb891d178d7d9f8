"""Bearer tokens and their permissions."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from emulators.kubernetes.status_errors import Refusal, forbidden

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from emulators.kubernetes.resources import Resource
    from emulators.kubernetes.store import Store


class Identity(NamedTuple):
    user: str
    rules: tuple[dict[str, Any], ...] | None
    """Roles, cluster roles or bare rules; None: everything is allowed."""
    ends: float | None
    """When the token expires, on the monotonic clock."""


class Question(NamedTuple):
    """A requested action."""

    verb: str
    group: str
    plural: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class Rights:
    """Checks tokens that it issued, and the roles and role bindings in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, Identity] = {}
        self.authenticator: Callable[[str], str | None] = lambda _: None
        self.cloud_rules: tuple[dict[str, Any], ...] | None = None
        """What the users of a cloud may do; None: everything."""
        """Returns the user of a cloud's token, as a webhook of a real cluster does."""

    def token(
        self,
        rules: Sequence[dict[str, Any]] | None,
        seconds: float | None,
        user: str | None,
    ) -> str:
        """Makes a token; `user` without rules has what the role bindings in the store give."""
        token = f"token-{secrets.token_urlsafe(24)}"
        name = user or ("admin" if rules is None else f"user-{len(self._known)}")
        if user and rules is None:
            rules = ()
        ends = time.monotonic() + seconds if seconds is not None else None
        self._known[token] = Identity(name, None if rules is None else tuple(rules), ends)
        return token

    def who(self, header: str | None) -> Identity:
        """Returns who sends a request with this `Authorization` header; refuses unknown tokens."""
        kind, _, token = (header or "").partition(" ")
        identity = self._known.get(token) if kind == "Bearer" else None
        if identity is None and kind == "Bearer" and (user := self.authenticator(token)):
            identity = Identity(user, self.cloud_rules, None)
        if identity is None or (identity.ends is not None and time.monotonic() > identity.ends):
            raise Refusal(401, "Unauthorized")
        return identity

    def allows(self, who: Identity, question: Question) -> bool:
        if who.rules is None:
            return True
        return any(
            _rule_allows(rule, question)
            for namespace, rule in self.rules_of(who)
            if namespace in {"", question.namespace}
        )

    def rules_of(self, who: Identity) -> list[tuple[str, dict[str, Any]]]:
        """Returns the rules of a user, each with its namespace; empty: all namespaces."""
        found = []
        for role in who.rules or ():
            namespace = (role.get("metadata") or {}).get("namespace", "")
            if role.get("kind") == "ClusterRole":
                namespace = ""
            rules = role.get("rules", [role])
            found += [(namespace or rule.get("namespace", ""), rule) for rule in rules]
        for binding in self._store.select("rolebindings"):
            if any(_is(subject, who.user) for subject in binding.get("subjects") or []):
                namespace = binding["metadata"]["namespace"]
                role = self._store.find("roles", namespace, binding["roleRef"]["name"])
                found += [(namespace, rule) for rule in (role or {}).get("rules") or []]
        return found

    def require(self, who: Identity, question: Question, resource: Resource) -> None:
        """Raises Kubernetes' error for a missing permission."""
        if self.allows(who, question):
            return
        named = question.plural + (f"/{question.subresource}" if question.subresource else "")
        where = f'in the namespace "{question.namespace}"'
        where = where if question.namespace else "at the cluster scope"
        raise forbidden(
            resource,
            question.name,
            f'User "{who.user}" cannot {question.verb} resource "{named}" in API group '
            f'"{question.group}" {where}',
        )


def _is(subject: dict[str, Any], user: str) -> bool:
    if subject["kind"] == "ServiceAccount":
        return user == f"system:serviceaccount:{subject.get('namespace', '')}:{subject['name']}"
    return subject["kind"] == "User" and subject["name"] == user


def _rule_allows(rule: dict[str, Any], question: Question) -> bool:
    plural = question.plural
    wanted = {f"{plural}/{question.subresource}", f"*/{question.subresource}", "*"}
    if not question.subresource:
        wanted = {plural, "*"}
    names = rule.get("resourceNames")
    return (
        bool({question.verb, "*"} & set(rule["verbs"]))
        and bool({question.group, "*"} & set(rule.get("apiGroups") or ()))
        and bool(wanted & set(rule.get("resources") or ()))
        and (not names or question.name in names)
    )


def answer_review(
    rights: Rights, who: Identity, plural: str, body: dict[str, Any]
) -> dict[str, Any]:
    """Answers a SelfSubjectAccessReview or a SelfSubjectRulesReview."""
    spec = body.get("spec") or {}
    if plural == "selfsubjectrulesreviews":
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        rules = [
            rule
            for namespace, rule in rights.rules_of(who)
            if namespace in {"", spec.get("namespace", "")}
        ]
        outcome = [everything] if who.rules is None else rules
        status = {"resourceRules": outcome, "nonResourceRules": [], "incomplete": False}
        return {**body, "metadata": {}, "status": status}
    asked = spec.get("resourceAttributes") or {}
    fields = ("verb", "group", "resource", "subresource", "namespace", "name")
    allowed = rights.allows(who, Question(*(asked.get(field, "") for field in fields)))
    status = {"allowed": allowed}
    if not allowed:
        status["reason"] = "no RBAC policy matched"
    return {**body, "metadata": {}, "status": status}
