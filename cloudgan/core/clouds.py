"""The clouds: one row each; a new cloud is one row and one package.

The row names what must not be imported before a command needs it as `"package.module:Name"`; `load`
imports it and reports a missing SDK.
"""

from __future__ import annotations

import datetime as dt
import importlib
import math
import re
from dataclasses import dataclass
from typing import Any

from cloudgan.core.errors import ConfigError, UnknownNameError, install_command


@dataclass(frozen=True)
class BillingRule:
    """How a cloud rounds the time of a node.

    Attributes:
        unit_seconds: A node is billed in whole units of this length.
        minimum_seconds: Least billed time of a node.
        source: Page and date.
        since: The rule holds for nodes started at or after this time; None: always.
        free_if_taken_seconds: A spot node that the cloud takes within this time costs nothing.
    """

    unit_seconds: float
    minimum_seconds: float
    source: str
    since: dt.datetime | None = None
    free_if_taken_seconds: float = 0.0

    def billed_seconds(self, up_seconds: float) -> float:
        """Returns the billed time of a node that ran for `up_seconds`.

        Raises:
            ValueError: The time is negative.
        """
        if up_seconds < 0:
            raise ValueError(f"a node cannot be up for {up_seconds} s")
        units = math.ceil(round(up_seconds / self.unit_seconds, 9))
        return max(self.minimum_seconds, units * self.unit_seconds)


@dataclass(frozen=True)
class Cloud:
    """What the program knows of a cloud without its SDK.

    Attributes:
        title: Name in tables.
        extra: Of `pip install '.[EXTRA]'`.
        packages: Top-level import names that only this extra installs.
        account_flag: Flag that names the account.
        home_region: Region for requests whose answer is the same in every region.
        zone_suffix: Regular expression of what a zone adds to its region: ``a`` in us-east-1a.
        bucket_scheme: Scheme of a bucket's URL.
        bucket_example: A bucket's URL.
        metadata_url: Metadata service of a virtual machine.
        pod_endpoints: Addresses and ports that pods need for identity and preemption notices.
        billing: Billing rules of nodes, the latest last.
        has_system_node: Whether a cluster that cloudgan creates has a node besides those of runs.
        cluster_access: How an administrator grants a user the right to run jobs in a cluster.
        planner: Module with the functions of `launch.clouds.planner.CloudPlanner`. It suffices for
            plans; the fields below are needed for launches.
        store: Class of the bucket's store.
        client: Class of the `launch.clouds.client.CloudClient`.
        metadata_service: How it announces the end of a node, for `worker.preemption.MetadataService`.
        price_feeds: Function that returns the price feeds of `money.refresh`.
    """

    title: str
    extra: str
    packages: tuple[str, ...]
    account_flag: str
    home_region: str
    zone_suffix: str
    bucket_scheme: str
    bucket_example: str
    metadata_url: str
    pod_endpoints: tuple[tuple[str, int], ...]
    billing: tuple[BillingRule, ...]
    planner: str
    has_system_node: bool = True
    cluster_access: str = ""
    store: str = ""
    client: str = ""
    metadata_service: str = ""
    price_feeds: str = ""


CLUSTER = "cloudgan"
"""Default cluster of every cloud: created by cloudgan, with NetworkPolicy enforced."""
NAMESPACE = SERVICE_ACCOUNT = "cloudgan"
"""Where the pods of all runs are, unless another namespace is asked for, and what they act as."""
_INSTANCE_METADATA = ("169.254.169.254", 80)

# Sources of `pod_endpoints`, read 2026-11-21. GKE: https://cloud.google.com/kubernetes-engine/docs/how-to/network-policy
# and .../how-to/workload-identity: 169.254.169.254:80 with Dataplane V2, else 169.254.169.252:988 after
# the node's address translation. EKS: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html
# (Pod Identity agent, 169.254.170.23:80). AKS: https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service
CLOUDS: dict[str, Cloud] = {
    "aws": Cloud(
        title="AWS",
        extra="aws",
        packages=("boto3", "botocore"),
        account_flag="profile",
        home_region="us-east-1",
        zone_suffix=r"(?<=[0-9])[a-z]$",
        bucket_scheme="s3",
        bucket_example="s3://BUCKET/prefix",
        metadata_url="http://169.254.169.254",
        pod_endpoints=(_INSTANCE_METADATA, ("169.254.170.23", 80)),
        billing=(
            BillingRule(
                1,
                60,
                "https://aws.amazon.com/about-aws/whats-new/2017/10/"
                "announcing-amazon-ec2-per-second-billing/ (2017-10-02), Linux;"
                " https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/"
                "billing-for-interrupted-spot-instances.html (read 2026-11-22): no charge for a spot"
                " instance that EC2 interrupts in its first hour",
                free_if_taken_seconds=3600,
            ),
        ),
        store="cloudgan.storage.s3:S3Store",
        planner="cloudgan.launch.clouds.aws.planner",
        has_system_node=False,
        cluster_access="aws eks create-access-entry, then aws eks associate-access-policy with"
        " AmazonEKSClusterAdminPolicy",
        client="cloudgan.launch.clouds.aws.client:AwsClient",
        metadata_service="cloudgan.worker.preemption:AWS",
        price_feeds="cloudgan.money.refresh.aws:price_feeds",
    ),
    "azure": Cloud(
        title="Azure",
        extra="azure",
        packages=("azure",),
        account_flag="subscription",
        home_region="eastus",
        zone_suffix=r"-[0-9]$",
        bucket_scheme="https",
        bucket_example="https://ACCOUNT.blob.core.windows.net/CONTAINER/prefix",
        metadata_url="http://169.254.169.254",
        pod_endpoints=(_INSTANCE_METADATA,),
        billing=(
            BillingRule(
                1,
                60,
                "https://learn.microsoft.com/en-us/answers/questions/2259765 (2025-04-21): by the"
                " second, one minute at least as the question cites Azure's documentation",
            ),
            BillingRule(
                1,
                300,
                "https://learn.microsoft.com/en-us/answers/questions/2259765 (2025-04-21): by the"
                " second, five minutes at least from 2025-06-01; stated by a user, not by Azure's pages",
                dt.datetime(2025, 6, 1, tzinfo=dt.UTC),
            ),
        ),
        store="cloudgan.storage.azure:AzureStore",
        planner="cloudgan.launch.clouds.azure.planner",
        cluster_access="az role assignment create --role 'cloudgan launcher'",
        client="cloudgan.launch.clouds.azure.client:AzureClient",
        metadata_service="cloudgan.worker.preemption:AZURE",
        price_feeds="cloudgan.money.refresh.azure:price_feeds",
    ),
    "gcp": Cloud(
        title="GCP",
        extra="gcp",
        packages=("google",),
        account_flag="project",
        home_region="us-central1",
        zone_suffix=r"-[a-z]$",
        bucket_scheme="gs",
        bucket_example="gs://BUCKET/prefix",
        metadata_url="http://metadata.google.internal",
        pod_endpoints=(_INSTANCE_METADATA, ("169.254.169.252", 988)),
        billing=(
            BillingRule(
                1,
                60,
                "https://cloud.google.com/compute/vm-instance-pricing (billing model, read"
                " 2026-11-22): by the second, one minute at least",
            ),
        ),
        store="cloudgan.storage.gcs:GcsStore",
        planner="cloudgan.launch.clouds.gcp.planner",
        cluster_access="the role of deploy/gcp/resources.yaml on the condition in"
        " resources-condition.yaml",
        client="cloudgan.launch.clouds.gcp.client:GcpClient",
        metadata_service="cloudgan.worker.preemption:GOOGLE",
        price_feeds="cloudgan.money.refresh.gcp:price_feeds",
    ),
}


def providers() -> tuple[str, ...]:
    """Returns where a run can be: on a cloud, a cluster, this machine or Slurm."""
    return (*CLOUDS, "kubernetes", "local", "slurm")


def names() -> dict[str, str]:
    """Returns the names as the words of a flag, which need no explanation."""
    return dict.fromkeys(CLOUDS, "")


def title_of(provider: str) -> str:
    """Returns the name of a cloud for a person, such as ``Azure``; other providers as they are."""
    return CLOUDS[provider].title if provider in CLOUDS else provider


def find(name: str) -> Cloud:
    """Returns the row of a cloud."""
    if name not in CLOUDS:
        raise UnknownNameError("cloud", name, CLOUDS)
    return CLOUDS[name]


def choices() -> str:
    """Returns the names as a sentence needs them: "aws, azure or gcp"."""
    *first, last = CLOUDS
    return f"{', '.join(first)} or {last}"


def of_bucket(url: str) -> str | None:
    """Returns the cloud of a bucket's URL; None: the URL names no cloud's bucket."""
    scheme, separator, _ = url.partition("://")
    found = (name for name, cloud in CLOUDS.items() if separator and cloud.bucket_scheme == scheme)
    return next(found, None)


def has_system_node(name: str) -> bool:
    """Returns whether clusters of a cloud have a node besides those of runs; unknown clouds: yes."""
    return name not in CLOUDS or CLOUDS[name].has_system_node


def region_of(name: str, zone: str) -> str:
    """Returns the region of a zone; a region is returned unchanged."""
    return re.sub(find(name).zone_suffix, "", zone)


def check_launchable(name: str) -> None:
    """Checks that a cloud supports launches and not only plans."""
    _check_reference(name, find(name).client)


def _check_reference(name: str, reference: str) -> None:
    if not reference:
        raise ConfigError(
            f"{find(name).title} supports `cloudgan plan` only: its row in core/clouds.py lacks what"
            " this command needs"
        )


def load(name: str, reference: str) -> Any:
    """Imports what the row of a cloud refers to: ``package.module`` or ``package.module:Name``."""
    _check_reference(name, reference)
    module, _, attribute = reference.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{find(name).title} needs its SDK, which is not installed ({error}); run"
            f" {install_command(find(name).extra)}"
        ) from error
    return getattr(found, attribute) if attribute else found
