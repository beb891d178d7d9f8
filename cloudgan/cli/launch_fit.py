"""What was asked and cannot be: flags that mean nothing for a provider, and places without a store."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from cloudgan.cli.launch_flags import AUTO
from cloudgan.cli.rent_flags import NOTHING_RENTED
from cloudgan.core.errors import ConfigError
from cloudgan.core.plan import CLOUDS
from cloudgan.kubernetes.manifests import CLAIM

if TYPE_CHECKING:
    from cloudgan.cli.launch_flags import LaunchFlags
    from cloudgan.cli.rent_flags import RentFlags

CHEAPEST = "cheapest"
_FLAGS = {
    "account": "project or --subscription",
    "regions": "region",
    "spot_wait_seconds": "spot_wait",
}


def is_rented(flags: LaunchFlags) -> bool:
    """Whether nodes are made for the run."""
    return flags.provider in (*CLOUDS, CHEAPEST)


def check_fit(flags: LaunchFlags, rent: RentFlags) -> None:
    """Returns when all that was asked means something for its provider.

    Raises:
        ConfigError: Something does not; names it, and what to type.
    """
    address, question, _ = (flags.store or "").partition("?")
    if question or "@" in address:
        raise ConfigError(
            f"--store={address.rpartition('@')[2]}... holds a login, and a plan is no secret: leave"
            " it out and let --secrets name what has it, or your environment hold it"
        )
    if is_rented(flags):
        _check_fit_of_cloud(flags, rent)
        return
    _check_not_rented(flags, rent)
    if flags.provider == "kubernetes":
        _check_fit_of_cluster(flags)
        return
    only_on_clusters = {
        "--context": flags.context,
        "--namespace": flags.namespace,
        "--image": flags.image,
        "--service_account": flags.service_account,
        "--node_selector": flags.node_selector,
        "--secrets": flags.secrets,
        "--image_pull_secret": rent.pull_secret,
    }
    given = [name for name, value in only_on_clusters.items() if value]
    if given:
        raise ConfigError(
            f"{' and '.join(given)} mean something on a cluster only; add"
            f" --provider=kubernetes, which --provider={flags.provider} is not"
        )
    if flags.provider == "local" and (flags.queue or (flags.store or "").startswith(CLAIM)):
        raise ConfigError(
            "this machine has no queue and no claims: leave --queue and --store=pvc: out, or add"
            " --provider=kubernetes"
        )


def _check_not_rented(flags: LaunchFlags, rent: RentFlags) -> None:
    if flags.nodes is None:
        raise ConfigError(
            f"--nodes={AUTO} chooses among rented nodes; add --provider=gcp, aws, azure or cheapest,"
            " or say how many"
        )
    plain = replace(
        rent, max_usd_per_hour=None, pull_secret=None
    )  # these are for any price, any pod
    if plain != NOTHING_RENTED:
        given = [
            f"--{_FLAGS.get(key, key)}"
            for key, value in asdict(plain).items()
            if value != getattr(NOTHING_RENTED, key)
        ]
        raise ConfigError(
            f"{' and '.join(given)} mean something where nodes are rented; add --provider=gcp, aws,"
            f" azure or cheapest, which --provider={flags.provider} is not"
        )


def _check_fit_of_cloud(flags: LaunchFlags, rent: RentFlags) -> None:
    given = {"--context": flags.context, "--namespace": flags.namespace, "--queue": flags.queue}
    named = [name for name, value in given.items() if value]
    if named:
        raise ConfigError(
            f"{' and '.join(named)} name a cluster that is there; add --provider=kubernetes, which"
            f" --provider={flags.provider} is not"
        )
    if flags.store and flags.provider == CHEAPEST:
        raise ConfigError(
            "--store is in one cloud, and --provider=cheapest may take any; name the store's cloud as"
            " --provider, or leave --store out: each account has its own"
        )
    if (rent.account or rent.zone or rent.profile) and flags.provider == CHEAPEST:
        raise ConfigError(
            "--project, --subscription, --profile and --zone are of one cloud: name it as --provider"
        )
    if flags.nodes is None and rent.allow_unknown_price:
        raise ConfigError(f"--nodes={AUTO} compares costs; with --allow_unknown_price say how many")


def _check_fit_of_cluster(flags: LaunchFlags) -> None:
    if flags.accelerator and flags.accelerator[0].casefold().startswith("tpu"):
        raise ConfigError(
            f"--accelerator={flags.accelerator[0]}: pods get NVIDIA GPUs only, so far; name one of"
            " those, such as --accelerator=v100:8"
        )
    if not flags.store:
        raise ConfigError(
            "the pods of a cluster keep checkpoints, logs and data in a store: give"
            " --store=gs://BUCKET/prefix, s3://, an Azure blob URL, or pvc:CLAIM"
        )
    if not re.match(r"(pvc:|gs://|s3://|https://).", flags.store):
        raise ConfigError(
            f"--store={flags.store} is no place that pods can reach: give gs://BUCKET/prefix, s3://,"
            " an Azure blob URL, or pvc:CLAIM"
        )
    if flags.store.startswith(CLAIM) and not flags.image:
        raise ConfigError(
            f"--store={flags.store}: only pods can write there, so nobody could bring them their"
            " wheels; give an --image that has cloudgan (deploy/Dockerfile makes one)"
        )
