"""Names of cloudgan's resources in an account, and placeholders in plans."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "cloudgan-"
"""Prefix of the resources that `setup` creates."""

CLUSTER_ROLE: Final = f"{PREFIX}cluster"
NODE_ROLE: Final = f"{PREFIX}nodes"
POD_ROLE: Final = f"{PREFIX}pods"
END_ROLE: Final = f"{PREFIX}end"
ROLES: Final = (CLUSTER_ROLE, NODE_ROLE, POD_ROLE, END_ROLE)
BOUNDARY: Final = f"{PREFIX}boundary"
"""Customer managed policy that limits all roles of `setup` but that of the control plane."""
BOUNDARY_FILE: Final = "deploy/aws/boundary.json"
NODE_TYPE: Final = f"{PREFIX}node-type"
"""Tag of node groups whose launch template has the instance type."""
POD_AGENT: Final = "eks-pod-identity-agent"
NETWORK_PLUGIN: Final = "vpc-cni"
ENABLE_POLICIES: Final = {"enableNetworkPolicy": "true"}
"""Configuration value that makes the VPC CNI plugin enforce NetworkPolicy objects.

The schema demands a string. Needs version 1.14 of the add-on and Kubernetes 1.25
(https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy-configure.html, read 2026-11-22).
"""

ACCOUNT, ZONE, VERSION = "<account>", "<zone>", "<version>"
SUBNET, SECOND_SUBNET = "<subnet>", "<second_subnet>"
GROUP_OF_POOL: Final = "node_group.autoscaling_group"
"""Reference in a plan: EKS names the Auto Scaling group when it creates the node group."""

LONGEST_POOL: Final = 63
"""https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html (read 2026-11-21)."""
LONGEST_GROUP: Final = 64
"""Of a schedule group; includes `PREFIX`."""


def role_arn(account: str, role: str) -> str:
    """Returns the ARN of a role that `setup` creates."""
    return f"arn:aws:iam::{account}:role/{role}"


def bucket_name(account: str, region: str) -> str:
    """Returns the name of the account's cloudgan bucket in a region."""
    return f"{PREFIX}{account}-{region}"
