"""From flags to the offer that a run rents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.core.errors import ConfigError, PlanError
from cloudgan.cost.catalog import load_catalog
from cloudgan.planning.renting import rented
from cloudgan.providers.clouds import Wanted, rules

if TYPE_CHECKING:
    from cloudgan.cli.launch_flags import LaunchFlags
    from cloudgan.cli.rent_flags import RentFlags
    from cloudgan.core.plan import Place
    from cloudgan.core.price_row import PriceRow
    from cloudgan.planning.planning import Asked


def choose_offer(flags: LaunchFlags, rent: RentFlags) -> PriceRow:
    """Returns the cheapest offer of what was asked.

    Raises:
        ConfigError: Nothing says what is wanted.
        PlanError: There is no such offer.
    """
    catalog = load_catalog()
    if flags.offer:
        return catalog.row(flags.offer)
    if flags.accelerator is None:
        raise ConfigError(
            f"--provider={flags.provider} rents nodes: name what they have, such as"
            " --accelerator=v100:8, or one offer, such as --as=gcp/g2-standard-4/us-central1/spot"
        )
    name, count = flags.accelerator
    market = {"always": "spot", "never": "on_demand"}.get(rent.spot)
    rows = [
        row
        for row in catalog.find(provider=flags.provider, accelerator=name)
        if row.accelerator_count == count
        and market in (None, row.market)
        and (not rent.regions or row.region in rent.regions)
    ]
    if not rows:
        raise PlanError(
            f"no price is known of {name}:{count} on {flags.provider} there; `cloudgan offers"
            f" --accelerator={name} --provider={flags.provider}` lists those that are known"
        )
    return rows[0]


def rented_place(row: PriceRow, rent: RentFlags) -> Place:
    """Returns where an offer is."""
    made = rules(row.provider).place(rent.account, row.region, rent.zone, rent.cluster)
    return made.model_copy(update={"profile": rent.profile})


def with_rental(asked: Asked, rent: RentFlags, *, has_own_image: bool) -> Asked:
    """Returns what is asked with what is rented for it."""
    assert asked.price is not None  # noqa: S101  an offer was chosen
    wanted = Wanted(
        run=asked.config.name,
        spec="",
        node_type=asked.price.node_type,
        market=asked.price.market,
        nodes=asked.workers.nodes,
        flex_start=rent.flex_start,
        keep_cluster=rent.keep_cluster,
        has_own_image=has_own_image,
    )
    return rented(asked, wanted)
