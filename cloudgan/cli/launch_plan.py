"""From flags to a plan: what `plan` shows and `deploy` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.cli.launch_asked import asked_of
from cloudgan.cli.launch_config import config_of, speeds_of
from cloudgan.cli.launch_fit import check_fit, is_rented
from cloudgan.cli.launch_workers import workers_of
from cloudgan.cli.past_attempts import NOTHING_TRIED, Past
from cloudgan.cli.place import RUNS, find_place
from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import BudgetError, ConfigError
from cloudgan.cost.catalog import load_catalog
from cloudgan.kubernetes.manifests import CLAIM
from cloudgan.planning.planning import make_plan
from cloudgan.providers.clouds import BUILT_IN, Clouds
from cloudgan.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.cli.launch_config import Training
    from cloudgan.cli.launch_flags import LaunchFlags
    from cloudgan.cli.rent_flags import RentFlags
    from cloudgan.core.plan import Place, Plan, Step, Wheel


def planned(
    flags: LaunchFlags,
    rent: RentFlags,
    training: Training,
    wheels: Callable[[str | None], tuple[Wheel, ...]],
    *,
    clouds: Clouds = BUILT_IN,
    past: Past = NOTHING_TRIED,
) -> Plan:
    """Returns the plan of what was asked.

    Args:
        flags: Where and on what.
        rent: What is rented, where nodes are made for the run.
        training: What, as `training_flags` returns it.
        wheels: Finds what pods with such accelerators, without cloudgan in their image, must install.
        clouds: Those that are known.
        past: Attempts before.

    Raises:
        ConfigError: Something asked is not possible; nothing was started.
        PlanError: No offer is what was asked.
        BudgetError: The budget does not suffice.
    """
    check_fit(flags, rent)
    if is_rented(flags):
        from cloudgan.cli.rented_plan import rented_plan

        return rented_plan(flags, rent, training, wheels, clouds=clouds, past=past)
    nodes = flags.nodes or 1
    price = load_catalog().row(flags.offer) if flags.offer else None
    if price and rent.max_usd_per_hour and price.usd_per_hour * nodes > rent.max_usd_per_hour:
        raise BudgetError(
            f"{nodes} x {price.offer} cost {price.usd_per_hour * nodes:.2f} USD per hour, more than"
            f" --max_usd_per_hour={rent.max_usd_per_hour:g}"
        )
    workers = workers_of(flags, nodes, price)
    config = config_of(flags.name, training, workers)
    place = _place(flags)
    store = _store(flags, place, RunFolder(RUNS / config.name))
    asked = asked_of(
        flags,
        rent,
        config=config,
        place=place,
        workers=workers,
        store=store,
        wheels=wheels,
        price=price,
    )
    return make_plan(asked, speeds_of(config, asked.showers), _requests(place), utc_moment())


def _place(flags: LaunchFlags) -> Place:
    place = find_place(flags.provider, flags.context, flags.namespace)
    return place.model_copy(update={"queue": flags.queue, "service_account": flags.service_account})


def _store(flags: LaunchFlags, place: Place, folder: RunFolder) -> str:
    if place.provider == "slurm":
        return _shared_store(flags.store)
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


def _requests(place: Place) -> Callable[[Plan], tuple[Step, ...]]:
    if place.provider == "kubernetes":
        from cloudgan.providers.kubernetes.requests import steps

        return steps
    if place.provider == "slurm":
        from cloudgan.providers.slurm.requests import steps as slurm_steps

        return slurm_steps
    from cloudgan.providers.local.requests import steps as local_steps

    return local_steps
