"""Flags of a launch beside those of its job: where it runs, what each worker gets, and which nodes are created.

Each field is a flag of `plan` and `deploy`, a key of job.yaml and a keyword of the Python functions.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import ValidationError, model_validator

from cloudgan.core import ranges
from cloudgan.core.clouds import CLOUDS, region_of
from cloudgan.core.documents import read_text
from cloudgan.core.durations import DAY_SECONDS, HOUR_SECONDS
from cloudgan.core.errors import ConfigError, UnknownNameError, shorten
from cloudgan.core.flags import DURATION, FILE, Options, Text, flag
from cloudgan.core.labels import checked_name
from cloudgan.core.local_path import local_path
from cloudgan.core.machines import check_accelerator
from cloudgan.core.ranges import MAX_CORES, MAX_GIB, MAX_PROCESSES, MAX_SECONDS, MAX_USD
from cloudgan.core.user_text import check_texts
from cloudgan.launch.kubernetes.image import parse_image
from cloudgan.launch.plan.environment import check_variables
from cloudgan.schema.options.shared import PRICE_AS
from cloudgan.schema.plan import INTERNAL_IPS, NETWORK, SUBNET, SlurmOptions, Target
from cloudgan.schema.price_row import Market

CHEAPEST = "cheapest"
AUTO = "auto"
MarketChoice = Literal["auto", "spot", "on_demand"]
Fallback = Literal["none", "same", "any"]
MemoryPer = Literal["node", "cpu", "none"]
"""What Slurm is asked for memory, if anything."""
_LONGEST_WAIT_SECONDS = 12 * HOUR_SECONDS
_NETWORK_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_GANG_TIMEOUT_SECONDS = 20 * 60.0
_SLURM_GANG_TIMEOUT_SECONDS = 7.0 * DAY_SECONDS
"""Waiting in Slurm's queue costs nothing, and all nodes start together."""


def _providers() -> dict[str, str]:
    return dict.fromkeys(("local", *CLOUDS, "kubernetes", "slurm", CHEAPEST), "")


def _provider(shown: str, text: str) -> str:
    """A comma list of clouds is kept as one text, in the order of `CLOUDS`."""
    words = [word.strip().lower() for word in text.split(",")]
    known = CLOUDS if len(words) > 1 else _providers()
    for word in words:
        if word not in known:
            raise UnknownNameError(f"value of {shown}", word, known)
    return ",".join(dict.fromkeys(one for one in (*CLOUDS, *words) if one in words))


def _nodes(shown: str, text: str) -> int | None:
    if text == AUTO:
        return None
    if text.strip("+-_0123456789"):
        raise ConfigError(f"{shown} must be a whole number or {AUTO}, got {text!r}")
    return ranges.parse_whole(shown, text, ranges.Range(1, MAX_PROCESSES))


def _labels(shown: str, text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not key or not equals:
            raise ConfigError(f"{shown}={text}: write label=value, separated by commas")
        labels[key] = value
    return labels


class WorkerFlags(Options):
    """Where a run is launched and what each worker gets."""

    provider: Annotated[str, Text(_provider, "NAME", joint=",")] = flag(
        "local",
        "{names}; a cloud creates and deletes nodes, cheapest is the cheapest cloud, gcp,aws the cheapest of these,"
        " kubernetes an existing cluster of your kubeconfig, slurm the one of this login node, local processes of this"
        " machine",
        "Where",
        screen=True,
        names=_providers,
        placeholder="NAME",
    )
    accelerator: str | None = flag(
        None,
        "per node: l4, v100:8, v5e:4; `offers` lists them; a family such as a100 selects its cheapest member, and on a cloud a node type"
        " such as v3-8 or g5.xlarge is valid. Without a count: 1, or the fewest that a cloud sells",
        "Where",
        screen=True,
        placeholder="A[:N]",
    )
    nodes: Annotated[int | None, Text(_nodes, "N|auto")] = flag(
        1,
        "machines, one worker on each; auto is on a cloud the cheapest number within --budget-usd and --max-hours, with"
        " the same global batch",
        "Where",
        screen=True,
        ge=1,
        le=MAX_PROCESSES,
    )
    store: str | None = flag(
        None,
        "checkpoints, logs and data; gs://, s3:// or Azure Blob URL, pvc:CLAIM, or on Slurm a shared folder",
        "Where",
        screen=True,
        words="the account's bucket",
        placeholder="URL",
    )
    name: str | None = flag(
        None,
        "name of the run; and of its resources, a DNS label",
        "Run",
        screen=True,
        words="PRESET-HASH",
    )
    cpus: float | None = flag(
        None,
        "cores per worker",
        "Workers",
        words="4, or 6 per accelerator, at most 3/4 of the node; locally all cores, shared",
        gt=0,
        le=MAX_CORES,
    )
    memory_gib: float | None = flag(
        None,
        "memory per worker",
        "Workers",
        words="8, or 16 per accelerator, with the same limits",
        gt=0,
        le=MAX_GIB,
    )
    context: str | None = flag(None, "kubeconfig context", "Kubernetes", words="the current one")
    namespace: str | None = flag(None, "Kubernetes namespace", "Kubernetes", words="cloudgan")
    queue: str | None = flag(None, "Kueue queue, or Slurm partition", "Slurm")
    slurm_account: str | None = flag(None, "Slurm account that is charged", "Slurm", name="account")
    qos: str | None = flag(None, "quality of service in Slurm", "Slurm")
    constraint: str | None = flag(None, "features of the nodes; such as a100&infiniband", "Slurm")
    reservation_name: str | None = flag(
        None,
        "reservation whose nodes are used; as its cloud or Slurm names it, see docs/clouds.md",
        "Machines",
        name="reservation",
    )
    prologue: str | None = flag(
        None,
        "shell lines before each worker; a file, with lines such as module load cuda",
        "Slurm",
        placeholder="FILE",
    )
    memory_per: MemoryPer = flag(
        "node",
        "how Slurm is asked for memory; per node (--mem), per cpu (--mem-per-cpu), or none, where the site gives it",
        "Slurm",
    )
    service_account: str | None = flag(
        None, "service account of the pods; which grants bucket access", "Kubernetes"
    )
    node_selector: Annotated[dict[str, str], Text(_labels, "K=V,K=V")] = flag(
        {}, "labels of the nodes; such as pool=gpu,disk=ssd", "Kubernetes"
    )
    image: Annotated[str | None, Text(parse_image, "REF")] = flag(
        None,
        "container image; with cloudgan and its framework",
        "Run",
        screen=True,
        words="TensorFlow's, and wheels",
    )
    env: tuple[str, ...] = flag(
        (),
        "variable of the workers; KEY alone has its value in your environment",
        "Run",
        screen=True,
        is_repeated=True,
        placeholder="KEY[=VALUE]",
    )
    env_file: Annotated[Path | None, FILE] = flag(
        None, "file of such variables; # begins a comment, and values of --env win", "Run"
    )
    secrets: tuple[str, ...] = flag(
        (),
        "like --env, but in no file and no log; its value is that of your environment, see docs/cluster.md",
        "Run",
        screen=True,
        name="secret",
        is_repeated=True,
        placeholder="KEY",
    )
    kubernetes_secrets: tuple[str, ...] = flag(
        (), "Secrets whose keys are variables of the pods; by name, in Kubernetes", "Kubernetes"
    )
    price_as: str | None = PRICE_AS
    price_file: Annotated[Path | None, FILE] = flag(
        None,
        "prices of your own nodes; YAML, in USD per hour; its node with these accelerators gives the price,"
        " or --price-as names one",
        "Price",
    )
    budget_usd: float | None = flag(
        None,
        "ends before it costs more; all attempts together, and on your own nodes with --price-as or --price-file",
        "Limits",
        screen=True,
        gt=0,
        le=MAX_USD,
    )
    max_hours: float = flag(
        24.0,
        "ends then, also if this machine is off",
        "Limits",
        screen=True,
        gt=0,
        le=MAX_SECONDS / HOUR_SECONDS,
    )
    gang_timeout_seconds: Annotated[float | None, DURATION] = flag(
        None,
        "time until all workers must run",
        "Limits",
        name="gang-timeout",
        words="20m; on Slurm 7d",
    )
    allow_open_ports: bool = flag(
        False,
        "start workers where others reach their ports; TensorFlow's servers execute what they"
        " receive, see docs/security.md",
        "Workers",
    )

    @model_validator(mode="after")
    def _valid(self) -> Self:
        """Checks the values that need no file and no network."""
        check_variables(self.env, self.secrets)
        check_texts("the launch request", dict(self))
        if self.name is not None:
            checked_name(self.name)  # before the nodes of a cloud are named after it
        if self.accelerator:
            check_accelerator(self.accelerator)
        return self

    @property
    def reservation(self) -> str | None:
        """Reservation in a cloud whose capacity the nodes use."""
        return None if self.provider == "slurm" else self.reservation_name

    @property
    def slurm(self) -> SlurmOptions:
        """Account, quality of service, constraint, reservation and prologue in Slurm."""
        lines = read_text(local_path(self.prologue), ConfigError) if self.prologue else ""
        given = {
            "account": self.slurm_account,
            "qos": self.qos,
            "constraint": self.constraint,
            "reservation": self.reservation_name if self.provider == "slurm" else None,
            "memory_per": self.memory_per,
            "prologue": lines.replace("\r\n", "\n"),
        }
        try:
            return SlurmOptions.model_validate(given)
        except ValidationError as error:
            name = str(error.errors()[0]["loc"][0])
            if name == "prologue":
                raise ConfigError(
                    f"--prologue={self.prologue}: must be at most 16 KiB of text without control characters,"
                    " such as `module load cuda`"
                ) from error
            raise ConfigError(
                f"--{name}={shorten(str(given[name]))} must be a name of the cluster, such as physics:"
                " letters, digits and _ . , : @ + = -, in --constraint also | & ! * ( ) [ ]"
            ) from error

    @property
    def accelerator_name(self) -> str | None:
        """Name of the accelerator or node type; None: no accelerator was requested."""
        return self.accelerator and self.accelerator.partition(":")[0]

    @property
    def accelerator_count(self) -> int:
        """Accelerators per node; 1 if the request has no count."""
        return int((self.accelerator or "").partition(":")[2] or 1)

    @property
    def has_accelerator_count(self) -> bool:
        """Whether the request has a count."""
        return ":" in (self.accelerator or "")

    @property
    def effective_gang_timeout_seconds(self) -> float:
        """The requested gang timeout, or the default of the provider."""
        default = _SLURM_GANG_TIMEOUT_SECONDS if self.provider == "slurm" else _GANG_TIMEOUT_SECONDS
        return default if self.gang_timeout_seconds is None else self.gang_timeout_seconds

    @property
    def clouds(self) -> tuple[str, ...]:
        """Clouds that may create the nodes; empty: none is to."""
        if self.provider == CHEAPEST:
            return tuple(CLOUDS)
        return tuple(name for name in self.provider.split(",") if name in CLOUDS)

    @property
    def chooses_cloud(self) -> bool:
        """Whether several clouds may create the nodes."""
        return len(self.clouds) > 1

    @property
    def is_provisioned(self) -> bool:
        """Whether nodes are created for the run."""
        return bool(self.clouds)


class NodeFlags(Options):
    """Which nodes are created for a run, and which account pays."""

    project: str | None = flag(None, "Google Cloud project", "GCP", words="of your login")
    profile: str | None = flag(
        None, "AWS profile", "AWS", words="AWS_PROFILE, or the login that is found"
    )
    subscription: str | None = flag(
        None,
        "Azure subscription",
        "Azure",
        words="AZURE_SUBSCRIPTION_ID, or the login's only one",
    )
    regions: tuple[str, ...] = flag(
        (),
        "regions, the preferred one first; such as us-central1,europe-west4",
        "Where",
        screen=True,
        name="region",
        words="the cheapest",
        placeholder="R,...",
    )
    zone: str | None = flag(None, "zone of all nodes", "Machines", words="one that has them")
    market: MarketChoice = flag(
        "auto",
        "auto, spot or on_demand; auto takes spot where it is cheaper, preemptions included",
        "Where",
        screen=True,
    )
    cluster: str | None = flag(
        None,
        "cluster, created if missing; one of others is never deleted",
        "Machines",
        words="cloudgan",
    )
    keep_cluster: bool = flag(
        False, "keep a created cluster for the next run; it bills by the hour", "Keep"
    )
    keep_nodes_seconds: Annotated[float, DURATION] = flag(
        0.0,
        "how long nodes wait for the next run; such as 30m; they bill. A run with this flag uses"
        " nodes that wait: see docs/clouds.md",
        "Keep",
        name="keep-nodes",
    )
    served_runs: int = 1
    network: str | None = flag(
        None,
        "Google Cloud network; of a created cluster and of TPU VMs",
        "Network",
        words="default",
    )
    subnet: str | None = flag(
        None,
        "its subnet in the region of the run; needed if its subnets are not automatic",
        "Network",
    )
    internal_ips: bool = flag(
        False,
        "no public addresses on Google Cloud; the network needs Cloud NAT",
        "Network",
    )
    flex_start: bool = flag(False, "wait for Google's cheaper flex-start nodes", "GCP")
    pull_secret: str | None = flag(
        None, "Secret for a private registry", "Kubernetes", name="image-pull-secret"
    )
    max_usd_per_hour: float | None = flag(
        None, "maximum price of all nodes together", "Limits", gt=0, le=MAX_USD
    )
    spot_wait_seconds: Annotated[float, DURATION] = flag(
        1200.0,
        "wait for spot nodes; before --market=auto takes on-demand nodes",
        "Limits",
        name="spot-wait",
        words="20m",
    )
    fallback: Fallback = flag(
        "none",
        "without capacity or quota: none, same or any; same is the accelerator, count and global batch elsewhere, any an"
        " offer with the same global batch",
        "Limits",
        screen=True,
    )
    allow_unmeasured: bool = flag(
        False, "consider accelerators of unknown speed; with this network", "Price"
    )
    allow_unknown_price: bool = flag(
        False,
        "accept a node type without a known price; of --accelerator, in --region",
        "Price",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Checks the values that need no file and no network."""
        check_texts("the launch request", dict(self))
        if self.project and self.subscription:
            raise ConfigError(
                "--project is for Google Cloud and --subscription for Azure: give one of them"
            )
        if self.keep_nodes_seconds > _LONGEST_WAIT_SECONDS:
            raise ConfigError(
                f"--keep-nodes={self.keep_nodes_seconds / HOUR_SECONDS:g}h: nodes wait at most"
                f" {_LONGEST_WAIT_SECONDS / HOUR_SECONDS:g}h, because they bill; give a time such as 30m"
            )
        if self.keep_nodes_seconds and self.flex_start:
            raise ConfigError(
                "--keep-nodes and --flex-start: flex-start nodes queue for one job; omit one of them"
            )
        for name, value in (("network", self.network), ("subnet", self.subnet)):
            if value is not None and not _NETWORK_NAME.fullmatch(value):
                raise ConfigError(
                    f"--{name}={shorten(value)} is not valid: give a name in the project, such as lab-net"
                )
        if self.subnet and not self.network:
            raise ConfigError(
                f"--subnet={self.subnet} is in a network: give --network=NAME (default, if it is that)"
            )
        return self

    @property
    def account(self) -> str | None:
        """Google Cloud project or Azure subscription; None: of the login."""
        return self.project or self.subscription

    @property
    def network_details(self) -> dict[str, str]:
        """Details of the target that the network flags request."""
        found = {NETWORK: self.network, SUBNET: self.subnet}
        found[INTERNAL_IPS] = "only" if self.internal_ips else None
        return {key: value for key, value in found.items() if value}

    @property
    def fixed_market(self) -> Market | None:
        """The only market to consider; None: the cheaper one."""
        if self.flex_start:
            return "on_demand"
        return None if self.market == "auto" else self.market

    def complete(self, target: Target) -> Target:
        """Returns a cloud's target with the requested profile and network."""
        details = target.details | self.network_details
        return target.model_copy(update={"profile": self.profile, "details": details})

    def regions_in(self, provider: str) -> tuple[str, ...]:
        """Returns the requested regions of a cloud; with a zone, its region. Empty: any.

        Azure's zones are 1, 2 and 3 in each region and restrict nothing.
        """
        zone = self.zone or ""
        region = region_of(provider, zone) if zone else ""
        if region == zone:
            return self.regions
        if self.regions and region not in self.regions:
            raise ConfigError(
                f"--zone={zone} is not in --region={','.join(self.regions)}; give --region={region},"
                " or omit one of them"
            )
        return (region,)
