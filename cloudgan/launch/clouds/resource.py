"""Resources of a cloud and findings of preflight checks: values that every cloud client returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Self

from cloudgan.core.labels import RUN, SHARED
from cloudgan.schema.price_row import Market

ResourceState = Literal["creating", "ready", "deleting", "failed"]
ResourceCause = Literal["", "capacity", "quota"]


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource in a cloud, as its API reports it.

    Attributes:
        kind: Name of the resource type, such as ``GKE node pool``.
        name: Full, unique name for deletion; the part after the last slash is shown in plans.
        state: Life-cycle state; failed is final.
        region: Region, or zone of a zonal resource.
        reason: Message of the cloud about a failure or a delay.
        cause: Category of `reason`.
        deletion_order: Lower values are deleted first, such as a node pool before its cluster.
        created_at: Creation time, ISO 8601; None: unknown.
        nodes: Current number of nodes; 0 for other resources.
        fee: Name in the fee list, such as ``GKE standard``; None: no fee.
        parent: Name of the containing resource, such as the cluster of a node pool.
        is_free: Whether it is free of charge, such as a subnet.
        may_be_foreign: Whether runs use one that another user created, such as a cluster.
        ends_run: Whether it ends nodes without a launcher, and is deleted after them.
    """

    kind: str
    name: str
    state: ResourceState
    labels: Mapping[str, str] = field(default_factory=dict)
    region: str = ""
    reason: str = ""
    cause: ResourceCause = ""
    deletion_order: int = 0
    created_at: str | None = None
    node_type: str | None = None
    nodes: int = 0
    market: Market | None = None
    fee: str | None = None
    parent: str = ""
    is_free: bool = False
    may_be_foreign: bool = False
    ends_run: bool = False

    @property
    def run(self) -> str | None:
        """The run that owns it; None: no run."""
        return self.labels.get(RUN)

    @property
    def shared(self) -> str | None:
        """The kind of a shared resource, such as ``cluster``; None: not shared."""
        return self.labels.get(SHARED)


def is_cluster(kind: str) -> bool:
    """Whether resources of a kind are Kubernetes clusters: it ends so in every cloud, as ``GKE cluster``."""
    return kind.rpartition(" ")[2] == "cluster"


class Listing(tuple[Resource, ...]):  # noqa: SLOT001  a tuple has none
    """Resources that a cloud listed, and what did not answer: nothing is known of those places.

    Attributes:
        silent: Regions, zones or services that did not answer, with the reason.
    """

    silent: tuple[str, ...]

    def __new__(cls, resources: Iterable[Resource] = (), silent: Iterable[str] = ()) -> Self:
        """Returns the resources as a tuple."""
        made = super().__new__(cls, resources)
        made.silent = tuple(dict.fromkeys(silent))
        return made


class Finding(NamedTuple):
    """A result of a preflight check.

    Attributes:
        subject: What was checked, such as ``quota NVIDIA_V100_GPUS in us-central1``.
        status: Result; unknown: it could not be determined.
        message: What was found and, unless ok, the command to run or the request to make.
        is_quota: Whether a quota is missing, of a login that may do everything else.
    """

    subject: str
    status: Literal["ok", "missing", "unknown"]
    message: str
    is_quota: bool = False
