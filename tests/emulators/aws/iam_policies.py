"""Evaluation of IAM policies: whether documents allow a request, with conditions and a boundary.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html,
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
and .../reference_policies_condition-single-vs-multi-valued-context-keys.html (read 2026-11-22): an
explicit deny wins, else one statement must allow; all operators and keys of a condition must match,
and one value of each key; a key that the request lacks matches negated operators, `Null`, `IfExists`
and `ForAllValues` only. An operator that is not written here is an error, never a match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

Document = dict[str, Any]
Values = tuple[str, ...]


@dataclass(frozen=True)
class Authorization:
    """What a policy must allow for a request: an action on a resource.

    Attributes:
        action: Such as ``eks:DeleteCluster``.
        resource: ARN; ``*`` for actions without resource types.
        context: Condition keys in lower case with their values; keys of tags keep their case.
    """

    action: str
    resource: str
    context: Mapping[str, Values] = field(default_factory=dict)


def is_allowed(
    documents: Iterable[Document], asked: Authorization, boundary: Document | None = None
) -> bool:
    """Returns whether documents, and the permissions boundary if there is one, allow a request."""
    documents = list(documents)
    if any(matches(one, asked) for one in _statements(documents, "Deny")):
        return False
    allowed = any(matches(one, asked) for one in _statements(documents, "Allow"))
    return allowed and (boundary is None or is_allowed([boundary], asked))


def matches(statement: Document, asked: Authorization) -> bool:
    """Returns whether a statement is about a request."""
    assert not {"NotAction", "NotResource", "Principal"} & set(statement), "not written here"
    action = any(_like(one.lower(), asked.action.lower()) for one in _all(statement["Action"]))
    resource = any(
        _like(_filled(one, asked), asked.resource) for one in _all(statement["Resource"])
    )
    return action and resource and _fulfils(statement.get("Condition", {}), asked)


def _statements(documents: list[Document], effect: str) -> list[Document]:
    found = [one for document in documents for one in _all(document["Statement"])]
    return [one for one in found if one["Effect"] == effect]


def _fulfils(condition: Document, asked: Authorization) -> bool:
    return all(
        _holds(operator, _context(asked, key), [_filled(str(one), asked) for one in _all(values)])
        for operator, keys in condition.items()
        for key, values in keys.items()
    )


def _holds(operator: str, found: Values | None, wanted: list[str]) -> bool:
    if operator == "Null":
        return wanted == [str(found is None).lower()]
    several, _, name = operator.rpartition(":")
    assert several in ("", "ForAllValues"), operator
    assert name in ("StringEquals", "StringLike", "ArnEquals", "ArnLike", "Bool"), operator
    if found is None:
        return bool(several)
    assert several or len(found) == 1, f"{operator} needs ForAllValues for several values"
    literal = name in ("StringEquals", "Bool")
    return all(
        any(value == one if literal else _like(one, value) for one in wanted) for value in found
    )


def _context(asked: Authorization, key: str) -> Values | None:
    """Looks a key up; names of keys are case-insensitive, those of tags are compared as they are."""
    service, _, tag = key.partition("/")
    return asked.context.get(f"{service.lower()}/{tag}" if tag else key.lower())


def _filled(text: str, asked: Authorization) -> str:
    """Replaces policy variables; one without a value matches nothing."""

    def value(found: re.Match[str]) -> str:
        known = asked.context.get(found[1].lower())
        return known[0] if known else "\0"

    return re.sub(r"\$\{([^}]+)\}", value, text)


def _all(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _like(pattern: str, text: str) -> bool:
    return _compiled(pattern).fullmatch(text) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    escaped = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.compile(escaped, re.DOTALL)
