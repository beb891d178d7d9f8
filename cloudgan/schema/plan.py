"""The plan of a run: `plan.json`, a value that is complete before any resource exists.

A plan holds every request in the order of sending. Each is a step "ensure X": an existing resource of
the run is kept. A plan holds names of secrets, never their values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, Field, JsonValue, ValidationError

from cloudgan.core.clouds import CLOUDS, providers
from cloudgan.core.document import Document
from cloudgan.core.documents import read_json, write_json
from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.errors import ConfigError, show
from cloudgan.core.labels import LONGEST_NAME, NAME_PATTERN, Labels
from cloudgan.schema.candidate import Candidate, Seconds, Usd
from cloudgan.schema.config import RunConfig
from cloudgan.schema.item import Item
from cloudgan.schema.price_row import Market, PoolFee, PriceRow, Text

FILE_NAME = "plan.json"
GPU = "nvidia.com/gpu"
"""Extended resource of NVIDIA's device plugin in Kubernetes."""


def _known_provider(name: str) -> str:
    if name not in providers():
        raise ValueError(f"valid: {', '.join(providers())}")
    return name


ProviderName = Annotated[
    str, AfterValidator(_known_provider), Field(json_schema_extra={"enum": [*providers()]})
]
Count = Annotated[int, Field(ge=1)]
Size = Annotated[float, Field(gt=0, allow_inf_nan=False)]
RunName = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$", max_length=LONGEST_NAME)]
# Parts of the addresses of requests: a slash, a dot segment or a query would address another object.
_PART = r"[^/\\?#%\x00-\x20]*"
_NAMED = rf"{_PART}[^./\\?#%\x00-\x20]{_PART}"
PathPart = Annotated[str, Field(pattern=f"^{_NAMED}$")]
ClusterName = Annotated[str, Field(pattern=f"^({_NAMED}/)?{_NAMED}$")]
"""With its resource group in Azure: GROUP/NAME."""


_SLURM_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.,:@+=-]*$"


class SlurmOptions(Document):
    """What a Slurm cluster demands of jobs beside their partition."""

    account: str | None = Field(default=None, pattern=_SLURM_NAME, max_length=200)
    qos: str | None = Field(default=None, pattern=_SLURM_NAME, max_length=200)
    constraint: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_.,:@+=|&!*()\[\]-]+$",
        max_length=200,
        description="features of nodes, such as a100&infiniband",
    )
    reservation: str | None = Field(default=None, pattern=_SLURM_NAME, max_length=200)
    memory_per: Literal["node", "cpu", "none"] = "node"
    prologue: str = Field(
        default="",
        max_length=16384,
        pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$",
        description="shell lines that each node runs before its worker, such as module load cuda",
    )


NETWORK, SUBNET, INTERNAL_IPS = "network", "subnet", "internal addresses"
"""Details of a target, as requested by --network, --subnet and --internal-ips."""
LOCATION = "cluster location"
"""Detail of a target: zone or region of its cluster, which may differ from the zone of the nodes."""
ZONES = "<zones>"
"""Placeholder of the zones that offer the node type, in the order of the attempts."""


_FLAGS = {"account": "--project or --subscription"}


class Target(Document):
    """Where a run executes: account, region and cluster."""

    provider: ProviderName
    context: str | None = Field(default=None, description="of the kubeconfig")
    server: str | None = Field(default=None, description="address of the cluster's API")
    namespace: PathPart | None = None
    queue: str | None = Field(default=None, description="of Kueue, or a partition of Slurm")
    slurm: SlurmOptions | None = Field(default=None, description="None: nothing beside the queue")
    service_account: str | None = None
    account: PathPart | None = Field(
        default=None, description="project, account or subscription; <project>: not yet known"
    )
    profile: str | None = Field(default=None, description="profile of the AWS configuration files")
    details: dict[str, str] = Field(
        default={},
        description="further names in a cloud's steps, such as a subnet; <...>: not yet known",
    )
    region: PathPart | None = None
    zone: PathPart | Literal[""] | None = Field(
        default=None,
        description="zone of all workers; <zone>: not yet known; empty: the region has no zones",
    )
    cluster: ClusterName | None = Field(
        default=None, description="name of the cluster, existing or to be created"
    )

    @classmethod
    def of_flags(cls, **fields: Any) -> Target:
        """Returns a target of names that a user gave."""
        try:
            return cls(**fields)
        except ValidationError as error:
            found = error.errors(include_url=False)[0]
            key = str(found["loc"][0])
            raise ConfigError(
                f"{_FLAGS.get(key, f'--{key}')}={show(found['input'])}: expected a name without"
                " spaces and the characters / \\ ? # %; `cloudgan offers` lists the regions"
            ) from error

    @property
    def is_provisioned(self) -> bool:
        """Whether the nodes are provisioned for the run."""
        return self.provider in CLOUDS

    @property
    def zones(self) -> tuple[str, ...]:
        """Zones that are tried one after another; empty: not known, or one zone was requested."""
        return tuple(self.details.get("zones", "").split())

    def describe(self) -> str:
        """Returns a description, such as ``kubernetes (context lab, namespace cloudgan)``."""
        shown = self.model_dump(exclude={"provider", "server", "details", "slurm"})
        requested = (NETWORK, SUBNET, INTERNAL_IPS)
        shown |= {key: self.details[key] for key in requested if key in self.details}
        found = [f"{key.replace('_', ' ')} {value}" for key, value in shown.items() if value]
        return f"{self.provider} ({', '.join(found)})" if found else self.provider


class Toleration(Document):
    """A taint that the pods of the workers tolerate."""

    key: Text
    value: str | None = Field(default=None, description="None: any value")
    effect: Literal["NoSchedule", "NoExecute"] = "NoSchedule"


class ReusedNodes(Document):
    """Nodes that an earlier run kept for the next one."""

    run: RunName = Field(description="run that created the nodes, whose labels they have")
    previous: RunName = Field(description="run that kept them, which pays until `since`")
    since: AwareDatetime = Field(description="from then on they are billed to this run")


class NodePool(Document):
    """The nodes that are created for a run and deleted after it."""

    node_type: Text = Field(description="name in the price catalog, such as a2-highgpu-1g or v3-8")
    market: Market
    name: PathPart = Field(description="name of the node pool in the cloud")
    engine: Literal["cluster", "tpu_vm"] = Field(
        default="cluster", description="tpu_vm: Cloud TPU VMs, without Kubernetes"
    )
    flex_start: bool = Field(default=False, description="waits for capacity at a lower price")
    queued: bool = Field(default=False, description="all flex-start nodes start at once")
    reservation: str | None = Field(
        default=None, description="whose capacity the nodes use, as the cloud names it"
    )
    prepaid: bool = Field(
        default=False, description="whether the reservation was paid in advance, as Capacity Blocks"
    )
    keep_cluster: bool = False
    ends_cluster: bool = Field(default=False, description="the cloud does, once it is unused")
    keep_seconds: Seconds = Field(0.0, description="how long the nodes wait for the next run")
    served_runs: Count = Field(
        default=1, description="runs that the nodes may serve one after another, this one included"
    )
    reused: ReusedNodes | None = Field(default=None, description="None: the run creates its nodes")
    identity: dict[str, str] = Field(
        default={},
        description="annotations of the pods' service account for the cloud's workload identity",
    )
    runtime: str | None = Field(default=None, description="of a TPU VM")
    hosts: Count = Field(default=1, description="hosts of one node: a large TPU slice has several")
    replacement: str = Field(
        default="",
        description="nearest generally available node type; empty: this type is available",
    )
    fees: tuple[PoolFee, ...] = Field((), description="by the hour, beside the nodes")
    notes: tuple[str, ...] = Field((), description="for the user, such as a retired node type")


class Workers(Document):
    """The number of nodes and the resources of each worker. A pod's limits equal its requests."""

    nodes: Count
    accelerator: str | None = Field(default=None, description="as requested, such as V100")
    accelerators_per_node: int = Field(default=0, ge=0)
    cpus: Size
    memory_gib: Size
    node_selector: dict[str, str] = Field(default_factory=dict)
    image: str | None = Field(default=None, description="None: no container")
    env: dict[str, str | None] = Field({}, description="variables; None: not set by this user")
    secrets: tuple[Text, ...] = Field((), description="names of variables; a plan has no values")
    kubernetes_secrets: tuple[Text, ...] = Field(default=(), description="names only")
    pull_secret: str | None = Field(default=None, description="image pull secret of the registry")
    resource: Text = Field(default=GPU, description="extended resource in Kubernetes")
    tolerations: tuple[Toleration, ...] = ()
    pod_labels: dict[str, str] = Field(default_factory=dict)
    environment: dict[str, str] = Field({}, description="variables that the accelerators need")
    grace_seconds: int = Field(default=60, ge=1, description="from SIGTERM to SIGKILL")
    allow_open_ports: bool = Field(False, description="whether other users may reach the ports")

    @property
    def has_gpus(self) -> bool:
        """Whether its accelerators are GPUs, not TPUs."""
        return self.accelerators_per_node > 0 and self.resource == GPU

    @property
    def each(self) -> str:
        """Resources of a worker, such as ``1 x L4, 4 cores, 8 GiB``."""
        count, cores = self.accelerators_per_node, "core" if self.cpus == 1 else "cores"
        found = f"{self.cpus:g} {cores}, {self.memory_gib:g} GiB"
        return f"{count} x {self.accelerator or 'GPU'}, {found}" if count else found


class Limits(Document):
    """Limits that end the run on the server."""

    max_hours: Size
    budget_usd: Size | None = None
    max_usd_per_hour: Size | None = None
    gang_timeout_seconds: Size = 1200.0
    capacity_wait_seconds: Size | None = Field(
        None,
        description="until the first flex-start node, free of node charges; None: no such wait",
    )
    deadline_seconds: Count = Field(description="deadline of the job, from its start")
    deadline_reason: Text = Field(description="limit that determines the deadline")

    @property
    def ends_by_budget(self) -> bool:
        """Whether the budget determines the deadline: it ends the run before the time limit does."""
        return self.deadline_seconds < longest_seconds(self.max_hours)


def longest_seconds(max_hours: float) -> int:
    """Returns the deadline of a time limit alone, in seconds."""
    return max(1, math.floor(max_hours * HOUR_SECONDS))


class Wheel(Document):
    """A file that the pods install before training."""

    file_name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*\.whl$")]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    bytes: Count


NO_DATA = "none given: the paper's are assumed"  # source of the showers of a plan without data


class Showers(Document):
    """The training data, and their conversion and upload."""

    source: Text = Field(description="as requested")
    records: int | None = Field(default=None, ge=1)
    gib: float | None = Field(default=None, ge=0, description="size of the store; None: unknown")
    gib_is_exact: bool = False
    upload_to: str | None = Field(default=None, description="None: no upload")
    convert: bool = Field(
        default=False, description="whether the data must be converted to a store"
    )
    minutes: float | None = Field(default=None, ge=0, description="upload time at 100 Mbit/s")
    usd: Usd | None = Field(default=None, description="cost of the upload; None: unknown")

    @property
    def are_counted(self) -> bool:
        """Whether their number is known; else a forecast assumes the paper's, and refuses nothing."""
        return self.records is not None


class ForecastPart(Document):
    """A part of the cost of a job, in USD; None: unknown, with the reason in `why_unknown`."""

    item: Item
    low_usd: Usd | None = None
    usd: Usd | None = Field(default=None, description="at the slow edge of the band")
    why_unknown: str = ""


class JobCost(Document):
    """The cost of a whole job: training and all other items."""

    parts: tuple[ForecastPart, ...]
    known_low_usd: Usd = Field(description="sum of the known parts")
    known_usd: Usd = Field(description="sum of the known parts, at the slow edge")
    unknown: tuple[Text, ...] = Field(default=(), description="titles of the unknown parts")
    training_low_seconds: Seconds | None = Field(
        default=None, description="training that is paid for, preemptions included; None: unknown"
    )
    training_seconds: Seconds | None = Field(default=None, description="at the slow edge")
    startup_low_seconds: Seconds | None = Field(
        default=None, description="until the nodes are ready"
    )
    startup_seconds: Seconds | None = Field(default=None, description="at the slow edge")
    startup_basis: str = ""
    fees_usd_per_hour: Usd = Field(default=0.0, description="of cluster, disks and addresses")
    cluster_usd_per_hour: Usd = Field(default=0.0, description="those of an empty cluster")
    unpriced: tuple[Text, ...] = Field(
        default=(), description="hourly fees without a known price, which no budget counts"
    )
    once_usd: Usd = Field(default=0.0, description="known cost that does not depend on time")


class RejectedOffers(Document):
    """Offers that were rejected for one reason."""

    reason: Text
    count: Count
    examples: tuple[Text, ...] = Field(description="the first few")


class Selection(Document):
    """Why this offer was selected."""

    reason: Text
    market_reason: Text = Field(description="reason for spot or on demand")
    batch_reason: str = Field(
        default="", description="batch of each and of all replicas, and the evidence on learning"
    )
    alternatives: tuple[Candidate, ...] = Field(default=(), description="in order of rank")
    rejected_offers: tuple[RejectedOffers, ...] = ()
    markets: tuple[Candidate, ...] = Field(
        default=(), description="the best of each cloud and market; empty: not compared"
    )
    without: dict[str, str] = Field(default={}, description="clouds without any, and why")


class Forecast(Document):
    """Time and cost with a band; None: unknown, with the reason in `why_unknown`."""

    epochs: Count
    epoch_seconds: Seconds | None = None
    low_epoch_seconds: Seconds | None = None
    high_epoch_seconds: Seconds | None = None
    low_seconds: Seconds | None = Field(
        default=None, description="whole training, without preemptions"
    )
    high_seconds: Seconds | None = None
    low_usd: Usd | None = None
    high_usd: Usd | None = None
    grade: str | None = None
    basis: str | None = None
    why_unknown: str = ""


class Step(Document):
    """Ensure that a resource exists: find it, keep it if it belongs to the run, else send the request."""

    ensure: Text = Field(description="such as: Job gan in namespace cloudgan")
    method: Text = Field(
        description="HTTP method, PUT for a store, RUN for a program, PROBE or REVIEW for a test"
    )
    path: Text = Field(description="address of the request")
    at: Literal["cloud", "store", "cluster", "here"] = Field(
        default="cluster", description="recipient; steps up to the store are free of charge"
    )
    find: str | None = Field(default=None, description="address to find the resource with GET")
    kind: str | None = Field(default=None, description="of a cloud's resource: a row of its table")
    ref: dict[str, str] = Field(
        default={}, description="parts of the full name of a cloud's resource"
    )
    body: JsonValue = Field(
        default=None,
        description="{'$ref': NAME} is known after earlier steps only, {'$after_seconds': N} a time from then",
    )

    @property
    def operation(self) -> str:
        """The operation as in launch.json."""
        return f"{self.method} {self.path}"


class Plan(Document):
    """The plan of a run."""

    schema_version: Literal[1] = 1
    run: RunName
    owner: str
    expires: str
    spec_hash: Text = Field(description="hash of the specification; another hash is another run")
    created_at: Text = Field(description="day, ISO 8601")
    target: Target
    store: Text
    store_port: int = Field(default=443, ge=1, le=65535, description="port of the store")
    workers: Workers
    node_pool: NodePool | None = Field(default=None, description="None: existing nodes")
    limits: Limits
    showers: Showers
    wheels: tuple[Wheel, ...] = ()
    price: PriceRow | None = None
    forecast: Forecast
    cost: JobCost | None = Field(default=None, description="None: existing nodes")
    selection: Selection | None = Field(default=None, description="None: existing nodes")
    warnings: tuple[str, ...] = ()
    config: RunConfig
    steps: tuple[Step, ...] = ()

    @property
    def node_run(self) -> str:
        """The run whose label the nodes have: an earlier one if they are reused."""
        return self.node_pool.reused.run if self.node_pool and self.node_pool.reused else self.run

    @property
    def cluster_place(self) -> tuple[str | None, str | None] | None:
        """Location and name of the Kubernetes cluster of provisioned nodes; None: they are in none."""
        if self.node_pool is None or self.node_pool.engine != "cluster":
            return None
        target = self.target
        return target.details.get(LOCATION, target.region), target.cluster

    @property
    def assumes_showers(self) -> bool:
        """Whether no data were given, and the plan is for as many showers as the paper's."""
        return self.showers.source == NO_DATA

    @property
    def has_peers(self) -> bool:
        """Whether several workers exchange data."""
        return self.workers.nodes > 1 and self.config.works_together

    @property
    def lacks_wheels(self) -> bool:
        """Whether pods install more wheels than are cached: cloudgan's own is always there."""
        return len(self.wheels) == 1

    @property
    def usd_per_hour(self) -> float | None:
        """Price of all nodes; None: unknown."""
        return self.price.hourly_usd(self.workers.nodes) if self.price else None

    @property
    def usd(self) -> tuple[float, float] | None:
        """The known cost at both edges of the forecast, of the whole job where it is known; None: unknown."""
        low, high = self.forecast.low_usd, self.forecast.high_usd
        if low is None or high is None:
            return None
        return (self.cost.known_low_usd, self.cost.known_usd) if self.cost else (low, high)

    def labels(self) -> Labels:
        """Returns the labels of the run's resources."""
        return Labels(self.run, self.owner, self.expires, self.spec_hash)


def fill_placeholders(plan: Plan, values: Mapping[str, str]) -> Plan:
    """Replaces placeholders such as ``<project>`` everywhere in a plan."""

    def fill(part: Any) -> Any:
        if isinstance(part, str):
            for placeholder, value in values.items():
                part = part.replace(placeholder, value)
            return part
        if isinstance(part, dict):
            return {key: fill(value) for key, value in part.items()}
        return [fill(one) for one in part] if isinstance(part, list) else part

    return Plan.model_validate(fill(plan.model_dump(mode="json")))


def read(path: Path) -> Plan:
    """Reads plan.json."""
    return read_json(path, Plan)


def write(path: Path, plan: Plan) -> None:
    """Writes plan.json atomically."""
    write_json(path, plan)
