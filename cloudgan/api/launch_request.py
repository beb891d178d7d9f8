"""Requests for `plan` and `deploy`: where to run, which nodes to provision, earlier attempts."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from cloudgan.core import ranges
from cloudgan.core.clouds import CLOUDS, region_of
from cloudgan.core.documents import read_text
from cloudgan.core.errors import ConfigError, UnknownNameError, shorten
from cloudgan.core.settings import expand_home
from cloudgan.launch.kubernetes.manifests import CLAIM
from cloudgan.schema.plan import INTERNAL_IPS, NETWORK, SUBNET, SlurmOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

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
_CLOUD_FLAGS = f"--provider={', '.join(CLOUDS)} or {CHEAPEST}"
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
        slurm: Account, quality of service, constraint, reservation and prologue in Slurm.
        service_account: Kubernetes service account of the pods.
        node_selector: Labels that nodes must have.
        store: URL or folder for checkpoints, logs and data.
        image: Container image that has cloudgan. None: TensorFlow's public image and wheels.
        secrets: Kubernetes secrets whose keys become environment variables of the pods.
        offer: Offer that gives the price of a node.
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
    slurm: SlurmOptions = field(default_factory=SlurmOptions)
    service_account: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    store: str | None = None
    image: str | None = None
    secrets: tuple[str, ...] = ()
    offer: str | None = None
    budget_usd: float | None = None
    max_hours: float = 24.0
    gang_timeout_seconds: float | None = None
    allow_open_ports: bool = False

    def __post_init__(self) -> None:
        """Checks the values that need no file and no network."""
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
        allow_unmeasured: Whether to consider accelerators without a measured throughput.
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
        ranges.check(max_usd_per_hour=self.max_usd_per_hour)
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

_FLAG_NAMES = {
    "account": "project or --subscription",
    "regions": "region",
    "spot_wait_seconds": "spot-wait",
    "pull_secret": "image-pull-secret",
}


def slurm_options(
    account: str | None,
    qos: str | None,
    constraint: str | None,
    reservation: str | None,
    prologue: str | None,
) -> SlurmOptions:
    """Returns the options of a Slurm job.

    Args:
        account: Account that is charged.
        qos: Quality of service.
        constraint: Features of the nodes.
        reservation: Name of a reservation.
        prologue: Path of a file of shell lines.

    Raises:
        ConfigError: A value cannot be an option of sbatch, or the file is no text.
    """
    lines = read_text(expand_home(prologue), ConfigError) if prologue else ""
    given = {
        "account": account,
        "qos": qos,
        "constraint": constraint,
        "reservation": reservation,
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


def check_request(launch: LaunchRequest, provisioning: ProvisioningRequest) -> None:
    """Checks that all values of a request apply to its provider.

    Raises:
        ConfigError: A value does not apply; names it and the flag to give.
    """
    address, query, _ = (launch.store or "").partition("?")
    if query or "@" in address:
        raise ConfigError(
            f"--store={address.rpartition('@')[2]}... contains credentials, and a plan is not"
            " secret: omit them, and give them by --secrets or in the environment"
        )
    if launch.provider != "slurm" and launch.slurm != SlurmOptions():
        names = launch.slurm.model_dump(exclude_defaults=True)
        raise ConfigError(
            f"{' and '.join(f'--{name}' for name in names)}: only valid with --provider=slurm, and"
            f" --provider={launch.provider} was given"
        )
    if launch.is_provisioned:
        _check_cloud(launch, provisioning)
        return
    _check_nothing_provisioned(launch, provisioning)
    if launch.provider == "kubernetes":
        _check_cluster(launch)
        return
    only_on_clusters = {
        "--context": launch.context,
        "--namespace": launch.namespace,
        "--image": launch.image,
        "--service-account": launch.service_account,
        "--node-selector": launch.node_selector,
        "--secrets": launch.secrets,
        "--image-pull-secret": provisioning.pull_secret,
    }
    given = [name for name, value in only_on_clusters.items() if value]
    if given:
        raise ConfigError(
            f"{' and '.join(given)}: only valid with --provider=kubernetes, and"
            f" --provider={launch.provider} was given"
        )
    if launch.provider == "local" and (launch.queue or (launch.store or "").startswith(CLAIM)):
        raise ConfigError(
            "--queue and --store=pvc: are not valid with --provider=local; omit them, or give"
            " --provider=kubernetes"
        )


def _check_nothing_provisioned(launch: LaunchRequest, provisioning: ProvisioningRequest) -> None:
    if launch.nodes is None:
        raise ConfigError(
            f"--nodes={AUTO} is only valid with {_CLOUD_FLAGS}; give the number of nodes"
        )
    # A price limit and a pull secret are valid for any node and any pod.
    rest = replace(provisioning, max_usd_per_hour=None, pull_secret=None)
    if rest != NOTHING_PROVISIONED:
        given = [
            f"--{_FLAG_NAMES.get(key, key.replace('_', '-'))}"
            for key, value in asdict(rest).items()
            if value != getattr(NOTHING_PROVISIONED, key)
        ]
        raise ConfigError(
            f"{' and '.join(given)}: only valid with {_CLOUD_FLAGS}, and"
            f" --provider={launch.provider} was given"
        )


def _check_cloud(launch: LaunchRequest, provisioning: ProvisioningRequest) -> None:
    given = {"--context": launch.context, "--namespace": launch.namespace, "--queue": launch.queue}
    names = [name for name, value in given.items() if value]
    if names:
        raise ConfigError(
            f"{' and '.join(names)}: only valid for an existing cluster, --provider=kubernetes, and"
            f" --provider={launch.provider} was given"
        )
    if launch.provider != "gcp" and provisioning.network_details:
        raise ConfigError(
            "--network, --subnet and --internal-ips are only valid with --provider=gcp, and"
            f" --provider={launch.provider} was given"
        )
    if launch.provider == CHEAPEST:
        if launch.store:
            raise ConfigError(
                "--store is in one cloud, and --provider=cheapest can select any; name the store's"
                " cloud as --provider, or omit --store to use the account's own bucket"
            )
        if provisioning.account or provisioning.zone or provisioning.profile:
            raise ConfigError(
                "--project, --subscription, --profile and --zone belong to one cloud: name it as"
                " --provider"
            )
    if launch.nodes is None and provisioning.allow_unknown_price:
        raise ConfigError(
            f"--nodes={AUTO} compares costs; with --allow-unknown-price give the number of nodes"
        )


def _check_cluster(launch: LaunchRequest) -> None:
    if launch.accelerator and launch.accelerator.casefold().startswith("tpu"):
        raise ConfigError(
            f"--accelerator={launch.accelerator_name}: --provider=kubernetes supports NVIDIA GPUs"
            " only, such as --accelerator=v100:8"
        )
    if not launch.store:
        raise ConfigError(
            "--provider=kubernetes needs a store for checkpoints, logs and data: give"
            " --store=gs://BUCKET/prefix, s3://, an Azure blob URL, or pvc:CLAIM"
        )
    if not re.match(r"(pvc:|gs://|s3://|https://).", launch.store):
        raise ConfigError(
            f"--store={launch.store} is not reachable from pods: give gs://BUCKET/prefix, s3://, an"
            " Azure blob URL, or pvc:CLAIM"
        )
    if launch.store.startswith(CLAIM) and not launch.image:
        raise ConfigError(
            f"--store={launch.store}: only pods can write to a claim, so wheels cannot be uploaded;"
            " give an --image that has cloudgan (built from deploy/Dockerfile)"
        )
