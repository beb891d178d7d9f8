"""Spot or on demand: by how often a node may be lost until both cost the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cloudgan.cost.spot import break_even

if TYPE_CHECKING:
    from cloudgan.core.price_row import Market, PriceRow
    from cloudgan.cost.spot import Preemption


class MarketChoice(NamedTuple):
    """A market, and why it was chosen."""

    market: Market
    why: str


def choose_market(
    spot: PriceRow | None,
    on_demand: PriceRow | None,
    *,
    work_seconds: float,
    nodes: int,
    preemption: Preemption,
) -> MarketChoice:
    """Returns the market on which a job costs less, with the losses of spot nodes.

    Args:
        spot: The price; None: unknown, or not wanted.
        on_demand: Likewise; one of both is there.
        work_seconds: Of the job if no node is lost; of an unknown one, all that it may take.
        nodes: Of the job.
        preemption: What is assumed of spot nodes.
    """
    if spot is None:
        return MarketChoice("on_demand", "no spot price of these nodes is known there")
    if on_demand is None:
        return MarketChoice("spot", "no price on demand of these nodes is known there")
    ratio = spot.usd_per_hour / on_demand.usd_per_hour
    most = break_even(work_seconds, ratio, preemption, nodes)
    assumed = preemption.per_node_hour
    price = f"spot costs {ratio:.0%} of on demand"
    if most <= 0:
        return MarketChoice("on_demand", f"{price}: it would not pay even if no node were lost")
    limit = f"pays while a node is lost less than once in {_hours(1 / most)}"
    known = f"assumed, since nobody measured it: once in {_hours(1 / assumed)}" if assumed else ""
    if most > assumed:
        return MarketChoice("spot", f"{price} and {limit} ({known or 'assumed: never'})")
    return MarketChoice("on_demand", f"{price}, which only {limit} ({known})")


def _hours(hours: float) -> str:
    return f"{hours:.2g} h" if hours >= 1 else f"{hours * 60:.2g} min"
