"""What a provider bills for rented nodes: its own timestamps, by the rule it sells by."""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cloudgan.core.launch import Attempt, Launch, Node
    from cloudgan.core.price_row import PriceRow


class BillingRule(NamedTuple):
    """How a provider counts the time of a node.

    Attributes:
        unit_seconds: A unit that was begun is paid whole: 1, 60 or 3600.
        minimum_seconds: A node that was up is paid at least this long.
        source: Who says so, and when.
        since: For nodes that came up at that time or later; None: always.
    """

    unit_seconds: float
    minimum_seconds: float
    source: str
    since: dt.datetime | None = None

    def billed_seconds(self, up_seconds: float) -> float:
        """Returns what is paid for a node that was up that long.

        Raises:
            ValueError: The time is negative.
        """
        if up_seconds < 0:
            raise ValueError(f"a node cannot be up for {up_seconds} s")
        units = math.ceil(round(up_seconds / self.unit_seconds, 9))
        return max(self.minimum_seconds, units * self.unit_seconds)


_AZURE_MINIMUM_SINCE = dt.datetime(2025, 6, 1, tzinfo=dt.UTC)
_TPU = BillingRule(
    1, 0, "https://cloud.google.com/tpu/pricing (stored page): by the second, while READY"
)
# The latest rule last.
RULES: dict[str, tuple[BillingRule, ...]] = {
    "aws": (
        BillingRule(
            1,
            60,
            "https://aws.amazon.com/about-aws/whats-new/2017/10/"
            "announcing-amazon-ec2-per-second-billing/ (2017-10-02), Linux",
        ),
    ),
    "azure": (
        BillingRule(
            1,
            60,
            "https://learn.microsoft.com/en-us/answers/questions/2259765 (2025-04-21): by the"
            " second, one minute at least as the question cites Azure's documentation",
        ),
        BillingRule(
            1,
            300,
            "https://learn.microsoft.com/en-us/answers/questions/2259765 (2025-04-21): by the"
            " second, five minutes at least from 2025-06-01; told by a user, not by Azure's pages",
            _AZURE_MINIMUM_SINCE,
        ),
    ),
    "gcp": (
        BillingRule(
            1,
            60,
            "Google Cloud Platform for Developers (Packt), chapter 7, pricing on GCE: by the"
            " second, one minute at least",
        ),
    ),
}


class NodeBill(NamedTuple):
    """What one node is paid for, in seconds of the provider's clock.

    Attributes:
        up_seconds: From up to gone.
        billed_seconds: The same as it is billed.
        waited_seconds: From up until the last of those nodes was up that the program began on.
    """

    up_seconds: float
    billed_seconds: float
    waited_seconds: float


class AttemptBill(NamedTuple):
    """What one attempt is paid for; None is unknown, and `why_unknown` says why.

    Attributes:
        number: Of the attempt, from 1.
        row: The price of one node.
        nodes: One bill each.
        rule: By which they were made.
        at_once: How many were up together: fewer than nodes where lost ones were replaced.
        why_unknown: Empty where the bill is known.
    """

    number: int
    row: PriceRow | None
    nodes: tuple[NodeBill, ...]
    rule: BillingRule | None
    why_unknown: str = ""
    at_once: int = 0

    @property
    def billed_seconds(self) -> float:
        """Sum over the nodes."""
        return math.fsum(node.billed_seconds for node in self.nodes)

    @property
    def up_seconds(self) -> float:
        """Sum over the nodes, as they were up."""
        return math.fsum(node.up_seconds for node in self.nodes)

    @property
    def waited_seconds(self) -> float:
        """Sum over the nodes."""
        return math.fsum(node.waited_seconds for node in self.nodes)


def billing_rule(provider: str, node_type: str, up: dt.datetime | None) -> BillingRule | None:
    """Returns how a node is billed; None where nobody knows.

    Args:
        provider: Such as ``gcp``.
        node_type: Of a TPU, such as ``v3-8``.
        up: When the node came up: rules change.
    """
    if provider == "gcp" and _is_tpu(node_type):
        return _TPU
    rules = RULES.get(provider, ())
    valid = [rule for rule in rules if rule.since is None or (up and up >= rule.since)]
    return valid[-1] if valid else None


def attempt_bill(number: int, attempt: Attempt) -> AttemptBill:
    """Returns what an attempt on rented nodes is paid for, or why that is unknown."""
    row = _row_of(attempt)
    ups = [node.up for node in attempt.nodes if node.up]
    rule = billing_rule(attempt.provider, attempt.node_type, max(ups, default=None))
    why = _why_unknown(number, attempt, row, rule)
    if why or rule is None:
        return AttemptBill(number, row, (), rule, why)
    all_up = all_up_at(attempt)
    bills = tuple(_node_bill(node, attempt, all_up) for node in attempt.nodes if node.up)
    at_once = min(len(bills), attempt.node_count or len(bills))
    return AttemptBill(number, row, bills, rule, at_once=at_once)


def bills_of(launch: Launch | None) -> tuple[AttemptBill, ...]:
    """Returns one bill for each attempt on rented nodes; none for those on this machine."""
    attempts = launch.attempts if launch else ()
    return tuple(
        attempt_bill(number, attempt)
        for number, attempt in enumerate(attempts, start=1)
        if attempt.is_rented
    )


def all_up_at(attempt: Attempt) -> dt.datetime | None:
    """Returns when all nodes were up that the program began on; later ones replaced lost ones."""
    ups = sorted(node.up for node in attempt.nodes if node.up)
    begun = attempt.program_up
    first = [up for up in ups if begun and up <= begun] or ups[: attempt.node_count or len(ups)]
    return first[-1] if first else None


def _node_bill(node: Node, attempt: Attempt, all_up: dt.datetime | None) -> NodeBill:
    seconds = node.seconds() or 0.0
    rule = billing_rule(attempt.provider, attempt.node_type, node.up)
    waited = max(0.0, (all_up - node.up).total_seconds()) if all_up and node.up else 0.0
    # Where a node was gone before another came up, it waited until it was gone.
    return NodeBill(
        seconds, rule.billed_seconds(seconds) if rule else seconds, min(waited, seconds)
    )


def _why_unknown(
    number: int, attempt: Attempt, row: PriceRow | None, rule: BillingRule | None
) -> str:
    where = f"attempt {number} on {attempt.provider} {attempt.node_type}"
    if not attempt.nodes and attempt.ended is None:
        return f"{where} names no node and has not ended"
    if any(node.up and not node.down for node in attempt.nodes):
        return f"{where}: a node is still up, or nobody noted when it was gone"
    if attempt.nodes and rule is None:
        return f"{where}: how {attempt.provider} bills is not known"
    if attempt.nodes and row is None:
        return f"{where} has no price row of a {attempt.market} node in {attempt.region}"
    return ""


def _row_of(attempt: Attempt) -> PriceRow | None:
    """The price that the attempt was chosen by, of the node that it then was."""
    of = (attempt.provider, attempt.node_type, attempt.region, attempt.market)
    for row in attempt.price_rows:
        if (row.provider, row.node_type, row.region, row.market) == of:
            return row
    return None


def _is_tpu(node_type: str) -> bool:
    """Slices are called such as v3-8, v5litepod-4, v5p-8 and v6e-1; a node is a whole slice."""
    return node_type[:1] == "v" and node_type[1:2].isdigit() and "-" in node_type
