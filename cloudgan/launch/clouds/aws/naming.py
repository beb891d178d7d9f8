"""Names of cloudgan's resources in an account, and placeholders in plans."""

from __future__ import annotations

from typing import Final

NAMESPACE: Final = "cloudgan"
SERVICE_ACCOUNT: Final = "cloudgan"
PREFIX: Final = "cloudgan-"
"""Prefix of the resources that `setup` creates."""

CLUSTER_ROLE: Final = f"{PREFIX}cluster"
NODE_ROLE: Final = f"{PREFIX}nodes"
POD_ROLE: Final = f"{PREFIX}pods"
END_ROLE: Final = f"{PREFIX}end"
ROLES: Final = (CLUSTER_ROLE, NODE_ROLE, POD_ROLE, END_ROLE)
BOUNDARY: Final = f"{PREFIX}boundary"
"""Customer managed policy that limits all roles of `setup` but that of the control plane."""
NODE_TYPE: Final = f"{PREFIX}node-type"
"""Tag of node groups whose launch template has the instance type."""

ACCOUNT, ZONE, VERSION = "<account>", "<zone>", "<version>"
SUBNET, SECOND_SUBNET = "<subnet>", "<second_subnet>"
GROUP_OF_POOL: Final = "<autoscaling group of the node group>"
"""Stays in a plan: EKS names the group when it creates it."""

LONGEST_POOL: Final = 63
"""https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html (read 2026-11-21)."""


def role_arn(account: str, role: str) -> str:
    """Returns the ARN of a role that `setup` creates."""
    return f"arn:aws:iam::{account}:role/{role}"


def policy_arn(account: str, policy: str) -> str:
    """Returns the ARN of a policy of this account, or of AWS for the account ``aws``."""
    return f"arn:aws:iam::{account}:policy/{policy}"


def bucket_name(account: str, region: str) -> str:
    """Returns the name of the account's cloudgan bucket in a region."""
    return f"{PREFIX}{account}-{region}"


def endpoint(service: str, region: str) -> str:
    """Returns the path of a step: service and region of its request."""
    return f"{service}/{region}"
