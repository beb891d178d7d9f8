"""Asks for confirmation before resources are created or deleted."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cloudgan.core.errors import ConfirmationError

if TYPE_CHECKING:
    from cloudgan.api.sweep import SweepPlan
    from cloudgan.schema.plan import Plan

_UPLOAD_MENTIONED_GIB = 5.0


def confirm(question: str, *, yes: bool) -> None:
    """Returns if the user answers yes on the terminal, or gave --yes.

    Raises:
        ConfirmationError: The answer is no, or standard input is not a terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfirmationError(
            f"{question} Confirmation required, and standard input is not a terminal: add --yes."
            " Nothing was started"
        )
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise ConfirmationError("not confirmed; nothing was started")


def plan_question(plan: Plan, price_warning: str = "") -> str:
    """Returns the question before a plan is carried out: nodes, account and cost.

    Args:
        plan: The plan.
        price_warning: Warning that its price is outdated; empty: none.
    """
    showers = plan.showers
    upload = ""
    if showers.upload_to and (showers.gib or 0) > _UPLOAD_MENTIONED_GIB:
        upload = f" and upload {showers.gib:.1f} GiB"
    if plan.node_pool is None:
        usd = plan.forecast.high_usd
        cost = f" for up to {usd:.2f} USD" if usd is not None else ""
        return f"Start {plan.workers.nodes} workers in {plan.target.describe()}{upload}{cost}?"
    market = plan.node_pool.market.replace("_", " ")
    nodes = f"{plan.workers.nodes} x {plan.node_pool.node_type} ({market})"
    warning = f" Warning: {price_warning}." if price_warning else ""
    if others := plan.target.zones[1:]:
        upload += f" (zones after {plan.target.zone}, if it has none: {', '.join(others)})"
    return f"Create {nodes} in {plan.target.describe()}{upload} for {_total(plan)}?{warning}"


def sweep_question(sweep: SweepPlan, price_warning: str = "") -> str:
    """Returns the question before a sweep is carried out: that of its next run, and the cost of all."""
    plan, count = sweep.plan, len(sweep.seeds)
    usd = "" if sweep.usd is None else f" for up to {sweep.usd[1]:.2f} USD"
    usd += f", plus an unknown cost of {', '.join(sweep.unknown)}" if sweep.unknown else ""
    if plan.usd_per_hour is not None and plan.forecast.high_usd is None:
        rate = plan.usd_per_hour + (plan.cost.fees_usd_per_hour if plan.cost else 0.0)
        most = rate * plan.limits.deadline_seconds / 3600 * count
        usd = f" for at most {most:.2f} USD until their deadlines"
    return f"{count} runs, one after another{usd}. The first: {plan_question(plan, price_warning)}"


def _total(plan: Plan) -> str:
    """Cost of the whole job, as far as it is known."""
    cost, forecast, limits = plan.cost, plan.forecast, plan.limits
    if plan.price is None or cost is None:
        return "an unknown price"
    if forecast.high_usd is None:
        rate = plan.price.hourly_usd(plan.workers.nodes) + cost.fees_usd_per_hour
        most = rate * limits.deadline_seconds / 3600
        text = f"{rate:.2f} USD per hour, at most {most:.2f} USD until its deadline"
    else:
        low, high = f"{cost.known_low_usd:.2f}", f"{cost.known_usd:.2f}"
        band = low if low == high else f"{low} to {high}"
        rest = f", plus an unknown cost of {', '.join(cost.unknown)}" if cost.unknown else ""
        text = f"{band} USD{rest}"
    budget = f", at most {limits.budget_usd:.2f} USD in all attempts" if limits.budget_usd else ""
    return f"{text}{budget}"
