"""The roles that `setup` makes, and what the bucket lets happen: documents of IAM, as values."""

from __future__ import annotations

import json
from typing import Any, Final

from cloudgan.providers.aws.naming import CLUSTER_ROLE, NODE_ROLE, POD_ROLE, PREFIX

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
"""Amazon's own policies of each role."""


def trust(role: str) -> str:
    """Returns who may take a role."""
    actions = ["sts:AssumeRole", *(["sts:TagSession"] if role == POD_ROLE else [])]
    return _document(
        {
            "Effect": "Allow",
            "Principal": {"Service": _TRUSTED[role]},
            "Action": actions,
        }
    )


def managed_arn(policy: str) -> str:
    """Returns the full name of one of Amazon's policies."""
    return f"arn:aws:iam::aws:policy/{policy}"


def pod_rights(account: str) -> str:
    """Returns what the pods of runs may do: read and write the account's own buckets."""
    buckets = f"arn:aws:s3:::{PREFIX}{account}-*"
    objects = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]
    return _document(
        {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": buckets},
        {"Effect": "Allow", "Action": objects, "Resource": f"{buckets}/*"},
    )


def only_by_tls(bucket: str) -> str:
    """Returns the bucket's policy: whoever asks without TLS is refused."""
    arn = f"arn:aws:s3:::{bucket}"
    return _document(
        {
            "Sid": "OnlyByTls",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:*",
            "Resource": [arn, f"{arn}/*"],
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
    )


def _document(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": _VERSION, "Statement": list(statements)})
