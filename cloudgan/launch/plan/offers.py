"""Offers of the price catalog that match a request, or the node type without a price that it names."""

from __future__ import annotations

from typing import NamedTuple

from cloudgan.core import machines
from cloudgan.core.clouds import CLOUDS, choices
from cloudgan.core.errors import ConfigError, PlanError, UnknownNameError
from cloudgan.launch.backends.tpu_vm.slices import unsupported_reason
from cloudgan.launch.plan.flags import CHEAPEST
from cloudgan.launch.plan.request import AttemptHistory, LaunchRequest
from cloudgan.money.catalog import Catalog, is_of, is_same
from cloudgan.schema.plan import Plan, Selection
from cloudgan.schema.price_row import Market, PriceRow


class UnpricedNode(NamedTuple):
    """A node type without a known price in its region."""

    provider: str
    node_type: str
    accelerator: str
    accelerator_count: int
    vcpu: int | None
    memory_gib: float | None
    region: str
    market: Market


Node = PriceRow | UnpricedNode


class MatchingOffers(NamedTuple):
    """Offers that match a request.

    Attributes:
        rows: Their prices, in both markets if the request leaves the market open.
        named: Accelerators that the request names; they need no measured throughput.
    """

    rows: tuple[PriceRow, ...]
    description: str
    named: frozenset[str]


def find_offers(
    request: LaunchRequest,
    history: AttemptHistory,
    catalog: Catalog,
    data_cloud: str | None,
) -> MatchingOffers:
    """Returns the offers that match a request.

    Args:
        data_cloud: Cloud that has the data; None: this machine.

    Raises:
        PlanError: No price matches, or the node type is discontinued.
    """
    first = history.first
    if request.price_as and first is None:
        row = catalog.row(request.price_as)
        _check_offer(row, request)
        return MatchingOffers((row,), row.offer, frozenset({row.accelerator}))
    if first is not None and request.fallback != "any":
        return _same_accelerators(first, request, catalog, data_cloud)
    description = _describe(request)
    rows = _of_accelerator(request, catalog) if first is None else catalog.find()
    rows = tuple(row for row in rows if _matches(row, request, data_cloud))
    if not rows:
        name = request.accelerator_name or "NAME"
        cloud = None if request.chooses_cloud else request.provider
        count = request.accelerator_count if request.has_accelerator_count else None
        machines.refuse_missing_accelerator(cloud, name, count)
        hint = catalog.region_hint(cloud, request.regions)
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


def offers_of_clouds(request: LaunchRequest, catalog: Catalog) -> dict[str, tuple[PriceRow, ...]]:
    """Returns the offers of each cloud in both markets that have the requested accelerators.

    Regions were requested of one cloud: they restrict the clouds that have one of that name.
    """
    rows = _of_accelerator(request, catalog)
    found = {name: tuple(row for row in rows if row.provider == name) for name in CLOUDS}
    return {
        name: tuple(row for row in its if row.region in request.regions) or its
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
    if not is_of(row.accelerator, name) or (
        request.has_accelerator_count and count != row.accelerator_count
    ):
        raise ConfigError(
            f"--price-as={row.offer} has {row.accelerator_count} x {row.accelerator}, and"
            f" --accelerator={name}:{count} was given; they must agree"
        )


def _same_accelerators(
    first: Plan,
    request: LaunchRequest,
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
        and _matches(row, request, data_cloud)
    ]
    if request.fallback == "none":
        location = (price.provider, price.node_type, price.region)
        rows = [row for row in rows if (row.provider, row.node_type, row.region) == location]
    description = f"{price.accelerator}:{price.accelerator_count}"
    if not rows:
        raise PlanError(f"no other offer with {description} matches the request")
    return MatchingOffers(tuple(rows), description, frozenset({price.accelerator}))


def _of_accelerator(request: LaunchRequest, catalog: Catalog) -> tuple[PriceRow, ...]:
    name = request.accelerator_name
    if name is None:
        return tuple(row for row in catalog.find() if row.accelerator_count > 0)
    machines.refuse_retired(None, name)
    if why := unsupported_reason(name):
        raise PlanError(why)
    try:
        rows = catalog.find(accelerator=request.accelerator)
    except UnknownNameError as error:
        if request.allow_unknown_price:
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
    data_cloud: str | None,
) -> bool:
    clouds = (data_cloud,) if data_cloud in request.clouds else request.clouds
    return (
        row.provider in clouds
        and (not request.regions or row.region in request.regions)
        and request.fixed_market in (None, row.market)
    )


def _describe(request: LaunchRequest) -> str:
    cloud = "any cloud" if request.provider == CHEAPEST else " or ".join(request.clouds)
    market = {"spot": " spot", "on_demand": " on demand"}.get(request.market, "")
    regions = f" in {' or '.join(request.regions)}" if request.regions else ""
    return f"{request.accelerator or 'any accelerator'} on {cloud}{market}{regions}"


def unpriced_node(request: LaunchRequest, catalog: Catalog) -> UnpricedNode:
    """Returns the requested node type, with its resources if it is in the table of machines."""
    name = request.accelerator_name
    if request.chooses_cloud or name is None or len(request.regions) != 1:
        raise ConfigError(
            "--allow-unknown-price provisions one node type in one region of one cloud: give"
            f" --provider={choices()}, --accelerator=TYPE and --region"
        )
    if request.budget_usd is not None or request.max_usd_per_hour is not None:
        raise ConfigError(
            "--budget-usd and --max-usd-per-hour need a price, and this node type has none: omit"
            " them and limit the run by --max-hours"
        )
    if any(is_of(row.accelerator, name) for row in catalog.rows):
        raise ConfigError(
            f"--accelerator={name} is an accelerator; with --allow-unknown-price give a node type,"
            " such as a2-highgpu-1g or g5.xlarge"
        )
    market = request.fixed_market or "on_demand"
    region = request.regions[0]
    if one := machines.find(request.provider, name):
        kind = (one.accelerator, one.accelerators, one.vcpu, one.memory_gib)
        return UnpricedNode(one.provider, one.node_type, *kind, region, market)
    return UnpricedNode(request.provider, name, name, 1, None, None, region, market)


def unpriced_choice(node: UnpricedNode, request: LaunchRequest) -> Selection:
    """Returns the reason for a node type without a price."""
    return Selection(
        reason=f"--allow-unknown-price: the price of {node.node_type} in {node.region} is unknown",
        market_reason="as requested"
        if request.fixed_market
        else "on demand: without a price the benefit of spot is unknown",
    )
