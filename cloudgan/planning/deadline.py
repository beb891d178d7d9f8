"""When a job has to end by itself: the hours that were allowed, or what the budget buys."""

from __future__ import annotations

import math
from typing import NamedTuple

from cloudgan.core.errors import BudgetError, ConfigError

RESERVE_SECONDS = 120.0
"""Kept back of a budget where nodes are there already: a job's start and end."""
REMOVAL_SECONDS = 300.0
"""The same where nodes are made for the run: until the cloud has removed them. Supposed, not
measured. What passes until they are there is kept back too: see `cost.startup`."""


class Deadline(NamedTuple):
    """Seconds from the job's start, and which limit they come from."""

    seconds: int
    why: str


def deadline(
    *,
    max_hours: float,
    budget_usd: float | None = None,
    usd_per_second: float | None = None,
    spent_usd: float = 0.0,
    reserve_seconds: float = RESERVE_SECONDS,
) -> Deadline:
    """Returns the earlier of both limits.

    Args:
        max_hours: Allowed for this attempt.
        budget_usd: For the run, all attempts together; None: no budget.
        usd_per_second: Of all nodes.
        spent_usd: By the attempts before.
        reserve_seconds: Kept back for nodes that start and stop around the job.

    Raises:
        ConfigError: There is a budget and nobody knows what a second costs.
        BudgetError: The budget is spent.
    """
    allowed = Deadline(max(1, math.floor(max_hours * 3600)), f"--max_hours={max_hours:g}")
    if budget_usd is None:
        return allowed
    if usd_per_second is None:
        raise ConfigError(
            f"--budget_usd={budget_usd:g} needs a price to become a deadline: name what these nodes"
            " are rented as, such as --as=gcp/n1-standard-8+1xV100/us-central1/on_demand"
            " (`cloudgan offers` lists them)"
        )
    left = (budget_usd - spent_usd) / usd_per_second - reserve_seconds
    if left < 1:
        raise BudgetError(
            f"a budget of {budget_usd:.2f} USD leaves no time to train: {spent_usd:.2f} USD are"
            f" spent, and {reserve_seconds:.0f} s of all nodes, kept back for their start and end,"
            f" cost {reserve_seconds * usd_per_second:.2f} USD"
        )
    if left >= allowed.seconds:
        return allowed
    return Deadline(math.floor(left), f"--budget_usd={budget_usd:g}")
