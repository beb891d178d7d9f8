"""IAM roles that `setup` creates, their permissions boundary, and the policy documents of roles and bucket.

A role gets what both its policies and its permissions boundary allow, so a user of
deploy/aws/setup-policy.json, which allows to create roles only with this boundary, cannot create one
with more rights (https://docs.aws.amazon.com/IAM/latest/UserGuide/access_policies_boundaries.html,
read 2026-11-22).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from cloudgan.core import assets
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import ConfigError
from cloudgan.core.labels import RUN, SHARED
from cloudgan.launch.clouds.aws.naming import (
    BOUNDARY,
    CLUSTER_ROLE,
    END_ROLE,
    NODE_ROLE,
    POD_ROLE,
    PREFIX,
    policy_arn,
)
from cloudgan.launch.clouds.aws.resource_handler import (
    BOUNDARY_RANK,
    ROLE_RANK,
    PlannedHandler,
    request_if_exists,
    send,
    tags_of,
)
from cloudgan.schema.resource import Resource

if TYPE_CHECKING:
    from cloudgan.launch.clouds.aws.account import Account
    from cloudgan.schema.plan import Step

_REGION: Final = "us-east-1"  # IAM is global; its requests are signed for this region
_VERSION: Final = "2012-10-17"
_BOUNDARY_FILE: Final = "deploy/aws/boundary.json"

# https://docs.aws.amazon.com/eks/latest/userguide/cluster-iam-role.html,
# https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html and
# https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html (read 2026-11-21).
_TRUSTED: Final = {
    CLUSTER_ROLE: "eks.amazonaws.com",
    NODE_ROLE: "ec2.amazonaws.com",
    POD_ROLE: "pods.eks.amazonaws.com",
    END_ROLE: "scheduler.amazonaws.com",
}
MANAGED: Final = {
    CLUSTER_ROLE: ("AmazonEKSClusterPolicy",),
    NODE_ROLE: (
        "AmazonEKSWorkerNodePolicy",
        "AmazonEKS_CNI_Policy",
        "AmazonEC2ContainerRegistryPullOnly",
    ),
}
"""AWS managed policies of each role."""


def trust(account: str, role: str) -> str:
    """Returns the trust policy of a role; schedules of other accounts cannot use the role of schedules."""
    actions = ["sts:AssumeRole", *(["sts:TagSession"] if role == POD_ROLE else [])]
    own = {"Condition": {"StringEquals": {"aws:SourceAccount": account}}}
    return policy_document(
        {
            "Effect": "Allow",
            "Principal": {"Service": _TRUSTED[role]},
            "Action": actions,
        }
        | (own if role == END_ROLE else {})
    )


def managed_arn(policy: str) -> str:
    """Returns the ARN of an AWS managed policy."""
    return policy_arn("aws", policy)


def boundary_arn(account: str, role: str) -> str:
    """Returns the ARN of a role's permissions boundary.

    The control plane needs all of its managed policy, which AWS extends, and nothing else: the
    policy is the boundary too.
    """
    if role == CLUSTER_ROLE:
        return managed_arn(*MANAGED[role])
    return policy_arn(account, BOUNDARY)


def boundary_policy() -> str:
    """Returns the document of the boundary of all other roles."""
    return json.dumps(parse_json(assets.read_text(_BOUNDARY_FILE), _BOUNDARY_FILE))


def inline_policy(account: str, role: str) -> tuple[str, str] | None:
    """Returns name and document of a role's own policy; None: it has managed policies only."""
    if role == POD_ROLE:
        return f"{PREFIX}store", _pod_policy(account)
    if role == END_ROLE:
        return END_ROLE, _end_policy(account)
    return None


def _pod_policy(account: str) -> str:
    """Returns the policy of pods: read and write the account's cloudgan buckets.

    A taken pod cannot write what launchers act on.
    """
    buckets = f"arn:aws:s3:::{PREFIX}{account}-*"
    writes = ["s3:PutObject", "s3:DeleteObject"]
    acted_on = ("wheels/*", "runs/*/desired-state/*", "runs/*/plan.json")
    return policy_document(
        {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": buckets},
        {"Effect": "Allow", "Action": ["s3:GetObject", *writes], "Resource": f"{buckets}/*"},
        {"Effect": "Deny", "Action": writes, "Resource": [f"{buckets}/{one}" for one in acted_on]},
    )


def _end_policy(account: str) -> str:
    """Returns the policy of schedules: delete node groups of runs, and clusters of cloudgan."""
    root = f"arn:aws:eks:*:{account}"
    return policy_document(
        {
            "Effect": "Allow",
            "Action": "eks:DeleteNodegroup",
            "Resource": [f"{root}:nodegroup/cloudgan/*", f"{root}:nodegroup/{PREFIX}*/*"],
            "Condition": {"Null": {f"aws:ResourceTag/{RUN}": "false"}},
        },
        {
            "Effect": "Allow",
            "Action": "eks:DeleteCluster",
            "Resource": [f"{root}:cluster/cloudgan", f"{root}:cluster/{PREFIX}*"],
            "Condition": {"StringEquals": {f"aws:ResourceTag/{SHARED}": "cluster"}},
        },
    )


def tls_only_policy(bucket: str) -> str:
    """Returns the bucket policy that denies requests without TLS."""
    arn = f"arn:aws:s3:::{bucket}"
    return policy_document(
        {
            "Sid": "OnlyByTls",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:*",
            "Resource": [arn, f"{arn}/*"],
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
    )


def policy_document(*statements: dict[str, Any]) -> str:
    """Returns an IAM policy document."""
    return json.dumps({"Version": _VERSION, "Statement": list(statements)})


class IamRoles:
    """Handler of roles and their policies."""

    kind = "IAM role"

    def __init__(self, account: Account) -> None:
        self._account = account

    def find(self, step: Step) -> Resource | None:
        """Returns the role, if it has the policy of the step.

        Raises:
            ConfigError: It exists with another permissions boundary.
        """
        name = str(step.find)
        answer = self._request("GetRole", name)
        if answer is None:
            return None
        if step.method == "CreateRole":
            _check_boundary(answer["Role"], step)
            return _role(name, answer["Role"])
        return _role(name, answer["Role"]) if self._has(step) else None

    def create(self, step: Step) -> None:
        """Creates a role, or attaches a policy."""
        send(self._account, step)

    def refresh(self, name: str) -> Resource | None:
        """Returns the current state of a role."""
        answer = self._request("GetRole", name)
        return _role(name, answer["Role"]) if answer else None

    def delete(self, name: str) -> None:
        """Detaches a role's policies, then deletes it."""
        for policy in self._attached(name):
            self._request("DetachRolePolicy", name, PolicyArn=policy)
        for policy in (self._request("ListRolePolicies", name) or {}).get("PolicyNames", ()):
            self._request("DeleteRolePolicy", name, PolicyName=policy)
        self._request("DeleteRole", name)

    def _has(self, step: Step) -> bool:
        body: Any = step.body
        role = body["RoleName"]
        if step.method == "AttachRolePolicy":
            return body["PolicyArn"] in self._attached(role)
        found = self._request("GetRolePolicy", role, PolicyName=body["PolicyName"])
        wanted = parse_json(body["PolicyDocument"], "role policy")
        return found is not None and found["PolicyDocument"] == wanted

    def _attached(self, role: str) -> list[str]:
        found = self._request("ListAttachedRolePolicies", role) or {}
        return [one["PolicyArn"] for one in found.get("AttachedPolicies", ())]

    def _request(self, operation: str, role: str, **others: Any) -> dict[str, Any] | None:
        body = {"RoleName": role} | others
        return request_if_exists(self._account, "iam", _REGION, operation, **body)


def _role(name: str, found: dict[str, Any]) -> Resource:
    return Resource(
        kind=IamRoles.kind,
        name=name,
        state="ready",
        labels=tags_of(found.get("Tags")),
        deletion_order=ROLE_RANK,
        created_at=found["CreateDate"].isoformat(),
        is_free=True,
    )


def _check_boundary(found: dict[str, Any], step: Step) -> None:
    body: Any = step.body
    there = (found.get("PermissionsBoundary") or {}).get("PermissionsBoundaryArn", "none")
    if there != body["PermissionsBoundary"]:
        raise ConfigError(
            f"IAM role {found['RoleName']} has the permissions boundary {there}, not"
            f" {body['PermissionsBoundary']}; delete the roles by `cloudgan setup --provider=aws"
            " --teardown`, then run `cloudgan setup --provider=aws` again"
        )


class Boundaries(PlannedHandler):
    """Handler of the permissions boundary; a resource's name is the ARN of the policy."""

    kind = "IAM policy"

    def find(self, step: Step) -> Resource | None:
        """Returns the boundary.

        Raises:
            ConfigError: Its content is another one.
        """
        arn, body = str(step.find), step.body
        found = self._request("GetPolicy", arn)
        if found is None:
            return None
        version = self._request(
            "GetPolicyVersion", arn, VersionId=found["Policy"]["DefaultVersionId"]
        )
        document = version and version["PolicyVersion"]["Document"]
        assert isinstance(body, dict)  # noqa: S101  planner.py writes it
        if document != parse_json(str(body["PolicyDocument"]), _BOUNDARY_FILE):
            raise ConfigError(
                f"IAM policy {arn} differs from {_BOUNDARY_FILE}; an administrator makes this file"
                " its default version (console: IAM, Policies), then run `cloudgan setup"
                " --provider=aws` again"
            )
        return self.refresh(arn)

    def refresh(self, name: str) -> Resource | None:
        """Returns the current state of the boundary."""
        found = self._request("GetPolicy", name)
        if found is None:
            return None
        return Resource(
            kind=self.kind,
            name=name,
            state="ready",
            labels=tags_of(found["Policy"].get("Tags")),
            deletion_order=BOUNDARY_RANK,
            created_at=found["Policy"]["CreateDate"].isoformat(),
            is_free=True,
        )

    def delete(self, name: str) -> None:
        """Deletes the boundary; IAM refuses while a role has it."""
        self._request("DeletePolicy", name)

    def _request(self, operation: str, arn: str, **others: Any) -> dict[str, Any] | None:
        body = {"PolicyArn": arn} | others
        return request_if_exists(self._account, "iam", _REGION, operation, **body)
