"""Where Google's APIs are, and the addresses of what cloudgan makes there."""

from __future__ import annotations

CONTAINER = "https://container.googleapis.com/v1"
COMPUTE = "https://compute.googleapis.com/compute/v1"
STORAGE = "https://storage.googleapis.com/storage/v1"
IAM = "https://iam.googleapis.com/v1"
PROJECTS = "https://cloudresourcemanager.googleapis.com/v3"
SERVICES = "https://serviceusage.googleapis.com/v1"
TPU = "https://tpu.googleapis.com/v2"
BUILDS = "https://cloudbuild.googleapis.com/v1"
REGISTRY = "https://artifactregistry.googleapis.com/v1"

NODES_ACCOUNT, TRAINER_ACCOUNT = "cloudgan-nodes", "cloudgan-trainer"
"""Service accounts: of the machines, and of what trains on them."""
TPU_ACCOUNT = "cloudgan-tpu"
"""Of the machines of Cloud TPU, which train and delete themselves."""
ACCOUNTS = (NODES_ACCOUNT, TRAINER_ACCOUNT, TPU_ACCOUNT)


def account_email(name: str, project: str) -> str:
    """Returns the address of a service account."""
    return f"{name}@{project}.iam.gserviceaccount.com"


def clusters(project: str, location: str) -> str:
    """Returns where the clusters of a zone or region are; ``-`` is everywhere."""
    return f"{CONTAINER}/projects/{project}/locations/{location}/clusters"


def bucket_name(project: str, region: str) -> str:
    """Returns the name of a project's own bucket: the same in each run, and nobody else's."""
    return f"cloudgan-{project}-{region}"
