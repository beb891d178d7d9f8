"""IAM policies by their format version, as project, service accounts and buckets read and write them.

A policy with a conditional binding must be read and written with version 3, also to remove another binding
(iam.v1, `Policy.version` and `GetPolicyOptions`, discovery document, revision 20261023). Read with an older
version it shows such roles with the suffix ``_withcond_`` and a hash, and no condition
(https://cloud.google.com/iam/docs/troubleshooting-withcond, as in
https://github.com/hashicorp/terraform-provider-google/issues/11127), or is refused, as buckets are and
projects were: https://github.com/hashicorp/terraform-provider-google/issues/5218 (both read 2026-11-25).
"""

from __future__ import annotations

import hashlib
from typing import Any

from emulators.gcp.refusal import Refusal

Object = dict[str, Any]
LATEST = 3


def shown(policy: Object, version: int, *, refuses: bool = False) -> Object:
    """Returns a policy in the format of a version.

    Raises:
        Refusal: A service that `refuses` was asked for a version without conditions.
    """
    if not _has_conditions(policy):
        return policy | {"version": 1}
    if version >= LATEST:
        return policy | {"version": LATEST}
    if refuses:
        raise Refusal(
            400,
            f"Requested policy version ({version}) cannot be less than the existing policy version (3)."
            " For more information, please refer to https://cloud.google.com/iam/docs/policies#versions.",
        )
    return policy | {"version": 1, "bindings": [_old(one) for one in policy["bindings"]]}


def replaced(stored: Object, policy: Object) -> Object:
    """Returns the policy that replaces another.

    Raises:
        Refusal: It was changed meanwhile, or one of them needs version 3. The words of the latter are made up.
    """
    if policy.get("etag") != stored["etag"]:
        raise Refusal(409, "There were concurrent policy changes.", "ABORTED")
    if any("_withcond_" in one["role"] for one in policy.get("bindings", ())):
        raise Refusal(400, "Role names with _withcond_ are not supported for this resource.")
    conditional = _has_conditions(stored) or _has_conditions(policy)
    if conditional and policy.get("version", 1) < LATEST:
        raise Refusal(400, "A policy with conditional role bindings must specify version 3.")
    return policy | {"etag": stored["etag"] + "A"}


def _has_conditions(policy: Object) -> bool:
    return any(one.get("condition") for one in policy.get("bindings", ()))


def _old(binding: Object) -> Object:
    if not binding.get("condition"):
        return binding
    digest = hashlib.sha1(str(binding["condition"]).encode(), usedforsecurity=False).hexdigest()
    return {"role": f"{binding['role']}_withcond_{digest[:20]}", "members": binding["members"]}
