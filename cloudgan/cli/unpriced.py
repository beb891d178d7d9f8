"""A node of which nobody knows the price: rented only by its type, in a region that was named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.cli.launch_fit import CHEAPEST
from cloudgan.cli.offer_search import wanted_market
from cloudgan.core.choice import Choice
from cloudgan.core.errors import ConfigError
from cloudgan.planning.node_kind import UnpricedNode

if TYPE_CHECKING:
    from cloudgan.cli.launch_flags import LaunchFlags
    from cloudgan.cli.rent_flags import RentFlags
    from cloudgan.cost.catalog import Catalog


def unpriced_node(flags: LaunchFlags, rent: RentFlags, catalog: Catalog) -> UnpricedNode:
    """Returns the node that was named, as other regions have it.

    Raises:
        ConfigError: Its type, its cloud or its region was not named, or there is a budget, which
            needs a price.
    """
    if flags.provider == CHEAPEST or flags.accelerator is None or len(rent.regions) != 1:
        raise ConfigError(
            "--allow_unknown_price rents one type of node in one region of one cloud: give"
            " --provider=gcp, aws or azure, --accelerator=TYPE and --region"
        )
    if flags.budget_usd is not None or rent.max_usd_per_hour is not None:
        raise ConfigError(
            "--budget_usd and --max_usd_per_hour need a price, and nobody knows it: leave them out"
            " and limit the run by --max_hours"
        )
    name, _ = flags.accelerator
    accelerators = {known.casefold() for known in catalog.accelerators()}
    if name.casefold() in accelerators or any(
        a.startswith(f"{name.casefold()}-") for a in accelerators
    ):
        raise ConfigError(
            f"--accelerator={name} is an accelerator; with --allow_unknown_price name a type of node,"
            " such as a2-highgpu-1g or p3.2xlarge"
        )
    market = wanted_market(rent) or "on_demand"
    for row in catalog.find(provider=flags.provider):
        if row.node_type.casefold() == name.casefold():
            kind = (row.accelerator, row.accelerator_count, row.vcpu, row.memory_gib)
            return UnpricedNode(row.provider, row.node_type, *kind, rent.regions[0], market)
    return UnpricedNode(flags.provider, name, name, 1, None, None, rent.regions[0], market)


def unpriced_choice(node: UnpricedNode, rent: RentFlags) -> Choice:
    """Returns why it is rented all the same."""
    return Choice(
        why=f"--allow_unknown_price: nobody knows what {node.node_type} costs in {node.region}",
        market_why="as asked"
        if wanted_market(rent)
        else "without a price nobody can say whether spot pays",
    )
