"""Requests for what exists before a run: the bucket, and all that `cloudgan setup` creates."""

from __future__ import annotations

from typing import Any

from cloudgan.core.labels import SHARED
from cloudgan.launch.clouds.gcp.addresses import (
    IAM,
    NODES_ACCOUNT,
    PROJECT,
    PROJECTS,
    SERVICES,
    STORAGE,
    TPU_ACCOUNT,
    TRAINER_ACCOUNT,
    account_email,
    bucket_name,
)
from cloudgan.launch.clouds.planner import desired_state_step
from cloudgan.schema.plan import Plan, Step, Target

APIS = (
    "cloudresourcemanager.googleapis.com",
    "compute.googleapis.com",
    "container.googleapis.com",
    "iam.googleapis.com",
    "storage.googleapis.com",
    "tpu.googleapis.com",
)
"""APIs that runs use."""
NODE_ROLES = ("roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader")
"""Roles of nodes: write metrics and logs, pull the project's images."""
TPU_ROLES = ("roles/tpu.admin", "roles/artifactregistry.reader")
"""Roles of TPU VMs: delete themselves, pull the project's images. Google has no smaller role for the
first, and documents no permissions of queued resources for a custom role."""
STORE_ROLE = "roles/storage.objectUser"
IDENTITY_ROLE = "roles/iam.workloadIdentityUser"
POD_ACCOUNT = "cloudgan/cloudgan"
"""Namespace and name of the Kubernetes service account of all pods."""


def store_url(target: Target) -> str:
    """Returns the URL of the project's bucket in a target's region."""
    return f"gs://{bucket_name(target.account or PROJECT, target.region or '')}"


def prerequisite_steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the steps for the bucket, unless the plan has another store, and the desired state."""
    is_own = plan.store == store_url(plan.target)
    return (*((bucket_step(plan.target),) if is_own else ()), desired_state_step(plan))


def bucket_step(target: Target) -> Step:
    """Returns the step for the bucket: public access prevention, in the nodes' region."""
    project, region = target.account or PROJECT, target.region or ""
    name = bucket_name(project, region)
    return Step(
        ensure=f"bucket {name}",
        method="POST",
        path=f"{STORAGE}/b?project={project}",
        find=f"{STORAGE}/b/{name}",
        at="cloud",
        body={
            "name": name,
            "location": region.upper(),
            "storageClass": "STANDARD",
            "labels": {SHARED: "bucket"},
            "iamConfiguration": {
                "uniformBucketLevelAccess": {"enabled": True},
                "publicAccessPrevention": "enforced",
            },
            # Soft delete would bill each replaced checkpoint for seven more days.
            "softDeletePolicy": {"retentionDurationSeconds": "0"},
        },
    )


def setup_steps(target: Target) -> tuple[Step, ...]:
    """Returns the steps of `cloudgan setup`; all are idempotent.

    A binding step adds its members to the existing policy and removes none.
    """
    project, region = target.account or PROJECT, target.region or ""
    nodes = account_email(NODES_ACCOUNT, project)
    trainer, tpu = (account_email(name, project) for name in (TRAINER_ACCOUNT, TPU_ACCOUNT))
    bucket = f"{STORAGE}/b/{bucket_name(project, region)}"
    return (
        _apis(project),
        _account(project, NODES_ACCOUNT, "nodes of cloudgan runs"),
        _account(project, TRAINER_ACCOUNT, "training pods of cloudgan runs"),
        _account(project, TPU_ACCOUNT, "TPU VMs of cloudgan runs"),
        bucket_step(target),
        *(
            _binding(f"{PROJECTS}/projects/{project}", role, f"serviceAccount:{email}")
            for email, roles in ((nodes, NODE_ROLES), (tpu, TPU_ROLES))
            for role in roles
        ),
        _binding(bucket, STORE_ROLE, f"serviceAccount:{trainer}"),
        _binding(bucket, STORE_ROLE, f"serviceAccount:{tpu}"),
    )


def pod_identity_step(target: Target) -> Step:
    """Returns the step that lets pods act as the trainer's service account.

    It follows the cluster: GKE creates the project's identity pool with the first cluster that has
    workload identity, and IAM refuses members of a pool that does not exist
    (https://github.com/terraform-google-modules/terraform-google-kubernetes-engine/issues/916 and
    https://github.com/jenkins-x/jx/issues/7627, read 2026-11-22).
    """
    project = target.account or PROJECT
    trainer = account_email(TRAINER_ACCOUNT, project)
    pods = f"serviceAccount:{project}.svc.id.goog[{POD_ACCOUNT}]"
    return _binding(f"{IAM}/projects/{project}/serviceAccounts/{trainer}", IDENTITY_ROLE, pods)


def _apis(project: str) -> Step:
    parent = f"{SERVICES}/projects/{project}/services"
    return Step(
        ensure=f"APIs {', '.join(name.partition('.')[0] for name in APIS)}",
        method="POST",
        path=f"{parent}:batchEnable",
        find=f"{parent}:batchGet",
        at="cloud",
        body={"serviceIds": list(APIS)},
    )


def _account(project: str, name: str, description: str) -> Step:
    path = f"{IAM}/projects/{project}/serviceAccounts"
    account = {"displayName": name, "description": description}
    return Step(
        ensure=f"service account {name}",
        method="POST",
        path=path,
        find=f"{path}/{account_email(name, project)}",
        at="cloud",
        body={"accountId": name, "serviceAccount": account},
    )


def _binding(resource: str, role: str, member: str) -> Step:
    binding: dict[str, Any] = {"role": role, "members": [member]}
    is_bucket = resource.startswith(STORAGE)
    name = resource.rpartition("/")[2]
    account = member.partition(":")[2].partition("@")[0]
    return Step(
        ensure=f"{role} on {name} for {account}",
        method="PUT" if is_bucket else "POST",
        path=f"{resource}/iam" if is_bucket else f"{resource}:setIamPolicy",
        find=f"{resource}/iam" if is_bucket else f"{resource}:getIamPolicy",
        at="cloud",
        body={"bindings": [binding]} if is_bucket else {"policy": {"bindings": [binding]}},
    )
