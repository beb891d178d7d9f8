"""URLs of Google's APIs, names of cloudgan's resources, and placeholders in plans."""

from __future__ import annotations

CONTAINER = "https://container.googleapis.com/v1"
COMPUTE = "https://compute.googleapis.com/compute/v1"
STORAGE = "https://storage.googleapis.com/storage/v1"
IAM = "https://iam.googleapis.com/v1"
PROJECTS = "https://cloudresourcemanager.googleapis.com/v3"
SERVICES = "https://serviceusage.googleapis.com/v1"
TPU = "https://tpu.googleapis.com/v2"

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
"""Of logins, nodes and TPU VMs: their roles say what they may do."""

PROJECT, ZONE, CLUSTER_LOCATION = "<project>", "<zone>", "<cluster-location>"

RELEASE_CHANNEL, NO_CHANNEL = "<release-channel>", "none"
CHANNEL = "release channel"
"""Key of a target's details: that of an existing cluster; the default cluster has REGULAR."""

NODES_ACCOUNT, TRAINER_ACCOUNT = "cloudgan-nodes", "cloudgan-trainer"
"""Service accounts of the nodes and of the training pods."""
TPU_ACCOUNT = "cloudgan-tpu"
"""Service account of TPU VMs, which train and delete themselves."""
ACCOUNTS = (NODES_ACCOUNT, TRAINER_ACCOUNT, TPU_ACCOUNT)


def account_email(name: str, project: str) -> str:
    """Returns the e-mail address of a service account."""
    return f"{name}@{project}.iam.gserviceaccount.com"


def clusters(project: str, location: str) -> str:
    """Returns the URL of the clusters in a zone or region; ``-`` stands for all."""
    return f"{CONTAINER}/projects/{project}/locations/{location}/clusters"


def bucket_name(project: str, region: str) -> str:
    """Returns the name of the project's cloudgan bucket in a region."""
    return f"cloudgan-{project}-{region}"
