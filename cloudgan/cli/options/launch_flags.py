"""Flag groups of the launch verbs: what to launch, which nodes, which run, which account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cloudgan.api.launch_request import (
    AUTO,
    Fallback,
    LaunchProvider,
    LaunchRequest,
    MarketChoice,
    MemoryPer,
    ProvisioningRequest,
    slurm_options,
)
from cloudgan.api.targets import RunLocator
from cloudgan.core import ranges
from cloudgan.core.clouds import CLOUDS, CloudName
from cloudgan.core.durations import parse_duration
from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import local_path

if TYPE_CHECKING:
    ProviderFlag = str
else:
    ProviderFlag = Literal[(*CLOUDS, "kubernetes", "local", "slurm")]
EVERY_CLOUD = RunLocator()


def launch_flags(
    *,
    provider: LaunchProvider = "local",
    name: str | None = None,
    nodes: str = "1",
    accelerator: str | None = None,
    cpus: float | None = None,
    memory_gib: float | None = None,
    context: str | None = None,
    namespace: str | None = None,
    queue: str | None = None,
    account: str | None = None,
    qos: str | None = None,
    constraint: str | None = None,
    reservation: str | None = None,
    prologue: str | None = None,
    memory_per: MemoryPer = "node",
    service_account: str | None = None,
    node_selector: str | None = None,
    store: str | None = None,
    image: str | None = None,
    env: str | None = None,
    env_file: str | None = None,
    secret: str | None = None,
    kubernetes_secrets: str | None = None,
    price_as: str | None = None,
    price_file: str | None = None,
    budget_usd: float | None = None,
    max_hours: float = 24.0,
    gang_timeout: str | None = None,
    allow_open_ports: bool = False,
) -> LaunchRequest:
    """Returns the launch request.

    Args:
        provider: a cloud (creates and deletes nodes), cheapest (of all clouds), kubernetes
            (an existing cluster of your kubeconfig), slurm, or local (processes of this machine).
        name: Name of the run and of its resources; a DNS label. Default: PRESET-HASH.
        nodes: Number of nodes, one worker on each; on a cloud also auto: the cheapest number within
            --budget-usd and --max-hours, with the same global batch.
        accelerator: NAME or NAME:COUNT per node, such as v100:8; a family such as a100 selects its
            cheapest member. Default COUNT: 1, or the fewest that a cloud sells. On a cloud also a
            node type, such as v3-8 or g5.xlarge.
        cpus: Cores per worker. Default: 4, or 6 per accelerator, at most 3/4 of the node; locally
            all cores, shared.
        memory_gib: Memory per worker. Default: 8, or 16 per accelerator, with the same limits.
        context: Kubeconfig context. Default: the current one.
        namespace: Kubernetes namespace. Default: cloudgan.
        queue: Kueue queue, or Slurm partition.
        account: Slurm account that is charged.
        qos: Quality of service in Slurm.
        constraint: Features of Slurm's nodes, such as a100&infiniband.
        reservation: Reservation whose nodes are used, as its cloud or Slurm names it; see docs/reservations.md.
        prologue: File of shell lines that each Slurm node runs before its worker, such as module
            load cuda.
        memory_per: How Slurm is asked for the memory: per node (--mem), per cpu (--mem-per-cpu), or none,
            where the site gives it.
        service_account: Kubernetes service account that grants bucket access.
        node_selector: Node labels, such as pool=gpu,disk=ssd.
        store: gs://, s3:// or Azure blob URL, pvc:CLAIM, or on Slurm a shared folder, for
            checkpoints, logs and data.
        image: Container image that has cloudgan. Default: TensorFlow's public image, and wheels.
        env: Environment variables of the workers, KEY=VALUE or KEY, separated by commas.
        env_file: File of such lines; # begins a comment.
        secret: Names of variables that only your environment and the workers have; see docs/deploy.md.
        kubernetes_secrets: Kubernetes Secrets whose keys become environment variables of the pods.
        price_as: Offer that gives the price of a node, such as
            gcp/n1-standard-8+1xV100/us-central1/spot.
        price_file: YAML file with the prices of your own nodes, in USD per hour; its node with these
            accelerators gives the price, or --price-as names one.
        budget_usd: Maximum cost of the run, all attempts together; on your own nodes it needs
            --price-as or --price-file.
        max_hours: Deadline of the job.
        gang_timeout: Time until all workers must run, such as 40m. Default: 20m; on Slurm 7d.
        allow_open_ports: Start several workers even where other users can reach their ports. TensorFlow's
            servers execute what they receive: see docs/security.md.

    Raises:
        ConfigError: A value is not valid.
    """
    seconds = None if gang_timeout is None else parse_duration(gang_timeout, "--gang-timeout")
    return LaunchRequest(
        provider=provider,
        name=name,
        nodes=_nodes(str(nodes)),
        accelerator=accelerator,
        cpus=cpus,
        memory_gib=memory_gib,
        context=context,
        namespace=namespace,
        queue=queue,
        reservation=None if provider == "slurm" else reservation,
        slurm=slurm_options(
            account,
            qos,
            constraint,
            reservation if provider == "slurm" else None,
            prologue,
            memory_per=memory_per,
        ),
        service_account=service_account,
        node_selector=_labels(node_selector),
        store=store,
        image=image,
        env=tuple(filter(None, (env or "").split(","))),
        env_file=local_path(env_file, source="--env-file") if env_file else None,
        secrets=tuple(filter(None, (secret or "").split(","))),
        kubernetes_secrets=tuple(filter(None, (kubernetes_secrets or "").split(","))),
        offer=price_as,
        price_file=local_path(price_file, source="--price-file") if price_file else None,
        budget_usd=budget_usd,
        max_hours=max_hours,
        gang_timeout_seconds=seconds,
        allow_open_ports=allow_open_ports,
    )


def provisioning_flags(
    *,
    project: str | None = None,
    profile: str | None = None,
    subscription: str | None = None,
    region: str | None = None,
    zone: str | None = None,
    cluster: str | None = None,
    keep_cluster: bool = False,
    keep_nodes: str | None = None,
    network: str | None = None,
    subnet: str | None = None,
    internal_ips: bool = False,
    market: MarketChoice = "auto",
    flex_start: bool = False,
    image_pull_secret: str | None = None,
    max_usd_per_hour: float | None = None,
    spot_wait: str = "20m",
    fallback: Fallback = "none",
    allow_unmeasured: bool = False,
    allow_unknown_price: bool = False,
) -> ProvisioningRequest:
    """Returns the provisioning request.

    Args:
        project: Google Cloud project. Default: of your login.
        profile: AWS profile. Default: AWS_PROFILE, or the login that is found.
        subscription: Azure subscription. Default: AZURE_SUBSCRIPTION_ID, or the login's only one.
        region: One or more regions, such as us-central1,europe-west4. Default: the cheapest.
        zone: Zone of all nodes. Default: one that has the node type.
        cluster: Existing cluster, which is never deleted. Default: cloudgan, created if missing.
        keep_cluster: Keep a created cluster for the next run; it bills by the hour.
        keep_nodes: How long the nodes of a finished run wait for the next one, such as 30m; they bill.
            A run with this flag uses nodes that wait: see docs/deploy.md.
        network: Google Cloud network of a created cluster and of TPU VMs. Default: default.
        subnet: Its subnet in the region of the run; needed if its subnets are not automatic.
        internal_ips: Nodes of Google Cloud without public addresses; the network needs Cloud NAT.
        market: spot, on_demand, or auto: spot where it is cheaper, its preemptions included.
        flex_start: Wait for Google's cheaper flex-start nodes.
        image_pull_secret: Kubernetes secret for a private registry.
        max_usd_per_hour: Maximum price of all nodes together.
        spot_wait: Time that --market=auto waits for spot nodes before it takes on-demand nodes.
        fallback: Without capacity or quota: none, same (accelerator, count and global batch,
            elsewhere), or any (offer with the same global batch).
        allow_unmeasured: Consider accelerators whose throughput with this network is unknown.
        allow_unknown_price: Provision a node type (--accelerator) without a known price in a region
            (--region).

    Raises:
        ConfigError: A value is not valid.
    """
    if project and subscription:
        raise ConfigError(
            "--project is for Google Cloud and --subscription for Azure: give one of them"
        )
    return ProvisioningRequest(
        account=project or subscription or None,
        profile=profile,
        regions=tuple(filter(None, (region or "").split(","))),
        zone=zone,
        cluster=cluster,
        keep_cluster=keep_cluster,
        keep_nodes_seconds=parse_duration(keep_nodes, "--keep-nodes") if keep_nodes else 0.0,
        network=network,
        subnet=subnet,
        internal_ips=internal_ips,
        market=market,
        flex_start=flex_start,
        pull_secret=image_pull_secret,
        max_usd_per_hour=max_usd_per_hour,
        spot_wait_seconds=parse_duration(spot_wait, "--spot-wait"),
        fallback=fallback,
        allow_unmeasured=allow_unmeasured,
        allow_unknown_price=allow_unknown_price,
    )


def run_flags(
    *,
    provider: ProviderFlag | None = None,
    context: str | None = None,
    namespace: str | None = None,
    project: str | None = None,
    profile: str | None = None,
    subscription: str | None = None,
    region: str | None = None,
    store: str | None = None,
) -> RunLocator:
    """Returns where a run is that another folder or machine started.

    Args:
        provider: Provider of a run that another folder or machine started.
        context: Kubeconfig context of such a run.
        namespace: Kubernetes namespace of such a run.
        project: Google Cloud project of such a run. Default: of your login.
        profile: AWS profile of such a run.
        subscription: Azure subscription of such a run. Default: of your login.
        region: Region of such a run. Default: every region with resources of cloudgan.
        store: Store of such a run, if it is not the account's own bucket.
    """
    return RunLocator(provider, context, namespace, project, profile, subscription, region, store)


def account_flags(
    *,
    provider: CloudName | None = None,
    project: str | None = None,
    profile: str | None = None,
    subscription: str | None = None,
    region: str | None = None,
) -> RunLocator:
    """Returns the requested accounts.

    Args:
        provider: The cloud. Default: every cloud that you are logged in to.
        project: Google Cloud project. Default: of your login.
        profile: AWS profile. Default: AWS_PROFILE, or the login that is found.
        subscription: Azure subscription. Default: AZURE_SUBSCRIPTION_ID, or the login's only one.
        region: Such as us-central1; only valid with --provider.

    Raises:
        ConfigError: A flag of one cloud was given for another cloud, or for all.
    """
    for flag, value in (("project", project), ("profile", profile), ("subscription", subscription)):
        valid = [name for name, cloud in CLOUDS.items() if cloud.account_flag == flag]
        if value and provider not in (*valid, None):
            raise ConfigError(
                f"--{flag} is only valid with --provider={' or '.join(valid)}, and"
                f" --provider={provider} was given"
            )
    if region and provider is None:
        raise ConfigError(f"--region={region} is in one cloud: add --provider={', '.join(CLOUDS)}")
    return RunLocator(
        provider=provider,
        project=project,
        profile=profile,
        subscription=subscription,
        region=region,
    )


def _nodes(text: str) -> int | None:
    if text == AUTO:
        return None
    if text.strip("+-_0123456789"):
        raise ConfigError(f"--nodes must be a whole number or {AUTO}, got {text!r}")
    return ranges.parse_whole("--nodes", text, ranges.FLAGS["nodes"])


def _labels(text: str | None) -> dict[str, str]:
    labels: dict[str, str] = {}
    for part in filter(None, (text or "").split(",")):
        key, equals, value = part.partition("=")
        if not key or not equals:
            raise ConfigError(f"--node-selector={text}: write label=value, separated by commas")
        labels[key] = value
    return labels
