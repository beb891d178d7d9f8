"""Where and on what a run is launched: the flags that `plan` and `deploy` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from cloudgan.cli.durations import seconds_of
from cloudgan.core.errors import ConfigError

_GANG_TIMEOUT = "20m"
_GANG_TIMEOUT_OF_A_BATCH_QUEUE = "7d"
"""What waits in Slurm's queue costs nothing, and all nodes come at once."""

ProviderFlag = Literal["aws", "azure", "gcp", "kubernetes", "local", "slurm"]
AnyProviderFlag = Literal["aws", "azure", "cheapest", "gcp", "kubernetes", "local", "slurm"]
AUTO = "auto"


@dataclass(frozen=True)
class LaunchFlags:
    """What was asked, checked as far as no file and no network is needed.

    Attributes:
        nodes: How many; None: as few as is cheapest within the limits.
        accelerator: Name and number in each node, such as ("v100", 8); None: no accelerator.
        has_count: Whether that number was said.
        gang_timeout_seconds: For all workers to be up.
        node_selector: Labels that nodes must have.
        offer: What a node is rented as.
    """

    provider: AnyProviderFlag
    name: str | None
    nodes: int | None
    accelerator: tuple[str, int] | None
    has_count: bool
    cpus: float | None
    memory_gib: float | None
    context: str | None
    namespace: str | None
    queue: str | None
    service_account: str | None
    node_selector: dict[str, str]
    store: str | None
    image: str | None
    secrets: tuple[str, ...]
    offer: str | None
    budget_usd: float | None
    max_hours: float
    gang_timeout_seconds: float


def launch_flags(
    *,
    provider: AnyProviderFlag = "local",
    name: str | None = None,
    nodes: str = "1",
    accelerator: str | None = None,
    cpus: float | None = None,
    memory_gib: float | None = None,
    context: str | None = None,
    namespace: str | None = None,
    queue: str | None = None,
    service_account: str | None = None,
    node_selector: str | None = None,
    store: str | None = None,
    image: str | None = None,
    secrets: str | None = None,
    as_: str | None = None,
    budget_usd: float | None = None,
    max_hours: float = 24.0,
    gang_timeout: str | None = None,
) -> LaunchFlags:
    """Returns what was asked.

    Args:
        provider: gcp, aws or azure (nodes are made and removed), cheapest (of the three),
            kubernetes (any cluster of your kubeconfig), slurm, or local (processes here).
        name: Of the run and of all that is made for it; a DNS label. Default: PRESET-DIGITS.
        nodes: How many, one worker on each; or on a cloud auto, which keeps the global batch and
            takes what is cheapest within --budget_usd and --max_hours.
        accelerator: NAME or NAME:COUNT in each node, such as v100:8; a family such as a100 means
            its cheapest member. Default COUNT: 1, or the fewest that a cloud sells. On a cloud also
            a type of node, such as v3-8 or p3.2xlarge.
        cpus: Cores of each worker. Default: 4, or 6 for each accelerator, at most 3/4 of what --as
            has; locally all, shared.
        memory_gib: Memory of each worker. Default: 8, or 16 for each accelerator, likewise.
        context: Of the kubeconfig. Default: its current one.
        namespace: Of the cluster. Default: cloudgan.
        queue: Of Kueue, or a partition of Slurm.
        service_account: Of the pods, where the store's rights hang on one.
        node_selector: Labels of the nodes, such as pool=gpu,disk=ssd.
        store: gs://, s3:// or Azure blob URL, pvc:CLAIM, or on Slurm a folder that all nodes see,
            for checkpoints, logs and data.
        image: Container that has cloudgan. Default: TensorFlow's public one, and wheels.
        secrets: Names of Kubernetes secrets whose keys become variables of the pods.
        as_: Offer whose price a node has, such as gcp/n1-standard-8+1xV100/us-central1/spot.
        budget_usd: Most that the run may cost, all attempts together; needs a price (--as) where
            the nodes are yours.
        max_hours: The job ends by itself after this time.
        gang_timeout: Time in which all workers must be up, such as 40m. Default: 20m; on Slurm 7d.

    Raises:
        ConfigError: A value is not possible.
    """
    for flag, value in (
        ("--cpus", cpus),
        ("--memory_gib", memory_gib),
        ("--max_hours", max_hours),
        ("--budget_usd", budget_usd),
    ):
        if value is not None and value <= 0:
            raise ConfigError(f"{flag}={value:g} must be above zero")
    if gang_timeout is None:
        gang_timeout = _GANG_TIMEOUT_OF_A_BATCH_QUEUE if provider == "slurm" else _GANG_TIMEOUT
    return LaunchFlags(
        provider=provider,
        name=name,
        nodes=_nodes(str(nodes)),
        accelerator=_accelerator(accelerator),
        has_count=":" in (accelerator or ""),
        cpus=cpus,
        memory_gib=memory_gib,
        context=context,
        namespace=namespace,
        queue=queue,
        service_account=service_account,
        node_selector=_labels(node_selector),
        store=store,
        image=image,
        secrets=tuple(filter(None, (secrets or "").split(","))),
        offer=as_,
        budget_usd=budget_usd,
        max_hours=max_hours,
        gang_timeout_seconds=seconds_of(gang_timeout, "--gang_timeout"),
    )


class Where(NamedTuple):
    """Where a run is, when this folder does not remember it."""

    provider: str | None = None
    context: str | None = None
    namespace: str | None = None
    project: str | None = None
    profile: str | None = None
    subscription: str | None = None
    region: str | None = None
    store: str | None = None


REMEMBERED = Where()
"""This folder knows."""


def where_flags(
    *,
    provider: ProviderFlag | None = None,
    context: str | None = None,
    namespace: str | None = None,
    project: str | None = None,
    profile: str | None = None,
    subscription: str | None = None,
    region: str | None = None,
    store: str | None = None,
) -> Where:
    """Returns where a run is said to be.

    Args:
        provider: Where the run is, when it was started elsewhere.
        context: Of the kubeconfig, likewise.
        namespace: Of the cluster, likewise.
        project: Of Google Cloud, likewise. Default: that of your login.
        profile: Of AWS' own files, likewise.
        subscription: Of Azure, likewise. Default: that of your login.
        region: Of the cloud, likewise. Default: every one that has something of cloudgan's.
        store: Of the run, likewise, where it is not the account's own bucket.
    """
    return Where(provider, context, namespace, project, profile, subscription, region, store)


def _nodes(text: str) -> int | None:
    if text == AUTO:
        return None
    if not text.lstrip("+-").isdecimal():
        raise ConfigError(f"--nodes must be a whole number or {AUTO}, got {text!r}")
    if int(text) < 1:
        raise ConfigError(f"--nodes={text}: a run needs at least one node")
    return int(text)


def _accelerator(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    name, colon, count = text.partition(":")
    if not name or (colon and not (count.isdigit() and int(count))):
        raise ConfigError(
            f"--accelerator={text} must be NAME or NAME:COUNT, such as v100 or v100:8"
        )
    return name, int(count) if colon else 1


def _labels(text: str | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in filter(None, (text or "").split(",")):
        key, equals, value = part.partition("=")
        if not key or not equals:
            raise ConfigError(f"--node_selector={text}: write label=value, parted by commas")
        found[key] = value
    return found
