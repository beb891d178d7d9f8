"""From flags to a plan: what `plan` shows and `deploy` does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloudgan.cli.launch_showers import PAPER_SHOWERS, look_at, path_for_workers
from cloudgan.cli.place import NAMESPACE, RUNS, find_place
from cloudgan.cli.rented_plan import choose_offer, rented_place, with_rental
from cloudgan.cli.run_options import resolve
from cloudgan.core import launch, settings
from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import this_machine
from cloudgan.core.labels import checked_name, spec_digits
from cloudgan.core.plan import CLOUDS, Place, Plan, Workers
from cloudgan.cost.catalog import is_of, load_catalog
from cloudgan.cost.elsewhere import speeds
from cloudgan.cost.elsewhere_runs import PAPER_NETWORK, paper_measurements
from cloudgan.kubernetes.manifests import CLAIM
from cloudgan.launching.ledger import spent_usd
from cloudgan.planning.planning import Asked, make_plan
from cloudgan.planning.renting import all_steps
from cloudgan.providers.clouds import rules
from cloudgan.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.cli.launch_flags import LaunchFlags
    from cloudgan.cli.rent_flags import RentFlags
    from cloudgan.core.config import RunConfig
    from cloudgan.core.plan import Step, Wheel
    from cloudgan.core.price_row import PriceRow

PUBLIC_IMAGE = "tensorflow/tensorflow:2.21.0"
_CORES, _CORES_PER_ACCELERATOR = 4, 6
_GIB, _GIB_PER_ACCELERATOR = 8.0, 16.0
_OF_A_NODE = 0.75


def planned(
    flags: LaunchFlags,
    rent: RentFlags,
    training: tuple[dict[str, Any], str | None],
    wheels: Callable[[str | None], tuple[Wheel, ...]],
) -> Plan:
    """Returns the plan of what was asked.

    Args:
        flags: Where and on what.
        rent: What is rented, where nodes are made for the run.
        training: What, as `training_flags` returns it.
        wheels: Finds what pods with such accelerators, without cloudgan in their image, must install.

    Raises:
        ConfigError: Something asked is not possible; nothing was started.
        BudgetError: The budget does not suffice.
    """
    _check_fit(flags, rent)
    is_rented = flags.provider in CLOUDS
    if is_rented:
        price: PriceRow | None = choose_offer(flags, rent)
    else:
        price = load_catalog().row(flags.offer) if flags.offer else None
    workers = _workers(flags, rent, price)
    config = _config(flags, training, workers)
    place = rented_place(price, rent) if is_rented and price else _place(flags)
    folder = RunFolder(RUNS / config.name)
    store = _store(flags, place, folder)
    moves = place.provider != "local"
    showers = look_at(config.data.path, store, moves=moves)
    data = config.data.model_copy(update={"path": path_for_workers(showers, folder, moves=moves)})
    config = config.model_copy(update={"data": data})
    asked = Asked(
        config=config,
        place=place,
        workers=workers,
        store=store,
        store_port=_store_port(store),
        showers=showers,
        owner=settings.user_name(),
        max_hours=flags.max_hours,
        gang_timeout_seconds=flags.gang_timeout_seconds,
        budget_usd=flags.budget_usd,
        spent_usd=_spent(folder),
        price=price,
        max_usd_per_hour=rent.max_usd_per_hour,
        wheels=wheels(workers.accelerator) if workers.image and not flags.image else (),
    )
    if is_rented:
        asked = with_rental(asked, rent, has_own_image=flags.image is not None)
    network = config.model.networks
    known = paper_measurements() if network == PAPER_NETWORK else ()
    model = speeds(network, showers.records or PAPER_SHOWERS, known)
    return make_plan(asked, model, _requests(place), utc_moment())


def _check_fit(flags: LaunchFlags, rent: RentFlags) -> None:
    address, question, _ = (flags.store or "").partition("?")
    if question or "@" in address:
        raise ConfigError(
            f"--store={address.rpartition('@')[2]}... holds a login, and a plan is no secret: leave"
            " it out and let --secrets name what has it, or your environment hold it"
        )
    if flags.provider in CLOUDS:
        _check_fit_of_cloud(flags)
        return
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


def _check_fit_of_cloud(flags: LaunchFlags) -> None:
    given = {"--context": flags.context, "--namespace": flags.namespace, "--queue": flags.queue}
    named = [name for name, value in given.items() if value]
    if named:
        raise ConfigError(
            f"{' and '.join(named)} name a cluster that is there; add --provider=kubernetes, which"
            f" --provider={flags.provider} is not"
        )


def _check_fit_of_cluster(flags: LaunchFlags) -> None:
    if flags.accelerator and _is_tpu(flags.accelerator[0]):
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


def _fitting(wanted: float, of_the_node: float | None) -> float:
    """What is asked for by default: a node keeps a fifth or so for its system, or takes no pod."""
    return wanted if of_the_node is None else max(1, min(wanted, int(_OF_A_NODE * of_the_node)))


def _is_tpu(accelerator: str) -> bool:
    return accelerator.casefold().startswith("tpu")


def _workers(flags: LaunchFlags, rent: RentFlags, price: PriceRow | None) -> Workers:
    accelerator, count = _accelerators(flags, price)
    cpus, memory_gib = flags.cpus, flags.memory_gib
    if flags.provider == "local":
        machine = this_machine()
        cpus = cpus or max(1, machine.cores // flags.nodes)
        memory_gib = memory_gib or max(1.0, round((machine.memory_gib or _GIB) / flags.nodes, 1))
    return Workers(
        nodes=flags.nodes,
        accelerator=accelerator,
        accelerators_per_node=count,
        cpus=cpus
        or _fitting(_CORES_PER_ACCELERATOR * count or _CORES, price.vcpu if price else None),
        memory_gib=memory_gib
        or _fitting(_GIB_PER_ACCELERATOR * count or _GIB, price.memory_gib if price else None),
        node_selector=flags.node_selector,
        image=(flags.image or PUBLIC_IMAGE + ("-gpu" if count else ""))
        if flags.provider not in ("local", "slurm")
        else None,
        secrets=flags.secrets,
        pull_secret=rent.pull_secret,
    )


def _accelerators(flags: LaunchFlags, price: PriceRow | None) -> tuple[str | None, int]:
    """What each node has: as asked, with the catalogue's spelling, or as the offer says."""
    if flags.accelerator is None:
        has_some = price is not None and price.accelerator_count > 0
        return (price.accelerator, price.accelerator_count) if price and has_some else (None, 0)
    name, count = flags.accelerator
    if price and (count != price.accelerator_count or not is_of(price, name)):
        raise ConfigError(
            f"--as={flags.offer} has {price.accelerator_count} x {price.accelerator}, and"
            f" --accelerator={name}:{count} was asked; they must agree"
        )
    if price:
        return price.accelerator, count
    spelt = {known.casefold(): known for known in load_catalog().accelerators()}
    return spelt.get(name.casefold(), name), count


def _config(
    flags: LaunchFlags, training: tuple[dict[str, Any], str | None], workers: Workers
) -> RunConfig:
    asked, file = training
    asked = asked | {
        "training.strategy": "multiworker" if workers.nodes > 1 else None,
        "training.workers": workers.nodes if workers.nodes > 1 else None,
        "training.threads": max(1, int(workers.cpus)),
    }
    name = flags.name
    if name is None:
        config, _ = resolve(asked, config=file, run=None, fresh=True)
        digits = spec_digits(config.mathematics() | {"nodes": workers.nodes})[:6]
        name = f"{config.model.preset}-{digits}"
    config, _ = resolve(asked, config=file, run=str(RUNS / checked_name(name)), fresh=True)
    return config


def _place(flags: LaunchFlags) -> Place:
    place = find_place(flags.provider, flags.context, flags.namespace)
    return place.model_copy(update={"queue": flags.queue, "service_account": flags.service_account})


def _store(flags: LaunchFlags, place: Place, folder: RunFolder) -> str:
    if place.provider == "slurm":
        return _shared_store(flags.store)
    if place.is_rented:
        return flags.store or rules(place.provider).store(place)
    return flags.store or str((folder.path / "store").resolve())


def _shared_store(store: str | None) -> str:
    if not store or store.startswith(CLAIM):
        raise ConfigError(
            "--provider=slurm keeps checkpoints, logs and data in a folder that all nodes see: give"
            " --store=FOLDER on the cluster's shared disk, or a bucket"
        )
    if "://" in store:
        return store
    found = Path(store).expanduser().resolve()
    if found == RUNS.resolve().parent:
        raise ConfigError(
            f"--store={store} is the folder in which runs/ keeps your own copies; take another one"
            " beside it, such as --store=store"
        )
    return str(found)


def _store_port(store: str) -> int:
    """Stores of one's own, such as MinIO, listen where AWS_ENDPOINT_URL says."""
    from urllib.parse import urlsplit

    endpoint = settings.variable("AWS_ENDPOINT_URL_S3") or settings.variable("AWS_ENDPOINT_URL")
    if not store.startswith("s3://") or not endpoint:
        return 443
    found = urlsplit(endpoint)
    return found.port or (80 if found.scheme == "http" else 443)


def _spent(folder: RunFolder) -> float:
    path = folder.launch_file
    return spent_usd(launch.read(path), utc_moment().timestamp()) if path.exists() else 0.0


def _requests(place: Place) -> Callable[[Plan], tuple[Step, ...]]:
    if place.is_rented:
        return all_steps
    if place.provider == "kubernetes":
        from cloudgan.providers.kubernetes.requests import steps

        return steps
    if place.provider == "slurm":
        from cloudgan.providers.slurm.requests import steps as slurm_steps

        return slurm_steps
    from cloudgan.providers.local.requests import steps as local_steps

    return local_steps


__all__ = ["NAMESPACE", "PUBLIC_IMAGE", "planned"]
