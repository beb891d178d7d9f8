"""IAM roles that `setup` creates, and the policy documents of roles and bucket."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from cloudgan.launch.clouds.aws.naming import CLUSTER_ROLE, NODE_ROLE, POD_ROLE, PREFIX
from cloudgan.launch.clouds.aws.resource_handler import (
    ROLE_RANK,
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
POD_POLICY: Final = f"{PREFIX}store"

# https://docs.aws.amazon.com/eks/latest/userguide/cluster-iam-role.html,
# https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html and
# https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html (read 2026-11-21).
_TRUSTED: Final = {
    CLUSTER_ROLE: "eks.amazonaws.com",
    NODE_ROLE: "ec2.amazonaws.com",
    POD_ROLE: "pods.eks.amazonaws.com",
}
MANAGED: Final = {
    CLUSTER_ROLE: ("AmazonEKSClusterPolicy",),
    NODE_ROLE: (
        "AmazonEKSWorkerNodePolicy",
        "AmazonEKS_CNI_Policy",
        "AmazonEC2ContainerRegistryPullOnly",
    ),
    POD_ROLE: (),
}
"""AWS managed policies of each role."""


def trust(role: str) -> str:
    """Returns the trust policy of a role."""
    actions = ["sts:AssumeRole", *(["sts:TagSession"] if role == POD_ROLE else [])]
    return policy_document(
        {
            "Effect": "Allow",
            "Principal": {"Service": _TRUSTED[role]},
            "Action": actions,
        }
    )


def managed_arn(policy: str) -> str:
    """Returns the ARN of an AWS managed policy."""
    return f"arn:aws:iam::aws:policy/{policy}"


def pod_policy(account: str) -> str:
    """Returns the policy of pods: read and write the account's cloudgan buckets."""
    buckets = f"arn:aws:s3:::{PREFIX}{account}-*"
    objects = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]
    return policy_document(
        {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": buckets},
        {"Effect": "Allow", "Action": objects, "Resource": f"{buckets}/*"},
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
        """Returns the role, if it has the policy of the step."""
        found = self.refresh(str(step.find))
        return found if found and (step.method == "CreateRole" or self._has(step)) else None

    def create(self, step: Step) -> None:
        """Creates a role, or attaches a policy."""
        send(self._account, step)

    def refresh(self, name: str) -> Resource | None:
        """Returns the current state of a role."""
        answer = self._request("GetRole", name)
        if answer is None:
            return None
        return Resource(
            kind=self.kind,
            name=name,
            state="ready",
            labels=tags_of(answer["Role"].get("Tags")),
            deletion_order=ROLE_RANK,
            created_at=answer["Role"]["CreateDate"].isoformat(),
            is_free=True,
        )

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
        wanted = json.loads(body["PolicyDocument"])
        return found is not None and found["PolicyDocument"] == wanted

    def _attached(self, role: str) -> list[str]:
        found = self._request("ListAttachedRolePolicies", role) or {}
        return [one["PolicyArn"] for one in found.get("AttachedPolicies", ())]

    def _request(self, operation: str, role: str, **others: Any) -> dict[str, Any] | None:
        body = {"RoleName": role} | others
        return request_if_exists(self._account, "iam", _REGION, operation, **body)
