"""Matches a launch request with the offers of the price catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cloudgan.api.launch_request import CHEAPEST
from cloudgan.core.clouds import CLOUDS, choices
from cloudgan.core.errors import ConfigError, PlanError, UnknownNameError
from cloudgan.cost.prices.catalog import is_of, is_same
from cloudgan.cost.prices.discontinued import refuse_discontinued, refuse_missing_accelerator
from cloudgan.launch.backends.tpu_vm.slices import unsupported_reason
from cloudgan.launch.planning.node_types import UnpricedNode
from cloudgan.schema.plan import Selection

if TYPE_CHECKING:
    from cloudgan.api.attempt_history import AttemptHistory
    from cloudgan.api.launch_request import LaunchRequest, ProvisioningRequest
    from cloudgan.cost.prices.catalog import Catalog
    from cloudgan.schema.plan import Plan
    from cloudgan.schema.price_row import PriceRow


class MatchingOffers(NamedTuple):
    """Offers that match a request.

    Attributes:
        rows: Their prices, in both markets if the request leaves the market open.
        description: The request in words.
        named: Accelerators that the request names; they need no measured throughput.
    """

    rows: tuple[PriceRow, ...]
    description: str
    named: frozenset[str]


def find_offers(
    request: LaunchRequest,
    provisioning: ProvisioningRequest,
    history: AttemptHistory,
    catalog: Catalog,
    data_cloud: str | None,
) -> MatchingOffers:
    """Returns the offers that match a request.

    Args:
        request: The launch request.
        provisioning: The provisioning request.
        history: Earlier attempts.
        catalog: The price catalog.
        data_cloud: Cloud that has the data; None: this machine.

    Raises:
        ConfigError: A name is unknown.
        PlanError: No price matches, or the node type is discontinued.
    """
    first = history.first
    if request.price_as and first is None:
        row = catalog.row(request.price_as)
        _check_offer(row, request)
        return MatchingOffers((row,), row.offer, frozenset({row.accelerator}))
    if first is not None and provisioning.fallback != "any":
        return _same_accelerators(first, request, provisioning, catalog, data_cloud)
    description = _describe(request, provisioning)
    rows = _of_accelerator(request, provisioning, catalog) if first is None else catalog.find()
    rows = tuple(row for row in rows if _matches(row, request, provisioning, data_cloud))
    if not rows:
        name = request.accelerator_name or "NAME"
        cloud = None if request.chooses_cloud else request.provider
        count = request.accelerator_count if request.has_accelerator_count else None
        refuse_missing_accelerator(cloud, name, count)
        hint = catalog.region_hint(cloud, provisioning.regions)
        if request.accelerator:
            hint += catalog.count_hint(cloud, request.accelerator)
        raise PlanError(
            f"no price is known for {description}.{hint} `cloudgan offers --accelerator={name}` lists"
            " known prices, `cloudgan prices refresh` fetches current ones, and"
            " --allow-unknown-price with a node type (--accelerator=TYPE) and one --region"
            " provisions it without a price"
        )
    named = _named_accelerators(rows, request) if first is None else frozenset()
    return MatchingOffers(rows, description, named)


def offers_of_clouds(
    request: LaunchRequest, provisioning: ProvisioningRequest, catalog: Catalog
) -> dict[str, tuple[PriceRow, ...]]:
    """Returns the offers of each cloud in both markets that have the requested accelerators.

    Regions were requested of one cloud: they restrict the clouds that have one of that name.
    """
    rows = _of_accelerator(request, provisioning, catalog)
    found = {name: tuple(row for row in rows if row.provider == name) for name in CLOUDS}
    return {
        name: tuple(row for row in its if row.region in provisioning.regions) or its
        for name, its in found.items()
    }


def _named_accelerators(rows: tuple[PriceRow, ...], request: LaunchRequest) -> frozenset[str]:
    """The accelerator that --accelerator names, else all of its family or node type."""
    if request.accelerator_name is None:
        return frozenset()
    found = frozenset(row.accelerator for row in rows)
    name = request.accelerator_name
    return frozenset(each for each in found if is_same(each, name)) or found


def _check_offer(row: PriceRow, request: LaunchRequest) -> None:
    """Refuses --price-as if --provider or --accelerator contradict it."""
    if row.provider not in request.clouds:
        raise ConfigError(
            f"--price-as={row.offer} is in {row.provider}, and --provider={request.provider} was"
            " given; they must agree"
        )
    name, count = request.accelerator_name, request.accelerator_count
    if name is None or name.casefold() == row.node_type.casefold():
        return
    if not is_of(row, name) or (request.has_accelerator_count and count != row.accelerator_count):
        raise ConfigError(
            f"--price-as={row.offer} has {row.accelerator_count} x {row.accelerator}, and"
            f" --accelerator={name}:{count} was given; they must agree"
        )


def _same_accelerators(
    first: Plan,
    request: LaunchRequest,
    provisioning: ProvisioningRequest,
    catalog: Catalog,
    data_cloud: str | None,
) -> MatchingOffers:
    """Offers with the first attempt's accelerators; without fallback only its node type and region."""
    price = first.price
    if price is None:
        raise PlanError("cannot fall back: the node type of the first attempt has no price")
    rows = [
        row
        for row in catalog.find()
        if (row.accelerator, row.accelerator_count) == (price.accelerator, price.accelerator_count)
        and _matches(row, request, provisioning, data_cloud)
    ]
    if provisioning.fallback == "none":
        location = (price.provider, price.node_type, price.region)
        rows = [row for row in rows if (row.provider, row.node_type, row.region) == location]
    description = f"{price.accelerator}:{price.accelerator_count}"
    if not rows:
        raise PlanError(f"no other offer with {description} matches the request")
    return MatchingOffers(tuple(rows), description, frozenset({price.accelerator}))


def _of_accelerator(
    request: LaunchRequest, provisioning: ProvisioningRequest, catalog: Catalog
) -> tuple[PriceRow, ...]:
    name = request.accelerator_name
    if name is None:
        return tuple(row for row in catalog.find() if row.accelerator_count > 0)
    refuse_discontinued(None, name)
    if why := unsupported_reason(name):
        raise PlanError(why)
    try:
        rows = catalog.find(accelerator=request.accelerator)
    except UnknownNameError as error:
        if provisioning.allow_unknown_price:
            return ()
        raise ConfigError(
            f"{error} A node type, such as v3-8 or g5.xlarge, is valid too"
        ) from error
    return rows if request.has_accelerator_count or request.nodes is None else _smallest(rows)


def _smallest(rows: tuple[PriceRow, ...]) -> tuple[PriceRow, ...]:
    """Nodes with the fewest accelerators that each cloud sells: the default without a count."""
    least: dict[str, int] = {}
    for row in rows:
        count = row.accelerator_count
        least[row.provider] = min(least.get(row.provider, count), count)
    return tuple(row for row in rows if row.accelerator_count == least[row.provider])


def _matches(
    row: PriceRow,
    request: LaunchRequest,
    provisioning: ProvisioningRequest,
    data_cloud: str | None,
) -> bool:
    clouds = (data_cloud,) if data_cloud in request.clouds else request.clouds
    return (
        row.provider in clouds
        and (not provisioning.regions or row.region in provisioning.regions)
        and provisioning.fixed_market in (None, row.market)
    )


def _describe(request: LaunchRequest, provisioning: ProvisioningRequest) -> str:
    cloud = "any cloud" if request.provider == CHEAPEST else " or ".join(request.clouds)
    market = {"spot": " spot", "on_demand": " on demand"}.get(provisioning.market, "")
    regions = f" in {' or '.join(provisioning.regions)}" if provisioning.regions else ""
    return f"{request.accelerator or 'any accelerator'} on {cloud}{market}{regions}"


def unpriced_node(
    request: LaunchRequest, provisioning: ProvisioningRequest, catalog: Catalog
) -> UnpricedNode:
    """Returns the requested node type, with the resources it has in other regions.

    Raises:
        ConfigError: The request does not name one type, cloud and region, or has a price limit.
    """
    name = request.accelerator_name
    if request.chooses_cloud or name is None or len(provisioning.regions) != 1:
        raise ConfigError(
            "--allow-unknown-price provisions one node type in one region of one cloud: give"
            f" --provider={choices()}, --accelerator=TYPE and --region"
        )
    if request.budget_usd is not None or provisioning.max_usd_per_hour is not None:
        raise ConfigError(
            "--budget-usd and --max-usd-per-hour need a price, and this node type has none: omit"
            " them and limit the run by --max-hours"
        )
    if any(is_of(row, name) for row in catalog.rows):
        raise ConfigError(
            f"--accelerator={name} is an accelerator; with --allow-unknown-price give a node type,"
            " such as a2-highgpu-1g or g5.xlarge"
        )
    market = provisioning.fixed_market or "on_demand"
    region = provisioning.regions[0]
    for row in catalog.find(provider=request.provider):
        if row.node_type.casefold() == name.casefold():
            kind = (row.accelerator, row.accelerator_count, row.vcpu, row.memory_gib)
            return UnpricedNode(row.provider, row.node_type, *kind, region, market)
    return UnpricedNode(request.provider, name, name, 1, None, None, region, market)


def unpriced_choice(node: UnpricedNode, provisioning: ProvisioningRequest) -> Selection:
    """Returns the reason for a node type without a price."""
    return Selection(
        reason=f"--allow-unknown-price: the price of {node.node_type} in {node.region} is unknown",
        market_reason="as requested"
        if provisioning.fixed_market
        else "on demand: without a price the benefit of spot is unknown",
    )
