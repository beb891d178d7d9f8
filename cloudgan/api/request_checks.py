"""Which values of a launch request apply to its provider, checked before anything is planned."""

from __future__ import annotations

import re
from collections.abc import Iterable

from cloudgan.api.launch_request import (
    AUTO,
    CHEAPEST,
    NOTHING_PROVISIONED,
    LaunchRequest,
    ProvisioningRequest,
)
from cloudgan.core.clouds import CLOUDS
from cloudgan.core.errors import ConfigError
from cloudgan.core.options import options_of
from cloudgan.cost.prices.catalog import spelt
from cloudgan.launch.kubernetes.manifests import CLAIM

_CLOUD_FLAGS = f"--provider={', '.join(CLOUDS)} or {CHEAPEST}"


def check_request(launch: LaunchRequest, provisioning: ProvisioningRequest) -> None:
    """Checks that all values of a request apply to its provider.

    Raises:
        ConfigError: A value does not apply; names it and the flag to give.
    """
    if "?" in (launch.store or ""):
        raise ConfigError(
            "--store has a ?, behind which credentials stand, and a plan is not secret: omit them, and give"
            " them by --secret or in the environment"
        )
    if launch.provider != "slurm":
        names = launch.slurm.model_dump(exclude_defaults=True)
        _refuse(
            (f"--{name.replace('_', '-')}" for name in names), "--provider=slurm", launch.provider
        )
    if launch.is_provisioned:
        _check_cloud(launch, provisioning)
        if launch.reservation:
            _check_reservation(launch, provisioning)
        return
    if launch.reservation:
        _refuse(["--reservation"], f"--provider={', '.join(CLOUDS)} or slurm", launch.provider)
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
        "--kubernetes-secrets": launch.kubernetes_secrets,
        "--image-pull-secret": provisioning.pull_secret,
    }
    given = (name for name, value in only_on_clusters.items() if value)
    _refuse(given, "--provider=kubernetes", launch.provider)
    if launch.provider == "local" and (launch.queue or (launch.store or "").startswith(CLAIM)):
        raise ConfigError(
            "--queue and --store=pvc: are not valid with --provider=local; omit them, or give"
            " --provider=kubernetes"
        )


def _refuse(given: Iterable[str], valid: str, provider: str) -> None:
    """Raises ConfigError if any flag is given."""
    if names := " and ".join(given):
        raise ConfigError(f"{names}: only valid with {valid}, and --provider={provider} was given")


def _check_nothing_provisioned(launch: LaunchRequest, provisioning: ProvisioningRequest) -> None:
    if launch.nodes is None:
        raise ConfigError(
            f"--nodes={AUTO} is only valid with {_CLOUD_FLAGS}; give the number of nodes"
        )
    # A price limit and a pull secret are valid for any node and any pod.
    given = (
        f"--{one.name}"
        for one in options_of(ProvisioningRequest)
        if one.key not in {"max_usd_per_hour", "pull_secret"}
        and getattr(provisioning, one.key) != getattr(NOTHING_PROVISIONED, one.key)
    )
    _refuse(given, _CLOUD_FLAGS, launch.provider)


def _check_cloud(launch: LaunchRequest, provisioning: ProvisioningRequest) -> None:
    given = {
        "--context": launch.context,
        "--namespace": launch.namespace,
        "--queue": launch.queue,
        "--price-file": launch.price_file,
    }
    names = (name for name, value in given.items() if value)
    _refuse(names, "an existing cluster, such as --provider=kubernetes", launch.provider)
    if launch.provider != "gcp" and provisioning.network_details:
        _refuse(["--network, --subnet, --internal-ips"], "--provider=gcp", launch.provider)
    if launch.chooses_cloud:
        if launch.store:
            raise ConfigError(
                f"--store is in one cloud, and --provider={launch.provider} can select any; name the store's"
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


def _check_reservation(launch: LaunchRequest, provisioning: ProvisioningRequest) -> None:
    """Refuses flags that would start other nodes than those of the reservation."""
    if launch.chooses_cloud or launch.accelerator is None:
        raise ConfigError(
            "--reservation is of one node type in one cloud: give --provider and --accelerator, such as"
            " --accelerator=a3-highgpu-8g"
        )
    if len(provisioning.restricted_to_zone(launch.provider).regions) != 1:
        raise ConfigError("--reservation is in one region: give --region or --zone")
    if provisioning.keep_nodes_seconds:
        raise ConfigError(
            "--keep-nodes and --reservation: waiting nodes occupy the reservation that the next run asks"
            " for; omit --keep-nodes, since the reservation keeps the capacity"
        )
    others = {
        "--market=spot": provisioning.market == "spot",
        "--flex-start": provisioning.flex_start,
        f"--fallback={provisioning.fallback}": provisioning.fallback != "none",
    }
    if given := [flag for flag, is_given in others.items() if is_given]:
        raise ConfigError(
            f"{' and '.join(given)} would start nodes outside of --reservation={launch.reservation}; give"
            " only one of them"
        )


def _check_cluster(launch: LaunchRequest) -> None:
    if launch.accelerator_name and spelt(launch.accelerator_name).startswith("TPU"):
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
