"""The machines of all clouds: one row of machines.csv each; what can be rented and what a cloud retired.

Sources, read 2026-11-21 where nothing else is said. GCP: GPUs per machine and capacity types of xpk
(AI-Hypercomputer/xpk, src/xpk/core/system_characteristics.py; its docs say "A3 Mega only" of the newest on
demand, 2026-11-22); disk types, and which a3-highgpu are on demand: from memory. TPU slices:
https://docs.cloud.google.com/tpu/docs (pages v2 to v6e, runtimes, types-zones, whose version with TPU7x lists
no v2 or v3), with the image of a generation's single VMs on slices of several, as JAX takes it. TPU nodes of
GKE: machine types, labels and topologies of xpk (as above; a page, "About TPUs in GKE" of 2026-04-08, confirms
2x4 of two ct5lp-hightpu-4t), vCPUs and memory of the same generation's VMs, disk types: from memory; the quota
of v5e: `gcloud compute regions describe` as quoted in public notes, those of v5p and v6e are in no such list
(TPUS-PER-TPU-FAMILY-per-project-region), read 2026-11-30. AWS:
https://aws.amazon.com/ec2/instance-types/ (accelerated computing), supported by the image of
https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html; quotas:
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-quotas.html and .../using-spot-limits.html.
Azure: its price list; families of skypilot-org/skypilot, sky/catalog/data_fetchers/fetch_azure.py, compared
case-insensitively; ND H200 v5: https://learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated/
nd-h200-v5-series and public quota tables of 2026 (2026-11-22); quotas of system nodes: from memory. vCPUs and
memory of priced machines: the price lists (money/lists/nodes.csv). Compute capability: from memory of NVIDIA's
list, https://developer.nvidia.com/cuda-gpus. Replacements: Microsoft's migration pages name NC A100 v4 for
V100 and T4 for P100, AWS newer G and P instances. NC24rs_v3: Microsoft's list of retired sizes
(retired-sizes-list.md of https://github.com/MicrosoftDocs/azure-compute-docs, read 2026-11-25) has the date of
the other NCv3, its guide to NC24rs_v3 and the notice of AKS, written after the day, the earlier one. P3: AWS
asked its users to leave by 2025-12-20; from the day in the table on its API is known not to list them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib import resources
from operator import attrgetter
from typing import Annotated, Literal

from pydantic import Field

from cloudgan.core.clouds import CLOUDS
from cloudgan.core.document import Document
from cloudgan.core.errors import ConfigError, PlanError, shorten
from cloudgan.core.table import read_keyed

TABLE = resources.files("cloudgan.core") / "machines.csv"
_BLACKWELL = 10.0
_REQUEST = re.compile(r"[^:]+(:[1-9][0-9]{0,4})?", re.DOTALL)

Known = Annotated[float, Field(gt=0, allow_inf_nan=False)] | None


class Machine(Document):
    """A row of machines.csv."""

    provider: str = Field(min_length=1)
    node_type: str = Field(
        min_length=1, description="as in prices; GPUs attached to N1: HOST+NxGPU"
    )
    accelerator: str = Field(min_length=1, description="as in prices, or none")
    accelerators: int = Field(ge=0, description="GPUs, or chips of the whole slice")
    accelerator_memory_gib: Known = Field(description="of one; None: unknown")
    compute_capability: Known = Field(description="of NVIDIA GPUs")
    vcpu: int | None = Field(gt=0, description="None: unknown")
    memory_gib: Known = Field(description="None: unknown")
    architecture: Literal["x86_64", "arm64"] = Field(description="of its processors")
    hosts: int = Field(ge=1, description="virtual machines of a TPU slice")
    disk: str = Field(description="type of the boot disk, where the cloud has several")
    sold: Literal["any", "spot"] = Field(description="spot: on demand only by reservation or queue")
    network: str = Field(description="network of the GPUs' own, which node pools of cloudgan lack")
    image: str = Field(description="system image: of EKS nodes, or of TPU VMs")
    cloud_accelerator: str = Field(description="the accelerator's name in the cloud's API")
    quota: str = Field(description="GCP: metric; AWS: code, on demand; Azure: family of vCPUs")
    spot_quota: str = Field(description="of AWS; empty: sources disagree")
    quota_family: str = Field(description="GCP's newer quota of GPUs per family")
    role: Literal["accelerated", "system"] = Field(description="system: of a cluster's own pods")
    retired: str = Field(description="day from which no region has it, ISO 8601")
    replacement: str = Field(description="the nearest on sale: ACCELERATOR:COUNT, or a TPU slice")
    refused: str = Field(description="why cloudgan refuses it, though the cloud may sell it")
    source: str = Field(description="of the day of retirement")
    topologies: str = Field(description="of slices of TPU nodes in GKE, by chips, spaces between")

    @property
    def image_problem(self) -> str:
        """Why TensorFlow's wheels do not run on it; empty if they do."""
        if self.architecture == "arm64":
            return (
                "its processors are Arm, for which TensorFlow has no wheels with GPUs; pass --image=REF of a"
                " build for Arm and Blackwell GPUs, or --accelerator=h200:8"
            )
        if (self.compute_capability or 0) >= _BLACKWELL:
            return (
                "TensorFlow's wheels do not support Blackwell GPUs; pass --image=REF of a build that does, or"
                " --accelerator=h200:8"
            )
        return ""

    @property
    def retirement(self) -> str:
        """Message for a request of a retired machine."""
        return (
            f"{CLOUDS[self.provider].title} discontinued {self.node_type} ({self.accelerators} x"
            f" {self.accelerator}): since {self.retired} no region has it. Use"
            f" --accelerator={self.replacement}"
        )


@functools.cache
def table() -> Mapping[tuple[str, str], Machine]:
    """Reads the machines by cloud and node type, in the order of the file."""
    return read_keyed(TABLE, Machine, attrgetter("provider", "node_type"))


@functools.cache
def sold(provider: str, role: str = "accelerated") -> Mapping[str, Machine]:
    """Returns the machines of a cloud that can be rented, by node type, in the order of preference."""
    return {
        one.node_type: one
        for one in table().values()
        if one.provider == provider and one.role == role and not (one.retired or one.refused)
    }


def find(provider: str | None, node_type: str) -> Machine | None:
    """Returns a machine of a cloud, or of any, by its name in any case; None: it is in no row."""
    for one in table().values():
        if one.node_type.casefold() == node_type.casefold() and provider in (None, one.provider):
            return one
    return None


def retired(provider: str | None, node_type: str) -> Machine | None:
    """Returns a retired machine, of any cloud if `provider` is None; None: it is sold or unknown."""
    one = find(provider, node_type)
    return one if one and one.retired else None


def refuse_retired(provider: str | None, node_type: str) -> None:
    """Refuses a machine that the cloud retired."""
    if gone := retired(provider, node_type):
        raise PlanError(gone.retirement)


def check_accelerator(text: str) -> None:
    """Refuses what is no accelerator or node type, alone or with a count."""
    if not _REQUEST.fullmatch(text):
        raise ConfigError(
            f"--accelerator={shorten(text)} must be NAME or NAME:COUNT, such as v100 or v100:8"
        )


def refuse_missing_accelerator(provider: str | None, accelerator: str, count: int | None) -> None:
    """Refuses an accelerator, or a family, for which no offer of a cloud was found, if the cloud retired it."""
    name = accelerator.casefold()
    gone = [
        one
        for one in table().values()
        if one.retired
        and one.provider == provider
        and f"{one.accelerator.casefold()}-".startswith(f"{name}-")
    ]
    if gone:
        raise PlanError(
            next((one for one in gone if one.accelerators == count), gone[0]).retirement
        )


def facts(provider: object, node_type: object) -> dict[str, object]:
    """Returns what a price row says of its machine; empty for one that is in no row."""
    one = table().get((str(provider), str(node_type)))
    if one is None:
        return {}
    return {
        "accelerator": one.accelerator,
        "accelerator_count": one.accelerators,
        "accelerator_memory_gib": one.accelerator_memory_gib,
        "vcpu": one.vcpu,
        "memory_gib": one.memory_gib,
    }
