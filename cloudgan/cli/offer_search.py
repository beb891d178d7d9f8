"""From flags to the offers that are what was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudgan.cli.launch_fit import CHEAPEST
from cloudgan.core.errors import ConfigError, PlanError, UnknownNameError
from cloudgan.core.plan import CLOUDS
from cloudgan.cost.catalog import is_of
from cloudgan.providers.gcp.tpu_slices import never

if TYPE_CHECKING:
    from cloudgan.cli.launch_flags import LaunchFlags
    from cloudgan.cli.past_attempts import Past
    from cloudgan.cli.rent_flags import RentFlags
    from cloudgan.core.plan import Plan
    from cloudgan.core.price_row import Market, PriceRow
    from cloudgan.cost.catalog import Catalog


@dataclass(frozen=True)
class Found:
    """Offers that fit.

    Attributes:
        rows: Their prices, of both markets where spot is to be decided.
        asked: What was asked, in words.
        named: Accelerators that were named, so that they need not be measured.
    """

    rows: tuple[PriceRow, ...]
    asked: str
    named: frozenset[str]


def find_offers(
    flags: LaunchFlags, rent: RentFlags, past: Past, catalog: Catalog, data_cloud: str | None
) -> Found:
    """Returns the offers of what was asked.

    Args:
        flags: Where and on what.
        rent: In which regions, on which market.
        past: Attempts before.
        catalog: Of prices.
        data_cloud: In which the data lie; None: on this machine.

    Raises:
        ConfigError: A name in it is unknown.
        PlanError: There is no price of it.
    """
    if flags.offer and past.first is None:
        row = catalog.row(flags.offer)
        _check_agreement(row, flags)
        return Found((row,), row.offer, frozenset({row.accelerator}))
    if past.first is not None and rent.fallback != "any":
        return _the_same(past.first, flags, rent, catalog, data_cloud)
    asked = _words(flags, rent)
    rows = _of_accelerator(flags, rent, catalog) if past.first is None else _current(catalog)
    rows = [row for row in rows if _fits(row, flags, rent, data_cloud)]
    if not rows:
        raise PlanError(_no_price(asked, flags))
    named = _named(rows, flags) if past.first is None else frozenset()
    return Found(tuple(rows), asked, named)


def wanted_market(rent: RentFlags) -> Market | None:
    """Returns the market that was asked for; None: whichever costs less."""
    if rent.flex_start or rent.spot == "never":
        return "on_demand"
    return "spot" if rent.spot == "always" else None


def _named(rows: list[PriceRow], flags: LaunchFlags) -> frozenset[str]:
    """What --accelerator names: an accelerator itself, not its relatives, or a family or node type."""
    if flags.accelerator is None:
        return frozenset()
    found = frozenset(row.accelerator for row in rows)
    name = flags.accelerator[0].casefold()
    return frozenset(each for each in found if each.casefold() == name) or found


def _check_agreement(row: PriceRow, flags: LaunchFlags) -> None:
    """Refuses --as beside a --provider or an --accelerator that is another one."""
    if flags.provider not in (CHEAPEST, row.provider):
        raise ConfigError(f"--as={row.offer} is not on --provider={flags.provider}")
    if flags.accelerator is None:
        return
    name, count = flags.accelerator
    if name.casefold() == row.node_type.casefold():
        return
    if not is_of(row, name) or (flags.has_count and count != row.accelerator_count):
        raise ConfigError(
            f"--as={row.offer} has {row.accelerator_count} x {row.accelerator}, and"
            f" --accelerator={name}:{count} was asked; they must agree"
        )


def _the_same(
    first: Plan, flags: LaunchFlags, rent: RentFlags, catalog: Catalog, data_cloud: str | None
) -> Found:
    """Offers with the first attempt's accelerators; without a fallback only its own place."""
    price = first.price
    if price is None:
        raise PlanError("of a node without a price nobody knows what is the same elsewhere")
    rows = [
        row
        for row in _current(catalog)
        if (row.accelerator, row.accelerator_count) == (price.accelerator, price.accelerator_count)
        and _fits(row, flags, rent, data_cloud)
    ]
    if rent.fallback == "none":
        place = (price.provider, price.node_type, price.region)
        rows = [row for row in rows if (row.provider, row.node_type, row.region) == place]
    what = f"{price.accelerator}:{price.accelerator_count}"
    if not rows:
        raise PlanError(f"there is no other offer with {what} for what was asked")
    return Found(tuple(rows), what, frozenset({price.accelerator}))


def _current(catalog: Catalog) -> list[PriceRow]:
    return list(catalog.find())


def _of_accelerator(flags: LaunchFlags, rent: RentFlags, catalog: Catalog) -> list[PriceRow]:
    if flags.accelerator is None:
        return [row for row in _current(catalog) if row.accelerator_count > 0]
    name, count = flags.accelerator
    if why := never(name):
        raise PlanError(why)
    of_type = [row for row in _current(catalog) if row.node_type.casefold() == name.casefold()]
    if of_type:
        if flags.has_count and of_type[0].accelerator_count != count:
            raise ConfigError(
                f"--accelerator={name}:{count}: a {of_type[0].node_type} has"
                f" {of_type[0].accelerator_count} x {of_type[0].accelerator}; leave the number out"
            )
        return of_type
    try:
        rows = list(catalog.find(accelerator=name))
    except UnknownNameError as error:
        if rent.allow_unknown_price:
            return []
        raise ConfigError(
            f"{error} A type of node, such as v3-8 or p3.2xlarge, is as good"
        ) from error
    if flags.has_count:
        return [row for row in rows if row.accelerator_count == count]
    if flags.nodes is None:
        return rows
    return _smallest(rows)


def _smallest(rows: list[PriceRow]) -> list[PriceRow]:
    """Where no number was said: nodes with one accelerator, or as few as a cloud sells."""
    least: dict[str, int] = {}
    for row in rows:
        count = row.accelerator_count
        least[row.provider] = min(least.get(row.provider, count), count)
    return [row for row in rows if row.accelerator_count == least[row.provider]]


def _fits(row: PriceRow, flags: LaunchFlags, rent: RentFlags, data_cloud: str | None) -> bool:
    provider = data_cloud if flags.provider == CHEAPEST and data_cloud else flags.provider
    return (
        provider in (CHEAPEST, row.provider)
        and row.provider in CLOUDS
        and (not rent.regions or row.region in rent.regions)
        and wanted_market(rent) in (None, row.market)
    )


def _words(flags: LaunchFlags, rent: RentFlags) -> str:
    name = "any measured accelerator"
    if flags.accelerator:
        name, count = flags.accelerator
        name = f"{name}:{count}" if flags.has_count else name
    where = "any cloud" if flags.provider == CHEAPEST else flags.provider
    market = {"always": " spot", "never": " on demand"}.get(rent.spot, "")
    regions = f" in {' or '.join(rent.regions)}" if rent.regions else ""
    return f"{name} on {where}{market}{regions}"


def _no_price(asked: str, flags: LaunchFlags) -> str:
    name = flags.accelerator[0] if flags.accelerator else "NAME"
    return (
        f"no price is known of {asked}; `cloudgan offers --accelerator={name}` lists what is known,"
        " `cloudgan prices refresh` asks the clouds, and --allow_unknown_price with a type of node"
        " (--accelerator=TYPE) and one --region rents it all the same"
    )
