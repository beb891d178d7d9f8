"""What is asked before anything is spent: what, where, in whose account, and for how much."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloudgan.core.plan import Plan

_ASKED_ABOVE_GIB = 5.0


def question(plan: Plan, doubt: str = "") -> str:
    """Returns the question.

    Args:
        plan: What will be done.
        doubt: Why its price should not be believed unasked; empty where it may be.
    """
    showers = plan.showers
    moved = ""
    if showers.upload_to and (showers.gib or 0) > _ASKED_ABOVE_GIB:
        moved = f" and upload {showers.gib:.1f} GiB"
    if plan.rental is None:
        ahead = plan.forecast
        cost = f" for up to {ahead.high_usd:.2f} USD" if ahead.high_usd is not None else ""
        return f"Start {plan.workers.nodes} workers in {plan.place.describe()}{moved}{cost}?"
    market = plan.rental.market.replace("_", " ")
    what = f"{plan.workers.nodes} x {plan.rental.node_type} ({market})"
    note = f" Mind that {doubt}." if doubt else ""
    return f"Rent {what} in {plan.place.describe()}{moved} for {total(plan)}?{note}"


def total(plan: Plan) -> str:
    """Returns what the whole job costs, as far as that is known."""
    cost, ahead, limits = plan.cost, plan.forecast, plan.limits
    if plan.price is None or cost is None:
        return "a price that nobody knows"
    if ahead.high_usd is None:
        rate = plan.price.usd_per_hour * plan.workers.nodes + cost.fees_usd_per_hour
        most = rate * limits.deadline_seconds / 3600
        text = f"{rate:.2f} USD per hour, at most {most:.2f} USD until its deadline"
    else:
        low, high = f"{cost.known_low_usd:.2f}", f"{cost.known_usd:.2f}"
        band = low if low == high else f"{low} to {high}"
        rest = f" and more for {', '.join(cost.unknown)}" if cost.unknown else ""
        text = f"{band} USD{rest}"
    budget = f", {limits.budget_usd:.2f} USD in all attempts at most" if limits.budget_usd else ""
    return f"{text}{budget}"
