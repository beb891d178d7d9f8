"""Preemption of spot nodes: expected time of a job, optimal checkpoint interval, break-even.

A job of T seconds with a checkpoint of delta seconds every tau seconds of work and a restart of R
seconds takes M e^(R/M) (e^((tau + delta)/M) - 1) T/tau on average at a mean time M between
preemptions (J. T. Daly, doi 10.1016/j.future.2004.11.016, equation 20). The optimal tau is Young's
sqrt(2 delta M) (doi 10.1145/361147.361115) to first order; Daly's equation 37 is used here.
"""

from __future__ import annotations

import functools
import math
from importlib import resources
from typing import Annotated, NamedTuple

from pydantic import Field

from cloudgan.core.durations import HOUR_SECONDS, duration_text
from cloudgan.core.table import read_table
from cloudgan.schema.price_row import Date, Market, PriceRow, SourcedRow, Text

_MOST_PER_HOUR = 3600.0
_NEVER = 1e-9  # of a node per hour; once in a hundred thousand years
PREEMPTIONS_PER_NODE_HOUR = 1 / 24
"""Assumption for clouds without a public trace of GPU nodes. It lies between two statements of the
clouds: Google observed 5 to 15 % of preemptible VMs of all kinds a day (0.002 to 0.007 per hour;
quoted in doi 10.1287/isre.2021.1011), and Azure's lowest class of eviction rates is 0 to 5 % per hour
(https://learn.microsoft.com/azure/architecture/guide/spot/spot-eviction)."""
ASSUMED = "assumed, not measured"
_Count = Annotated[int, Field(ge=1, le=10**6)]


class InterruptionTrace(SourcedRow):
    """A row of `interruptions.csv`: the observed nodes of one place.

    An interruption is a moment at which the cloud took one or several nodes: they are mostly taken in
    groups, and a job of several nodes stops once for all that are taken together.
    """

    provider: Text
    accelerator: Text
    node_type: Text
    zone: Text
    nodes: _Count = Field(description="requested at the same time")
    node_hours: float = Field(gt=0, le=1e9, allow_inf_nan=False)
    interruptions: _Count = Field(description="moments at which one or several nodes were taken")
    source: Text
    date: Date
    note: str = ""

    @property
    def per_node_hour(self) -> float:
        """Interruptions per node and hour."""
        return self.interruptions / self.node_hours


class InterruptionRate(NamedTuple):
    """Interruptions per spot node and hour: of all traces together, and of single traces.

    Attributes:
        accelerators: Of the traces; not the requested one if that has none on its cloud.
    """

    per_node_hour: float
    low: float
    high: float
    accelerators: tuple[str, ...]

    @property
    def basis(self) -> str:
        """For example ``public traces of V100, 0.05 to 0.29 by zone``."""
        names = " and ".join(self.accelerators)
        return f"public traces of {names}, {self.low:.2g} to {self.high:.2g} by zone"


@functools.cache
def load_interruption_traces() -> tuple[InterruptionTrace, ...]:
    """Reads the traces."""
    place = resources.files("cloudgan.speed") / "interruptions.csv"
    return tuple(row for _, row in read_table(place, InterruptionTrace))


@functools.cache
def interruption_rate(provider: str, accelerator: str) -> InterruptionRate | None:
    """Returns the rate of an accelerator on a cloud; without a trace that of the cloud's others.

    None: the package has no trace of the cloud.
    """
    there = [one for one in load_interruption_traces() if one.provider == provider]
    found = [one for one in there if one.accelerator == accelerator] or there
    if not found:
        return None
    rates = [one.per_node_hour for one in found]
    hours = math.fsum(one.node_hours for one in found)
    names = tuple(sorted({one.accelerator for one in found}))
    total = sum(one.interruptions for one in found)
    return InterruptionRate(total / hours, min(rates), max(rates), names)


class Preemption(NamedTuple):
    """Rate and cost of preemptions.

    Attributes:
        per_node_hour: Preemptions per node and hour; each one stops the job. None: of public traces
            of the cloud (see `of_node`), or else an assumption.
        restart_seconds: From preemption to training, with new node and tracing.
    """

    per_node_hour: float | None = None
    restart_seconds: float = 600.0
    checkpoint_seconds: float = 10.0

    @property
    def rate(self) -> float:
        """Preemptions per node and hour; the assumption if unknown."""
        return PREEMPTIONS_PER_NODE_HOUR if self.per_node_hour is None else self.per_node_hour

    def of_node(self, node: PriceRow) -> Preemption:
        """Returns the preemption of a spot node, whose rate is that of public traces if not given."""
        found = interruption_rate(node.provider, node.accelerator)
        if self.per_node_hour is not None or found is None:
            return self
        return self._replace(per_node_hour=found.per_node_hour)

    def basis(self, node: PriceRow) -> str:
        """Returns where the rate of a node is from, in words."""
        found = interruption_rate(node.provider, node.accelerator)
        if self.per_node_hour is not None:
            return "given"
        return ASSUMED if found is None else found.basis

    def mean_seconds(self, nodes: int) -> float:
        """Returns the mean time between preemptions of any of the nodes."""
        per_hour = self.rate * nodes
        return HOUR_SECONDS / per_hour if per_hour > 0 else math.inf


def checkpoint_interval(preemption: Preemption, nodes: int) -> float:
    """Returns the optimal seconds of work between checkpoints; inf: none needed.

    If preemptions are more frequent than two checkpoints, returns the mean time between them.
    """
    return _interval(preemption.mean_seconds(nodes), preemption.checkpoint_seconds)


def _interval(mean: float, delta: float) -> float:
    """Returns `checkpoint_interval` for a mean time between preemptions and the time of a checkpoint."""
    if math.isinf(mean):
        return math.inf
    if delta >= 2 * mean:
        return mean
    ratio = delta / (2 * mean)
    return max(
        math.sqrt(2 * delta * mean) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - delta,
        min(1.0, mean),  # if a checkpoint takes no time: each second
    )


def expected_seconds(work_seconds: float, preemption: Preemption, nodes: int) -> float:
    """Returns the mean time of a job with checkpoints, repeated work and restarts.

    inf if it would practically never end.
    """
    return _expected(work_seconds, preemption, preemption.mean_seconds(nodes))


def _expected(work_seconds: float, preemption: Preemption, mean: float) -> float:
    """Returns `expected_seconds` for a mean time between preemptions of any of the nodes."""
    delta = preemption.checkpoint_seconds
    if math.isinf(mean) or work_seconds == 0:
        return work_seconds
    interval = min(_interval(mean, delta), work_seconds)
    # A job that ends before its first checkpoint saves its result too.
    try:
        again = math.exp(preemption.restart_seconds / mean)
        return mean * again * math.expm1((interval + delta) / mean) * work_seconds / interval
    except OverflowError:
        return math.inf


@functools.cache  # regions of one price have the same
def break_even(
    work_seconds: float, price_ratio: float, preemption: Preemption, nodes: int
) -> float:
    """Returns the preemption rate at which spot nodes cost as much as on-demand nodes.

    Args:
        work_seconds: Time of the job without preemption.
        price_ratio: Spot price over on-demand price.
        preemption: Restart and checkpoint time; its rate is ignored.

    Returns:
        Preemptions per node and hour; 0 if spot is not cheaper without any preemption.
    """

    def is_dearer(rate: float) -> bool:
        mean = HOUR_SECONDS / (rate * nodes)
        return _expected(work_seconds, preemption, mean) * price_ratio > work_seconds

    low, high = _NEVER, _MOST_PER_HOUR
    if price_ratio >= 1 or is_dearer(low):
        return 0.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_dearer(middle) else (middle, high)
    return low


def describe_risk(work_seconds: float, preemption: Preemption, nodes: int) -> str:
    """Returns the preemption risk of a job on spot nodes, in words."""
    took = expected_seconds(work_seconds, preemption, nodes)
    if preemption.rate == 0:
        return "no preemption, at the given rate of 0"
    if math.isinf(took) or took > 100 * work_seconds:
        return "preemptions would be faster than restarts: the job would practically never end"
    losses = took / preemption.mean_seconds(nodes)
    none = math.exp(-work_seconds / preemption.mean_seconds(nodes))
    which = "the node" if nodes == 1 else f"one of {nodes} nodes"
    return (
        f"{which} is preempted about {losses:.2g} times; repeated work, restarts and checkpoints"
        f" take {duration_text(took - work_seconds)}; the chance of no preemption is {none:.0%}"
    )


class MarketChoice(NamedTuple):
    """A market and the reason for it."""

    market: Market
    reason: str


def choose_market(
    spot: PriceRow | None,
    on_demand: PriceRow | None,
    *,
    work_seconds: float,
    nodes: int,
    preemption: Preemption,
) -> MarketChoice:
    """Returns the market on which a job costs less, preemptions included.

    Args:
        spot: Spot price; None: unknown or not accepted.
        on_demand: On-demand price; None: unknown or not accepted. At least one is given.
        work_seconds: Job duration without preemption; the time limit if unknown.
    """
    if spot is None:
        return MarketChoice("on_demand", "the spot price is unknown there")
    if on_demand is None:
        return MarketChoice("spot", "the on-demand price is unknown there")
    ratio = spot.usd_per_hour / on_demand.usd_per_hour
    most = break_even(work_seconds, ratio, preemption, nodes)
    expected = preemption.of_node(spot).rate
    price = f"spot costs {ratio:.0%} of on demand"
    if most <= 0:
        return MarketChoice("on_demand", f"{price}: more expensive even without preemption")
    limit = f"cheaper below one preemption per node in {_hours(1 / most)}"
    often = f"one in {_hours(1 / expected)}" if expected else "never"
    known = f"{preemption.basis(spot)}: {often}"
    if most > expected:
        return MarketChoice("spot", f"{price}, {limit} ({known})")
    return MarketChoice("on_demand", f"{price}, only {limit} ({known})")


def _hours(hours: float) -> str:
    return f"{hours:.2g} h" if hours >= 1 else f"{hours * 60:.2g} min"
