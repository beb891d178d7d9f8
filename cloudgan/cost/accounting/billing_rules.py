"""Billed time of provisioned nodes: the provider's timestamps and its billing rule."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cloudgan.core.clock import parse_time
from cloudgan.core.clouds import CLOUDS, BillingRule
from cloudgan.schema.launch import Attempt, Launch, Node
from cloudgan.schema.price_row import PriceRow
from cloudgan.schema.record import PreemptionNotice

_TPU = BillingRule(
    1,
    0,
    "https://cloud.google.com/tpu/pricing (stored page): by the second, while READY;"
    " https://cloud.google.com/tpu/docs/preemptible (read 2026-11-22): no charge for a TPU that is"
    " preempted in its first minute",
    free_if_taken_seconds=60,
)
_OWN = BillingRule(1, 0, "the price file: by the second")
_NOTICE_WINDOW = dt.timedelta(minutes=15)
"""From a preemption notice, written when training has ended, to the observed end of the node."""


class NodeBill(NamedTuple):
    """Times of one node, by the provider's clock.

    Attributes:
        up_seconds: Uptime.
        billed_seconds: Billed time.
        waited_seconds: From up until the last initial node was up.
        is_free: Whether the cloud took it so early that it costs nothing.
    """

    up_seconds: float
    billed_seconds: float
    waited_seconds: float
    is_free: bool = False


class AttemptBill(NamedTuple):
    """Node time of one attempt; unknown if `why_unknown` is not empty.

    Attributes:
        number: Of the attempt, from 1.
        row: Price of one node.
        nodes: One bill for each node.
        rule: Billing rule.
        why_unknown: Reason, or "".
        concurrent_nodes: Nodes up at a time: fewer than `nodes` if lost ones were replaced.
    """

    number: int
    row: PriceRow | None
    nodes: tuple[NodeBill, ...]
    rule: BillingRule | None
    why_unknown: str = ""
    concurrent_nodes: int = 0

    @property
    def billed_seconds(self) -> float:
        """Billed time, summed over the nodes."""
        return math.fsum(node.billed_seconds for node in self.nodes)

    @property
    def up_seconds(self) -> float:
        """Uptime, summed over the nodes."""
        return math.fsum(node.up_seconds for node in self.nodes)

    @property
    def free_nodes(self) -> int:
        """Nodes that the cloud took so early that they cost nothing."""
        return sum(node.is_free for node in self.nodes)

    @property
    def paid_share(self) -> float:
        """Share of the uptime that is not free."""
        paid = math.fsum(node.up_seconds for node in self.nodes if not node.is_free)
        return paid / self.up_seconds if self.free_nodes and self.up_seconds else 1.0

    @property
    def waited_seconds(self) -> float:
        """Time before all nodes were up, summed over the nodes."""
        return math.fsum(node.waited_seconds for node in self.nodes)


def billing_rule(provider: str, node_type: str, up: dt.datetime | None) -> BillingRule | None:
    """Returns the billing rule of a node; None if it is unknown.

    A node of a price file is billed by the second.

    Args:
        provider: For example ``gcp``.
        node_type: Node type, or TPU type such as ``v3-8``.
        up: When the node came up: rules change.
    """
    if provider == "gcp" and _is_tpu(node_type):
        return _TPU
    if provider not in CLOUDS:
        return _OWN
    rules = CLOUDS[provider].billing
    valid = [rule for rule in rules if rule.since is None or (up and up >= rule.since)]
    return valid[-1] if valid else None


def attempt_bill(
    number: int, attempt: Attempt, notices: Sequence[PreemptionNotice] = ()
) -> AttemptBill:
    """Returns the node time of an attempt on provisioned nodes, or why it is unknown.

    Args:
        number: Of the attempt, from 1.
        attempt: The attempt.
        notices: Preemption notices in the run record; without one no node counts as taken.
    """
    row = _row_of(attempt)
    ups = [node.started_at for node in attempt.nodes if node.started_at]
    rule = billing_rule(attempt.provider, attempt.node_type, max(ups, default=None))
    why = _why_unknown(number, attempt, row, rule)
    if why or rule is None:
        return AttemptBill(number, row, (), rule, why)
    all_up = all_nodes_up_at(attempt)
    taken = _taken_nodes(attempt, notices)
    bills = tuple(
        _node_bill(node, attempt, all_up, is_taken=node.name in taken)
        for node in attempt.nodes
        if node.started_at
    )
    concurrent = min(len(bills), attempt.node_count or len(bills))
    return AttemptBill(number, row, bills, rule, concurrent_nodes=concurrent)


def attempt_bills(
    launch: Launch | None, notices: Sequence[PreemptionNotice] = ()
) -> tuple[AttemptBill, ...]:
    """Returns one bill for each attempt on provisioned nodes."""
    attempts = launch.attempts if launch else ()
    return tuple(
        attempt_bill(number, attempt, notices)
        for number, attempt in enumerate(attempts, start=1)
        if attempt.is_billed
    )


def all_nodes_up_at(attempt: Attempt) -> dt.datetime | None:
    """Returns when the last initial node was up; later nodes are replacements."""
    ups = sorted(node.started_at for node in attempt.nodes if node.started_at)
    begun = attempt.program_started_at
    first = [up for up in ups if begun and up <= begun] or ups[: attempt.node_count or len(ups)]
    return first[-1] if first else None


def free_nodes_notes(bills: Iterable[AttemptBill]) -> tuple[str, ...]:
    """Returns a sentence for each attempt with nodes that cost nothing."""
    return tuple(
        f"{bill.free_nodes} of {len(bill.nodes)} nodes of attempt {bill.number} cost nothing:"
        f" the cloud took them back within {bill.rule.free_if_taken_seconds / 60:g} min"
        for bill in bills
        if bill.free_nodes and bill.rule
    )


def _taken_nodes(attempt: Attempt, notices: Sequence[PreemptionNotice]) -> frozenset[str]:
    """Returns the names of the spot nodes that the cloud took, one for each of its notices."""
    if attempt.market != "spot":
        return frozenset()
    ends = {node.name: node.terminated_at for node in attempt.nodes if node.terminated_at}
    for notice in notices:
        if notice.cloud != attempt.provider:
            continue
        read = parse_time(notice.time)
        near = {name: abs(end - read) for name, end in ends.items()}
        first = min(near, key=lambda name: near[name], default="")
        if first and near[first] <= _NOTICE_WINDOW:
            del ends[first]
    ended = frozenset(node.name for node in attempt.nodes if node.terminated_at)
    return ended - ends.keys()


def _node_bill(
    node: Node, attempt: Attempt, all_up: dt.datetime | None, *, is_taken: bool
) -> NodeBill:
    seconds = node.seconds() or 0.0
    rule = billing_rule(attempt.provider, attempt.node_type, node.started_at)
    waited = (
        max(0.0, (all_up - node.started_at).total_seconds()) if all_up and node.started_at else 0.0
    )
    is_free = is_taken and rule is not None and seconds < rule.free_if_taken_seconds
    billed = rule.billed_seconds(seconds) if rule else seconds
    # A node that was deleted before the last one came up waited for its whole uptime.
    return NodeBill(seconds, 0.0 if is_free else billed, min(waited, seconds), is_free)


def _why_unknown(
    number: int, attempt: Attempt, row: PriceRow | None, rule: BillingRule | None
) -> str:
    where = f"attempt {number} on {attempt.provider} {attempt.node_type}"
    if not attempt.nodes and attempt.end_reason is None:
        return f"{where} has not ended and lists no node"
    if any(node.started_at and not node.terminated_at for node in attempt.nodes):
        return f"{where}: a node is still up, or its end was not recorded"
    if attempt.nodes and rule is None:
        return f"{where}: the billing rule of {attempt.provider} is unknown"
    if attempt.nodes and row is None:
        return f"{where} has no price row of a {attempt.market} node in {attempt.region}"
    return ""


def _row_of(attempt: Attempt) -> PriceRow | None:
    """Returns the price of the node type that the attempt used, from its own rows."""
    of = (attempt.provider, attempt.node_type, attempt.region, attempt.market)
    for row in attempt.price_rows:
        if (row.provider, row.node_type, row.region, row.market) == of:
            return row
    return None


def _is_tpu(node_type: str) -> bool:
    """Returns whether this is a slice such as v3-8, v5litepod-4 or v5p-8; a node is a slice."""
    return node_type[:1] == "v" and node_type[1:2].isdigit() and "-" in node_type
