"""What it means that a cloud may take nodes back: time lost, best checkpoint interval, break-even.

A job of T seconds that saves its state every tau seconds of work, taking delta seconds, and needs
R seconds to be up again, takes M e^(R/M) (e^((tau + delta)/M) - 1) T/tau on average if nodes are
taken back every M seconds on average (J. T. Daly, doi 10.1016/j.future.2004.11.016, equation 20).
The best tau is Young's sqrt(2 delta M) (doi 10.1145/361147.361115) to first order; Daly's equation
37 is used here.
"""

from __future__ import annotations

import math
from typing import NamedTuple

_HOUR_SECONDS = 3600
_MOST_PER_HOUR = 3600.0
_NEVER = 1e-9  # of a node per hour; once in a hundred thousand years
NODE_TAKEN_PER_HOUR = 1 / 24
"""Assumed where nobody says better: a preemptible machine of Google runs 24 hours at most."""


class Preemption(NamedTuple):
    """How often nodes are taken back and what that costs.

    Attributes:
        per_node_hour: Of one node; the job stops when any of its nodes is taken.
        restart_seconds: From losing a node to training again, new node and tracing included.
        checkpoint_seconds: That one checkpoint takes.
    """

    per_node_hour: float = NODE_TAKEN_PER_HOUR
    restart_seconds: float = 600.0
    checkpoint_seconds: float = 10.0

    def mean_seconds(self, nodes: int) -> float:
        """Returns the mean time between two losses of any of the nodes."""
        rate = self.per_node_hour * nodes
        return _HOUR_SECONDS / rate if rate > 0 else math.inf


def checkpoint_interval(preemption: Preemption, nodes: int) -> float:
    """Returns the seconds of work between checkpoints that lose the least time; inf: none needed.

    Where nodes are lost faster than two checkpoints take, one mean time between losses.
    """
    mean, delta = preemption.mean_seconds(nodes), preemption.checkpoint_seconds
    if math.isinf(mean):
        return math.inf
    if delta >= 2 * mean:
        return mean
    ratio = delta / (2 * mean)
    return max(
        math.sqrt(2 * delta * mean) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - delta,
        min(1.0, mean),  # where saving takes no time: each second
    )


def expected_seconds(work_seconds: float, preemption: Preemption, nodes: int) -> float:
    """Returns how long a job takes on average, checkpoints, repeated work and restarts included.

    inf where it would practically never end.
    """
    mean, delta = preemption.mean_seconds(nodes), preemption.checkpoint_seconds
    if math.isinf(mean) or work_seconds == 0:
        return work_seconds
    interval = min(checkpoint_interval(preemption, nodes), work_seconds)
    # A job that is over before its first checkpoint saves its result all the same.
    try:
        again = math.exp(preemption.restart_seconds / mean)
        return mean * again * math.expm1((interval + delta) / mean) * work_seconds / interval
    except OverflowError:
        return math.inf


def break_even(
    work_seconds: float, price_ratio: float, preemption: Preemption, nodes: int
) -> float:
    """Returns how often per hour one node may be taken back before spot costs more than on demand.

    Args:
        work_seconds: Of the job without losses.
        price_ratio: Spot price over that on demand.
        preemption: Times to restart and to save; its rate is not used.
        nodes: Of the job.

    Returns:
        Losses of one node per hour; 0 where spot is not cheaper even if no node is ever lost.
    """

    def dearer(rate: float) -> bool:
        took = expected_seconds(work_seconds, preemption._replace(per_node_hour=rate), nodes)
        return took * price_ratio > work_seconds

    low, high = _NEVER, _MOST_PER_HOUR
    if price_ratio >= 1 or dearer(low):
        return 0.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if dearer(middle) else (middle, high)
    return low


def risk(work_seconds: float, preemption: Preemption, nodes: int) -> str:
    """Says in plain words what may happen to a job on spot nodes."""
    took = expected_seconds(work_seconds, preemption, nodes)
    if preemption.per_node_hour == 0:
        return "no node is lost, if the rate of 0 that was given holds"
    if math.isinf(took) or took > 100 * work_seconds:
        return "nodes would be lost faster than the job can restart: it would practically never end"
    losses = took / preemption.mean_seconds(nodes)
    none = math.exp(-work_seconds / preemption.mean_seconds(nodes))
    which = "the node" if nodes == 1 else f"one of {nodes} nodes"
    return (
        f"{which} is lost about {losses:.2g} times, {_minutes(took - work_seconds)} go on repeating,"
        f" restarting and saving; the chance that none is lost is {none:.0%}"
    )


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds < 2 * _HOUR_SECONDS else f"{seconds / 3600:.1f} h"
