"""What is rented, for people: the nodes, the whole cost in parts, why this offer, and the next ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.cli.durations import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.core.choice import Alternative, Choice, CostPart, JobCost
    from cloudgan.core.plan import Plan

_LEAST_SHOWN_USD = 0.005
_MOST_REASONS = 5


def rental(plan: Plan) -> str:
    """Returns the nodes in words, such as ``2 x a2-highgpu-1g, spot, pool gan-0a1b``."""
    rented = plan.rental
    if rented is None:
        return "nothing"
    market = rented.market.replace("_", " ")
    more = ", flex-start" if rented.flex_start else ""
    more += ", its cluster stays" if rented.keep_cluster else ""
    return f"{plan.workers.nodes} x {rented.node_type}, {market}{more}, as {rented.pool}"


def cost_lines(cost: JobCost) -> Iterator[str]:
    """Yields what the whole job costs, and in which parts."""
    yield f"in all     {total(cost)}"
    for part in cost.parts:
        if part.usd is None or part.usd >= _LEAST_SHOWN_USD:
            yield f"           {part.name}: {_part(part)}"
    if cost.startup_seconds is None or cost.startup_low_seconds is None:
        yield "starts     in an unknown time"
        return
    low, high = shown(cost.startup_low_seconds), shown(cost.startup_seconds)
    yield f"starts     in {low} to {high} ({cost.startup_basis})"


def total(cost: JobCost) -> str:
    """Returns the sum of what is known, and the names of what is not."""
    band = _band(cost.known_low_usd, cost.known_usd)
    if not cost.unknown:
        return f"{band} USD"
    return f"at least {band} USD (unknown: {', '.join(cost.unknown)})"


def choice_lines(choice: Choice) -> Iterator[str]:
    """Yields why this offer was chosen, which are next, and which were passed over."""
    yield f"chosen     {choice.why}"
    if choice.market_why:
        yield f"market     {choice.market_why}"
    for number, one in enumerate(choice.alternatives, start=1):
        yield f"{'next' if number == 1 else '':<11}{_alternative(one)}"
    for number, group in enumerate(choice.passed_over[:_MOST_REASONS]):
        more = group.count - len(group.examples)
        which = ", ".join(group.examples) + (f" and {more} more" if more else "")
        yield f"{'not' if number == 0 else '':<11}{which}: {group.why}"


def _alternative(one: Alternative) -> str:
    if one.known_usd is None or one.seconds is None:
        return f"{one.nodes} x {one.offer}: cost unknown"
    least = "at least " if one.unknown else ""
    return (
        f"{one.nodes} x {one.offer}: {least}{one.known_usd:.2f} USD, {shown(one.seconds)}"
        f" ({one.grade})"
    )


def _part(part: CostPart) -> str:
    if part.usd is None:
        return f"unknown, {part.why_unknown}"
    return f"{_band(part.low_usd or 0.0, part.usd)} USD"


def _band(low: float, high: float) -> str:
    texts = f"{low:.2f}", f"{high:.2f}"
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} to {texts[1]}"
