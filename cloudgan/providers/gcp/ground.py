"""What every run in Google Cloud stands on: the region's bucket, and the intent in its store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.core.labels import SHARED
from cloudgan.core.plan import Step
from cloudgan.providers.gcp.addresses import STORAGE, bucket_name
from cloudgan.providers.intent_step import intent_step

if TYPE_CHECKING:
    from cloudgan.core.plan import Place, Plan

PROJECT, ZONE, CLUSTER_LOCATION = "<project>", "<zone>", "<cluster-location>"
LOCATION = "cluster location"
"""Zone or region of the cluster, in a place's details: one of the user's need not be in its zone."""


def store(place: Place) -> str:
    """Returns the URL of the project's own bucket in a place's region."""
    return f"gs://{bucket_name(place.account or PROJECT, place.region or '')}"


def ground_steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the bucket, unless the store is somebody's own, and the intent."""
    is_own = plan.store == store(plan.place)
    return (*((bucket_step(plan.place),) if is_own else ()), intent_step(plan))


def bucket_step(place: Place) -> Step:
    """Returns the bucket: private whatever its objects say, and in the nodes' region."""
    project, region = place.account or PROJECT, place.region or ""
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
            # Else each checkpoint that was replaced is paid for seven days more.
            "softDeletePolicy": {"retentionDurationSeconds": "0"},
        },
    )
