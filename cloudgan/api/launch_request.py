"""Requests for `plan` and `deploy`: where to run, which nodes to provision, earlier attempts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from cloudgan.api.run_environment import check_variables
from cloudgan.core import ranges
from cloudgan.core.clouds import CLOUDS, region_of
from cloudgan.core.documents import read_text
from cloudgan.core.errors import ConfigError, UnknownNameError, shorten
from cloudgan.core.local_path import local_path
from cloudgan.core.user_text import check_texts
from cloudgan.schema.plan import INTERNAL_IPS, NETWORK, SUBNET, SlurmOptions

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cloudgan.schema.plan import Plan, Target
    from cloudgan.schema.price_row import Market

CHEAPEST = "cheapest"
AUTO = "auto"
if TYPE_CHECKING:
    LaunchProvider = str
else:
    LaunchProvider = Literal[(*CLOUDS, CHEAPEST, "kubernetes", "local", "slurm")]
MarketChoice = Literal["auto", "spot", "on_demand"]
Fallback = Literal["none", "same", "any"]
MemoryPer = Literal["node", "cpu", "none"]
"""What Slurm is asked for memory, if anything."""
_LONGEST_WAIT_SECONDS = 12 * 3600
_NETWORK_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_GANG_TIMEOUT_SECONDS = 20 * 60.0
_SLURM_GANG_TIMEOUT_SECONDS = 7 * 86_400.0
"""Waiting in Slurm's queue costs nothing, and all nodes start together."""


@dataclass(frozen=True)
class LaunchRequest:
    """Where a run is launched and what each worker gets.

    Attributes:
        provider: A cloud (nodes are created and deleted), cheapest (of all clouds),
            kubernetes (an existing cluster), slurm, or local (processes of this machine).
        name: Name of the run, a DNS label. None: PRESET-HASH.
        nodes: Number of nodes, one worker on each. None: the cheapest number within the limits.
        accelerator: NAME or NAME:COUNT per node, such as "v100:8"; on a cloud also a node type.
        cpus: Cores per worker. None: by accelerator and node.
        memory_gib: Memory per worker. None: by accelerator and node.
        context: Kubeconfig context. None: the current one.
        namespace: Kubernetes namespace. None: cloudgan.
        queue: Kueue queue or Slurm partition.
        reservation: Reservation in a cloud whose capacity the nodes use, as the cloud names it.
        slurm: Account, quality of service, constraint, reservation and prologue in Slurm.
        service_account: Kubernetes service account of the pods.
        node_selector: Labels that nodes must have.
        store: URL or folder for checkpoints, logs and data.
        image: Container image that has cloudgan. None: TensorFlow's public image and wheels.
        env: Environment variables of the workers, KEY=VALUE, or KEY with its value in this environment.
        env_file: File with such lines; values in `env` win.
        secrets: Environment variables whose values only this environment and the workers have.
        kubernetes_secrets: Kubernetes Secrets whose keys become environment variables of the pods.
        offer: Offer that gives the price of a node.
        price_file: File with the prices of your own nodes.
        budget_usd: Maximum cost of the run, all attempts together.
        max_hours: Deadline of the job.
        gang_timeout_seconds: Time until all workers must run. None: 20 minutes; on Slurm 7 days.
        allow_open_ports: Whether several workers may start where other users can reach their ports.

    Raises:
        ConfigError: A value is not valid.
    """

    provider: LaunchProvider = "local"
    name: str | None = None
    nodes: int | None = 1
    accelerator: str | None = None
    cpus: float | None = None
    memory_gib: float | None = None
    context: str | None = None
    namespace: str | None = None
    queue: str | None = None
    reservation: str | None = None
    slurm: SlurmOptions = field(default_factory=SlurmOptions)
    service_account: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    store: str | None = None
    image: str | None = None
    env: tuple[str, ...] = ()
    env_file: Path | None = None
    secrets: tuple[str, ...] = ()
    kubernetes_secrets: tuple[str, ...] = ()
    offer: str | None = None
    price_file: Path | None = None
    budget_usd: float | None = None
    max_hours: float = 24.0
    gang_timeout_seconds: float | None = None
    allow_open_ports: bool = False

    def __post_init__(self) -> None:
        """Checks the values that need no file and no network."""
        check_variables(self.env, self.secrets)
        check_texts("the launch request", vars(self))
        known = (*CLOUDS, CHEAPEST, "kubernetes", "local", "slurm")
        if self.provider not in known:
            raise UnknownNameError("value of --provider", self.provider, known)
        ranges.check(
            cpus=self.cpus,
            memory_gib=self.memory_gib,
            max_hours=self.max_hours,
            budget_usd=self.budget_usd,
            nodes=self.nodes,
        )
        if self.accelerator is not None:
            name, colon, count = self.accelerator.partition(":")
            if not name or (colon and not re.fullmatch(r"[1-9][0-9]{0,4}", count)):
                raise ConfigError(
                    f"--accelerator={shorten(self.accelerator)} must be NAME or NAME:COUNT, such as v100 or"
                    " v100:8"
                )

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
    def is_provisioned(self) -> bool:
        """Whether nodes are created for the run."""
        return self.provider in (*CLOUDS, CHEAPEST)


@dataclass(frozen=True)
class ProvisioningRequest:
    """Which nodes are created for a run.

    Attributes:
        account: Google Cloud project, AWS account or Azure subscription. None: of the login.
        profile: AWS profile.
        regions: Allowed regions, the first one preferred; empty: the cheapest.
        zone: Zone of all nodes.
        cluster: Existing cluster, which is never deleted.
        keep_cluster: Whether a created cluster stays for the next run.
        keep_nodes_seconds: How long the nodes wait for the next run; 0: they are deleted.
        served_runs: Runs that are known to use the nodes one after another, as those of a sweep.
        network: Google Cloud network of created clusters and TPU VMs. None: default.
        subnet: Subnet of that network, in the region of the run.
        internal_ips: Whether nodes get no public addresses.
        market: spot, on_demand, or auto (spot where it is cheaper, its preemptions included).
        flex_start: Whether to wait for Google's flex-start nodes.
        pull_secret: Kubernetes secret for a private registry.
        max_usd_per_hour: Maximum price of all nodes together.
        spot_wait_seconds: With market auto: wait for spot nodes before on-demand nodes are taken.
        fallback: Without capacity or quota: none, same (same accelerators and global batch
            elsewhere), or any (any offer with the same global batch).
        allow_unmeasured: Whether to consider accelerators of unknown throughput.
        allow_unknown_price: Whether to provision a node type without a known price.

    Raises:
        ConfigError: A value is not valid.
    """

    account: str | None = None
    profile: str | None = None
    regions: tuple[str, ...] = ()
    zone: str | None = None
    cluster: str | None = None
    keep_cluster: bool = False
    keep_nodes_seconds: float = 0.0
    served_runs: int = 1
    network: str | None = None
    subnet: str | None = None
    internal_ips: bool = False
    market: MarketChoice = "auto"
    flex_start: bool = False
    pull_secret: str | None = None
    max_usd_per_hour: float | None = None
    spot_wait_seconds: float = 1200.0
    fallback: Fallback = "none"
    allow_unmeasured: bool = False
    allow_unknown_price: bool = False

    def __post_init__(self) -> None:
        """Checks the values that need no file and no network."""
        check_texts("the launch request", vars(self))
        ranges.check(max_usd_per_hour=self.max_usd_per_hour)
        if self.keep_nodes_seconds > _LONGEST_WAIT_SECONDS:
            raise ConfigError(
                f"--keep-nodes={self.keep_nodes_seconds / 3600:g}h: nodes wait at most"
                f" {_LONGEST_WAIT_SECONDS / 3600:g}h, because they bill; give a time such as 30m"
            )
        if self.keep_nodes_seconds and self.flex_start:
            raise ConfigError(
                "--keep-nodes and --flex-start: flex-start nodes queue for one job; omit one of them"
            )
        for flag, value in (("network", self.network), ("subnet", self.subnet)):
            if value is not None and not _NETWORK_NAME.fullmatch(value):
                raise ConfigError(
                    f"--{flag}={shorten(value)} is not valid: give a name in the project, such as lab-net"
                )
        if self.subnet and not self.network:
            raise ConfigError(
                f"--subnet={self.subnet} is in a network: give --network=NAME (default, if it is that)"
            )

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

    def restricted_to_zone(self, provider: str) -> ProvisioningRequest:
        """Returns the request with the zone's region as its only region.

        Azure's zones are 1, 2 and 3 in each region and restrict nothing.

        Raises:
            ConfigError: The zone is in none of the requested regions.
        """
        zone = self.zone or ""
        region = region_of(provider, zone) if zone else ""
        if region == zone:
            return self
        if self.regions and region not in self.regions:
            raise ConfigError(
                f"--zone={zone} is not in --region={','.join(self.regions)}; give --region={region},"
                " or omit one of them"
            )
        return replace(self, regions=(region,))


NOTHING_PROVISIONED = ProvisioningRequest()


@dataclass(frozen=True)
class AttemptHistory:
    """The failed attempts of a run, as constraints on the next plan.

    Attributes:
        first: Plan of the first attempt, whose batch and accelerators later ones keep.
        excluded: Reason by excluded offer.
        stores: Store of the run by cloud; each cloud has one.
        offer: Offer to prefer if it still matches the request; None: the best one.
    """

    first: Plan | None = None
    excluded: Mapping[str, str] = field(default_factory=dict)
    stores: Mapping[str, str] = field(default_factory=dict)
    offer: str | None = None

    def after(self, plan: Plan, why: str) -> AttemptHistory:
        """Returns the history with one more failed attempt."""
        excluded = {**self.excluded, plan.price.offer: why} if plan.price else self.excluded
        return replace(
            self,
            first=self.first or plan,
            excluded=excluded,
            stores={plan.target.provider: plan.store, **self.stores},
            offer=None,
        )


NO_ATTEMPTS = AttemptHistory()


def slurm_options(
    account: str | None,
    qos: str | None,
    constraint: str | None,
    reservation: str | None,
    prologue: str | None,
    *,
    memory_per: MemoryPer = "node",
) -> SlurmOptions:
    """Returns the options of a Slurm job.

    Args:
        account: Account that is charged.
        qos: Quality of service.
        constraint: Features of the nodes.
        reservation: Name of a reservation.
        prologue: Path of a file of shell lines.
        memory_per: Whether memory is requested per node, per cpu, or not.

    Raises:
        ConfigError: A value cannot be an option of sbatch, or the file is no text.
    """
    lines = read_text(local_path(prologue), ConfigError) if prologue else ""
    given = {
        "account": account,
        "qos": qos,
        "constraint": constraint,
        "reservation": reservation,
        "memory_per": memory_per,
        "prologue": lines.replace("\r\n", "\n"),
    }
    try:
        return SlurmOptions.model_validate(given)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        if name == "prologue":
            raise ConfigError(
                f"--prologue={prologue}: must be at most 16 KiB of text without control characters,"
                " such as `module load cuda`"
            ) from error
        raise ConfigError(
            f"--{name}={shorten(str(given[name]))} must be a name of the cluster, such as physics:"
            " letters, digits and _ . , : @ + = -, in --constraint also | & ! * ( ) [ ]"
        ) from error
