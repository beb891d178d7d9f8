"""What will be done for a run, as a value: `plan.json`, made before anything exists.

A plan holds every request in the order in which it will be sent. Each is a step "ensure X": what is
there already and ours is kept. Nothing secret is in a plan; secrets are named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from cloudgan.core.choice import Choice, Count, JobCost, Seconds, Usd
from cloudgan.core.config import RunConfig
from cloudgan.core.json_file import read_json, write_json
from cloudgan.core.labels import Labels
from cloudgan.core.price_row import Market, PriceRow, Text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE_NAME = "plan.json"

ProviderName = Literal["aws", "azure", "gcp", "kubernetes", "local", "slurm"]
CloudName = Literal["aws", "azure", "gcp"]
CLOUDS: tuple[CloudName, ...] = ("aws", "azure", "gcp")
Size = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Place(_Part):
    """Where it will run."""

    provider: ProviderName
    context: str | None = Field(default=None, description="of the kubeconfig")
    server: str | None = Field(default=None, description="address of the cluster's API")
    namespace: str | None = None
    queue: str | None = Field(default=None, description="of Kueue, or a partition of Slurm")
    service_account: str | None = None
    account: str | None = Field(
        default=None, description="project, account or subscription; <project> until it is known"
    )
    profile: str | None = Field(default=None, description="of AWS' own files, which logs in")
    details: dict[str, str] = Field(
        default={}, description="what else a cloud's steps name, such as a subnet; <...> till known"
    )
    region: str | None = None
    zone: str | None = Field(
        default=None, description="all workers are in it; <zone>: not yet known"
    )
    cluster: str | None = Field(default=None, description="found by this name, or made")

    @property
    def is_rented(self) -> bool:
        """Whether the nodes are made for the run."""
        return self.provider in CLOUDS

    def describe(self) -> str:
        """In words, such as ``kubernetes (context lab, namespace cloudgan)``."""
        shown = self.model_dump(exclude={"provider", "server", "details"})
        found = [f"{key.replace('_', ' ')} {value}" for key, value in shown.items() if value]
        return f"{self.provider} ({', '.join(found)})" if found else self.provider


class Toleration(_Part):
    """A taint that the workers' pods do not mind."""

    key: Text
    value: str | None = Field(default=None, description="None: whichever")
    effect: Literal["NoSchedule", "NoExecute"] = "NoSchedule"


class Rental(_Part):
    """The machines that are made for a run and removed after it."""

    node_type: Text = Field(description="as the price list calls it, such as a2-highgpu-1g or v3-8")
    market: Market
    pool: Text = Field(description="name of the run's own nodes in the cloud")
    engine: Literal["cluster", "tpu_vm"] = Field(
        default="cluster", description="tpu_vm: machines of Cloud TPU, without Kubernetes"
    )
    flex_start: bool = Field(default=False, description="waits for capacity at a lower price")
    keep_cluster: bool = False
    identity: dict[str, str] = Field(
        default={},
        description="annotations of the pods' service account, by which a cloud knows it",
    )
    runtime: str | None = Field(default=None, description="of a TPU VM")
    hosts: Count = Field(default=1, description="of one node: a large TPU slice has several")
    instead: str = Field(
        default="",
        description="nearest node type that everybody can rent; empty: this one is that",
    )
    notes: tuple[str, ...] = Field(
        default=(), description="what to know before it is rented, such as that it is sold no more"
    )


class Workers(_Part):
    """How many nodes, and what each gets. A pod's limits are its requests."""

    nodes: Count
    accelerator: str | None = Field(default=None, description="as asked, such as V100")
    accelerators_per_node: int = Field(default=0, ge=0)
    cpus: Size
    memory_gib: Size
    node_selector: dict[str, str] = {}
    image: str | None = Field(default=None, description="None: no container")
    secrets: tuple[Text, ...] = Field(default=(), description="names only")
    pull_secret: str | None = Field(default=None, description="that the image's registry asks for")
    resource: Text = Field(default="nvidia.com/gpu", description="that Kubernetes counts")
    tolerations: tuple[Toleration, ...] = ()
    pod_labels: dict[str, str] = {}
    grace_seconds: int = Field(default=60, ge=1, description="from SIGTERM to SIGKILL")


class Limits(_Part):
    """What ends the run by itself, on the server's side."""

    max_hours: Size
    budget_usd: Size | None = None
    max_usd_per_hour: Size | None = None
    gang_timeout_seconds: Size = 1200.0
    deadline_seconds: Count = Field(description="of the job, from its start")
    deadline_why: Text = Field(description="which limit it comes from")


class Wheel(_Part):
    """A file that the pods install before they train."""

    file_name: Text
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    bytes: Count


class Showers(_Part):
    """The training data, and what must be moved for them."""

    source: Text = Field(description="as asked")
    records: int | None = Field(default=None, ge=1)
    gib: float | None = Field(default=None, ge=0, description="as shards; None: unknown")
    gib_is_exact: bool = False
    upload_to: str | None = Field(default=None, description="None: nothing is moved")
    convert: bool = Field(default=False, description="whether shards must be made first")
    minutes: float | None = Field(default=None, ge=0, description="to move them, at 100 Mbit/s")
    usd: Usd | None = Field(default=None, description="of moving them; None: unknown")


class Forecast(_Part):
    """How long and how much, with a band; None is unknown and `why_unknown` says why."""

    epochs: Count
    epoch_seconds: Seconds | None = None
    low_epoch_seconds: Seconds | None = None
    high_epoch_seconds: Seconds | None = None
    low_seconds: Seconds | None = Field(default=None, description="of the whole training")
    high_seconds: Seconds | None = None
    low_usd: Usd | None = None
    high_usd: Usd | None = None
    grade: str | None = None
    basis: str | None = None
    why_unknown: str = ""


class Step(_Part):
    """Ensure that something exists: find it, keep it if it is ours, else send the request."""

    ensure: Text = Field(description="such as: Job gan in namespace cloudgan")
    method: Text = Field(description="of HTTP, PUT for a store, RUN for a program")
    path: Text = Field(description="where the request goes")
    at: Literal["cloud", "store", "cluster", "here"] = Field(
        default="cluster", description="who is asked; what is at the store or before it is free"
    )
    find: str | None = Field(default=None, description="what GET would find it")
    body: JsonValue = None

    @property
    def operation(self) -> str:
        """As launch.json notes it."""
        return f"{self.method} {self.path}"


class Plan(_Part):
    """A whole plan."""

    schema_version: Literal[1] = 1
    run: Text
    owner: str
    expires: str
    spec: Text = Field(description="digits of what was asked for; another spec is another run")
    made: Text = Field(description="day, ISO 8601")
    place: Place
    store: Text
    store_port: int = Field(default=443, ge=1, le=65535, description="that pods reach it by")
    workers: Workers
    rental: Rental | None = Field(default=None, description="None: nodes that are there already")
    limits: Limits
    showers: Showers
    wheels: tuple[Wheel, ...] = ()
    price: PriceRow | None = None
    forecast: Forecast
    cost: JobCost | None = Field(default=None, description="None: nobody rents these nodes")
    choice: Choice | None = Field(default=None, description="None: the nodes are there already")
    warnings: tuple[str, ...] = ()
    config: RunConfig
    steps: tuple[Step, ...] = ()

    @property
    def usd_per_second(self) -> float | None:
        """Of all nodes; None where nobody said a price."""
        return self.price.usd_per_hour / 3600 * self.workers.nodes if self.price else None

    def labels(self) -> Labels:
        """Those that everything of this run carries."""
        return Labels(self.run, self.owner, self.expires, self.spec)


def filled(plan: Plan, values: Mapping[str, str]) -> Plan:
    """Returns a plan in which placeholders such as ``<project>`` have their values, wherever they are."""

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
    """Reads plan.json.

    Raises:
        DataError: It is missing or holds something else.
    """
    return read_json(path, Plan)


def write(path: Path, plan: Plan) -> None:
    """Writes plan.json, whole or not at all.

    Raises:
        DataError: It cannot be written; the old one is as it was.
    """
    write_json(path, plan)
