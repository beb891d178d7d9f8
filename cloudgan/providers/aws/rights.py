"""Whether a login may do what deploy/aws/policy.json lists: IAM says so without anything being done."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from cloudgan import assets
from cloudgan.core.errors import CloudganError
from cloudgan.core.thing import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.providers.aws.account import Account

POLICY: Final = "deploy/aws/policy.json"
_SUBJECT: Final = "AWS rights"
_REGION: Final = "us-east-1"


def statements() -> list[dict[str, Any]]:
    """Returns the statements of the policy that a launcher needs."""
    found: list[dict[str, Any]] = json.loads(assets.read_text(POLICY))["Statement"]
    return found


def check_rights(account: Account, who: str) -> Finding:
    """Asks IAM for each right.

    Args:
        account: That is asked.
        who: The login, as STS names it.
    """
    if who.endswith(":root"):
        return Finding(_SUBJECT, "ok", "the root login of the account may do everything")
    try:
        missing = sorted(set(_missing(account, _principal(who))))
    except CloudganError as error:
        return Finding(
            _SUBJECT, "unknown", f"IAM does not tell ({error}); {POLICY} lists those needed"
        )
    if missing:
        return Finding(
            _SUBJECT,
            "missing",
            f"{who} may not: {', '.join(missing)}; whoever administers the account grants it with"
            f" {POLICY}",
        )
    return Finding(_SUBJECT, "ok", f"{who} has all of {POLICY}")


def _missing(account: Account, principal: str) -> Iterator[str]:
    for statement in statements():
        resources = statement["Resource"]
        listed = [resources] if isinstance(resources, str) else resources
        asked = {
            "PolicySourceArn": principal,
            "ActionNames": statement["Action"],
            "ResourceArns": [_example(one, principal) for one in listed],
            "ContextEntries": list(_context(statement)),
        }
        answer = account.ask("iam", _REGION, "SimulatePrincipalPolicy", asked)
        for one in answer["EvaluationResults"]:
            if one["EvalDecision"] != "allowed":
                yield one["EvalActionName"]


def _context(statement: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What a request would carry that the statement is for."""
    for key, value in statement.get("Condition", {}).get("StringEquals", {}).items():
        yield {
            "ContextKeyName": key,
            "ContextKeyValues": [value],
            "ContextKeyType": "string",
        }


def _principal(who: str) -> str:
    """The role behind a session: ``arn:aws:sts::1:assumed-role/R/S`` is that of ``role/R``."""
    parts = who.split(":")
    kind, _, rest = parts[5].partition("/")
    if kind != "assumed-role":
        return who
    return f"arn:aws:iam::{parts[4]}:role/{rest.partition('/')[0]}"


def _example(resource: str, principal: str) -> str:
    """A thing such as a pattern means."""
    if resource == "*":
        return resource
    account = principal.split(":")[4]
    return resource.replace(":*:", f":{account}:").replace("*", "x")
