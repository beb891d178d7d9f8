"""What is made once in a project: its bucket, who machines and pods are, and what they may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.core.plan import Step
from cloudgan.providers.gcp.addresses import (
    IAM,
    NODES_ACCOUNT,
    PROJECTS,
    SERVICES,
    STORAGE,
    TPU_ACCOUNT,
    TRAINER_ACCOUNT,
    account_email,
    bucket_name,
)
from cloudgan.providers.gcp.ground import PROJECT, bucket_step

if TYPE_CHECKING:
    from cloudgan.core.plan import Place

APIS = (
    "cloudresourcemanager.googleapis.com",
    "compute.googleapis.com",
    "container.googleapis.com",
    "iam.googleapis.com",
    "storage.googleapis.com",
    "tpu.googleapis.com",
)
"""What runs need."""
IMAGE_APIS = ("artifactregistry.googleapis.com", "cloudbuild.googleapis.com")
"""What `cloudgan image` needs: whoever builds may not switch on anything, so `setup` does it."""
NODE_ROLES = ("roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader")
"""What machines need: to tell how they are, and to pull images of the project."""
TPU_ROLES = ("roles/tpu.admin", "roles/artifactregistry.reader")
"""What machines of Cloud TPU need: to delete themselves, and to pull images of the project. Google
has no smaller role for the first, and names no permissions of queued resources for one's own."""
STORE_ROLE = "roles/storage.objectUser"
IDENTITY_ROLE = "roles/iam.workloadIdentityUser"
POD_ACCOUNT = "cloudgan/cloudgan"
"""Namespace and name of the service account of all pods."""


def setup_steps(place: Place) -> tuple[Step, ...]:
    """Returns what `setup` ensures; each is safe to do again.

    A step that binds adds its members to the policy that is there, and takes nothing away.
    """
    project, region = place.account or PROJECT, place.region or ""
    nodes = account_email(NODES_ACCOUNT, project)
    trainer, tpu = (account_email(name, project) for name in (TRAINER_ACCOUNT, TPU_ACCOUNT))
    pods = f"serviceAccount:{project}.svc.id.goog[{POD_ACCOUNT}]"
    bucket = f"{STORAGE}/b/{bucket_name(project, region)}"
    return (
        _apis(project),
        _account(project, NODES_ACCOUNT, "machines of cloudgan's runs"),
        _account(project, TRAINER_ACCOUNT, "what trains in cloudgan's runs"),
        _account(project, TPU_ACCOUNT, "TPU machines of cloudgan's runs"),
        *(
            _binding(f"{PROJECTS}/projects/{project}", role, f"serviceAccount:{who}")
            for who, roles in ((nodes, NODE_ROLES), (tpu, TPU_ROLES))
            for role in roles
        ),
        _binding(f"{IAM}/projects/{project}/serviceAccounts/{trainer}", IDENTITY_ROLE, pods),
        bucket_step(place),
        _binding(bucket, STORE_ROLE, f"serviceAccount:{trainer}"),
        _binding(bucket, STORE_ROLE, f"serviceAccount:{tpu}"),
    )


def _apis(project: str) -> Step:
    parent = f"{SERVICES}/projects/{project}/services"
    return Step(
        ensure=f"APIs {', '.join(name.partition('.')[0] for name in (*APIS, *IMAGE_APIS))}",
        method="POST",
        path=f"{parent}:batchEnable",
        find=f"{parent}:batchGet",
        at="cloud",
        body={"serviceIds": [*APIS, *IMAGE_APIS]},
    )


def _account(project: str, name: str, what: str) -> Step:
    path = f"{IAM}/projects/{project}/serviceAccounts"
    return Step(
        ensure=f"service account {name}",
        method="POST",
        path=path,
        find=f"{path}/{account_email(name, project)}",
        at="cloud",
        body={"accountId": name, "serviceAccount": {"displayName": name, "description": what}},
    )


def _binding(resource: str, role: str, member: str) -> Step:
    binding: dict[str, Any] = {"role": role, "members": [member]}
    is_bucket = resource.startswith(STORAGE)
    what = resource.rpartition("/")[2]
    who = member.partition(":")[2].partition("@")[0]
    return Step(
        ensure=f"{role} on {what} for {who}",
        method="PUT" if is_bucket else "POST",
        path=f"{resource}/iam" if is_bucket else f"{resource}:setIamPolicy",
        find=f"{resource}/iam" if is_bucket else f"{resource}:getIamPolicy",
        at="cloud",
        body={"bindings": [binding]} if is_bucket else {"policy": {"bindings": [binding]}},
    )
