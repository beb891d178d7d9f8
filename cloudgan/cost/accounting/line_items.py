"""Line items of a run's cost: node time by activity, cluster, storage and egress.

Node time of a provisioned attempt adds up to the provider's bill exactly. Timestamps of the program
are never compared with the provider's: waiting, set-up and idle tail come from the provider's clock,
activities are durations of the program's clock, and the remainder is one line item.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cloudgan.core.clouds import has_system_node
from cloudgan.cost.accounting.billing_rules import all_nodes_up_at
from cloudgan.cost.accounting.processes import INSTALL, NO_END, REPEATED, SMOKE_STEP
from cloudgan.schema.cost_report import LineItem
from cloudgan.schema.price_row import FeeRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cloudgan.cost.accounting.billing_rules import AttemptBill
    from cloudgan.cost.accounting.processes import ProcessTimes
    from cloudgan.cost.prices.fees import Fees
    from cloudgan.schema.cost_report import Duration
    from cloudgan.schema.launch import Attempt, Cluster, Launch
    from cloudgan.schema.price_row import PriceRow

PROVISIONING = "provisioning"
STAGING = "node set-up and image pull"
TAIL = "idle tail"
WAITING = "waiting for the next run"
ROUNDING = "billing minimum and rounding"
NOT_ATTRIBUTED = "unattributed node time"
COMPUTE = "compute"
MISSING_END = "end of a killed process"
CLUSTER = "cluster"
SYSTEM_NODES = "system nodes of the cluster"
STORAGE = "storage"
EGRESS = "egress"
TO_THE_INTERNET = "to the internet"
"""Name in fees.csv. Traffic between regions is cheaper, so its price would be too low a bound."""
HOURLY_PRICE_UNKNOWN = (
    "the hourly price of this machine is unknown; name an offer with --price-as=OFFER"
)
_NOT_PROVISIONED = "no node was provisioned for this run"
_NOT_RECORDED = "the volume that this run stored or transferred was not recorded"
_HOUR_SECONDS = 3600
_EXACT_SECONDS = 1e-6


@dataclass
class _Entry:
    name: str
    duration: Duration
    row: PriceRow | FeeRow | None
    why_unknown: str | None = None
    usd: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    node_seconds: list[float] = field(default_factory=list)
    quantity: list[float] = field(default_factory=list)

    def line_item(self, name: str) -> LineItem:
        unit = self.row.unit if isinstance(self.row, FeeRow) and self.quantity else None
        return LineItem(
            name=name,
            seconds=_sum(self.seconds),
            node_seconds=_sum(self.node_seconds),
            quantity=_sum(self.quantity),
            unit=unit,
            duration=self.duration,
            usd=None if self.why_unknown else math.fsum(self.usd),
            price_row=None if self.why_unknown or self.row is None else self.row.row_id,
            why_unknown=self.why_unknown,
        )

    def name_with_row(self) -> str:
        return f"{self.name} ({self.row.row_id if self.row else 'unknown share'})"


class LineItemBuilder:
    """Collects costs by name and price row, and returns line items with unique names."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str | None], _Entry] = {}

    def add_node_time(
        self,
        name: str,
        row: PriceRow,
        *,
        seconds: float | None,
        node_seconds: float,
        duration: Duration,
    ) -> None:
        """Adds time on nodes.

        Args:
            name: Line item.
            row: Price of one node.
            seconds: Wall-clock time; None if it differs between nodes.
            node_seconds: Sum over the nodes.
            duration: The run's duration that includes this time.
        """
        entry = self._entry(name, duration, row)
        entry.usd.append(row.cost_usd(node_seconds))
        entry.node_seconds.append(node_seconds)
        if seconds is not None:
            entry.seconds.append(seconds)

    def add_fee(
        self,
        name: str,
        fee: FeeRow,
        *,
        quantity: float,
        seconds: float | None = None,
        units: float = 1,
    ) -> None:
        """Adds a fee for `quantity` in the fee's unit, multiplied by `units`."""
        entry = self._entry(name, "billed_seconds", fee)
        entry.usd.append(quantity * units * fee.usd)
        entry.quantity.append(quantity * units)
        if seconds is not None:
            entry.seconds.append(seconds)

    def add_unknown(
        self,
        name: str,
        why: str,
        duration: Duration = "billed_seconds",
        seconds: float | None = None,
    ) -> None:
        """Adds an unknown cost; the line item keeps the first reason."""
        entry = self._entry(name, duration, None)
        entry.why_unknown = entry.why_unknown or why
        if seconds is not None:
            entry.seconds.append(seconds)

    def line_items(self) -> tuple[LineItem, ...]:
        """Returns the line items in the order added, those of one name next to each other."""
        names = Counter(entry.name for entry in self._entries.values())
        order = {name: number for number, name in enumerate(names)}
        return tuple(
            entry.line_item(entry.name if names[entry.name] == 1 else entry.name_with_row())
            for entry in sorted(self._entries.values(), key=lambda entry: order[entry.name])
        )

    def rows(self) -> tuple[PriceRow | FeeRow, ...]:
        """Returns each price row that a line item names, once."""
        rows = {entry.row.row_id: entry.row for entry in self._entries.values() if entry.row}
        return tuple(rows.values())

    def _entry(self, name: str, duration: Duration, row: PriceRow | FeeRow | None) -> _Entry:
        key = (name, row.row_id if row else None)
        return self._entries.setdefault(key, _Entry(name, duration, row))


def own_machine_items(processes: Sequence[ProcessTimes], row: PriceRow | None) -> LineItemBuilder:
    """Returns the line items of a run on a machine without a bill.

    Args:
        processes: Times of each process.
        row: Node type to price the machine as; None if its cost is unknown.
    """
    items = LineItemBuilder()
    _add_own_machine(items, processes, row)
    for name in (PROVISIONING, STAGING, TAIL, CLUSTER):
        items.add_unknown(name, _NOT_PROVISIONED)
    for name in (STORAGE, EGRESS):
        items.add_unknown(name, _NOT_RECORDED)
    return items


def provisioned_items(
    processes: Sequence[ProcessTimes],
    launch: Launch,
    bills: Sequence[AttemptBill],
    fees: Fees,
    row: PriceRow | None = None,
) -> LineItemBuilder:
    """Returns the line items of a run on provisioned nodes, summed over its attempts.

    Args:
        processes: Times of each process.
        launch: Attempts with their price rows.
        bills: One for each attempt on provisioned nodes.
        fees: Fees besides nodes.
        row: Price of the processes that ran on machines without a bill.
    """
    items = LineItemBuilder()
    ran_in = processes_of_attempts(launch, processes, bills)
    provisioned = {bill.number for bill in bills}
    own = [
        process
        for number, group in (ran_in or {}).items()
        if number not in provisioned
        for process in group
    ]
    if own:
        _add_own_machine(items, own, row)
    for bill in bills:
        attempt = launch.attempts[bill.number - 1]
        ran = None if ran_in is None or not processes else ran_in.get(bill.number, ())
        add_node_cost(items, bill, attempt, ran)
        _add_waiting(items, bill, attempt)
    for bill in bills:
        add_fees(items, launch.attempts[bill.number - 1], fees)
    return items


def _add_own_machine(
    items: LineItemBuilder, processes: Sequence[ProcessTimes], row: PriceRow | None
) -> None:
    if not processes:
        items.add_unknown(COMPUTE, "the record contains no process", "program_seconds")
    for process in processes:
        for name, seconds in process.activities().items():
            if seconds is None:
                continue
            of: Duration = "billed_seconds" if name in (INSTALL, SMOKE_STEP) else "program_seconds"
            if row is None:
                items.add_unknown(name, HOURLY_PRICE_UNKNOWN, of, seconds)
            else:
                items.add_node_time(name, row, seconds=seconds, node_seconds=seconds, duration=of)
    if any(process.program is None for process in processes):
        items.add_unknown(MISSING_END, NO_END, "program_seconds")
    if any(process.start_up is None for process in processes):
        why = "the record has no line for the start"
        items.add_unknown("start of a process", why, "program_seconds")


def add_node_cost(
    items: LineItemBuilder,
    bill: AttemptBill,
    attempt: Attempt,
    processes: Sequence[ProcessTimes] | None,
) -> None:
    """Adds the node cost of one attempt; its line items add up to the bill exactly.

    Args:
        items: Receives the line items.
        bill: Node time of the attempt.
        attempt: Timestamps of its nodes and program.
        processes: Processes that ran in it; None if unknown.
    """
    if bill.why_unknown or bill.row is None:
        why = bill.why_unknown or "the price is unknown"
        items.add_unknown(f"nodes of attempt {bill.number}", why)
        return
    if not bill.nodes:
        return
    if processes is not None and not processes:
        found = {REPEATED: bill.up_seconds}
    else:
        found = _attributed(bill, attempt, processes or ())
    found = {name: seconds * bill.paid_share for name, seconds in found.items()}
    found[ROUNDING] = bill.billed_seconds - math.fsum(found.values())
    for name, node_seconds in found.items():
        items.add_node_time(
            name,
            bill.row,
            seconds=_wall_seconds(name, node_seconds, bill.concurrent_nodes),
            node_seconds=max(0.0, node_seconds),
            duration="billed_seconds",
        )


def _add_waiting(items: LineItemBuilder, bill: AttemptBill, attempt: Attempt) -> None:
    """Adds the nodes that this run kept for the next one, until that used them."""
    if attempt.kept is None:
        return
    seconds = attempt.kept.seconds()
    if bill.row is None:
        items.add_unknown(WAITING, bill.why_unknown or "the price is unknown", seconds=seconds)
        return
    items.add_node_time(
        WAITING,
        bill.row,
        seconds=seconds,
        node_seconds=seconds * attempt.kept.nodes,
        duration="billed_seconds",
    )


def processes_of_attempts(
    launch: Launch, processes: Sequence[ProcessTimes], bills: Sequence[AttemptBill]
) -> dict[int, tuple[ProcessTimes, ...]] | None:
    """Returns the processes of each attempt by its number; None if the assignment is ambiguous.

    Both lists are in time order, but a node may start the program more than once, and clocks of
    nodes and providers are not compared.
    """
    with_nodes = [bill.number for bill in bills if launch.attempts[bill.number - 1].nodes]
    if len(processes) == len(launch.attempts):
        return {number: (one,) for number, one in enumerate(processes, start=1)}
    if len(processes) == len(with_nodes):
        return {number: (one,) for number, one in zip(with_nodes, processes, strict=True)}
    if len(with_nodes) == 1:
        return {with_nodes[0]: tuple(processes)}
    return None


def _attributed(
    bill: AttemptBill, attempt: Attempt, processes: Sequence[ProcessTimes]
) -> dict[str, float]:
    """Returns node-seconds by line item; they add up to the time that the nodes were up."""
    found = {PROVISIONING: bill.waited_seconds}
    staging, tail = _set_up_and_tail(attempt)
    if staging is not None:
        found[STAGING] = staging
    if tail is not None:
        found[TAIL] = tail
    for process in processes:
        for name, seconds in process.activities().items():
            if seconds is not None:
                found[name] = found.get(name, 0.0) + seconds * bill.concurrent_nodes
    rest = bill.up_seconds - math.fsum(found.values())
    if rest < -_EXACT_SECONDS:  # the clocks disagree: keep the billed sum
        return {NOT_ATTRIBUTED: bill.up_seconds}
    # A run without losses is one process that ends.
    lost = len(processes) > 1 or any(process.program is None for process in processes)
    is_known = staging is not None and tail is not None
    name = REPEATED if lost and is_known else NOT_ATTRIBUTED
    found[name] = found.get(name, 0.0) + max(0.0, rest)
    return found


def _set_up_and_tail(attempt: Attempt) -> tuple[float | None, float | None]:
    """Returns node-seconds before the program started and after it ended (provider's clock)."""
    staging = tail = None
    began, ended, all_up = (
        attempt.program_started_at,
        attempt.program_ended_at,
        all_nodes_up_at(attempt),
    )
    if began and all_up:
        waited = max(0.0, (began - all_up).total_seconds())
        staging = waited * sum(
            1 for node in attempt.nodes if node.started_at and node.started_at <= began
        )
    if ended:
        tail = math.fsum(
            max(0.0, (node.terminated_at - max(ended, node.started_at)).total_seconds())
            for node in attempt.nodes
            if node.started_at and node.terminated_at
        )
    return staging, tail


def _wall_seconds(name: str, node_seconds: float, nodes: int) -> float | None:
    """Returns the wall-clock time; None for line items that differ between nodes."""
    same_on_each = name not in {PROVISIONING, TAIL, ROUNDING, NOT_ATTRIBUTED, REPEATED}
    return node_seconds / nodes if same_on_each or nodes == 1 else None


def add_fees(items: LineItemBuilder, attempt: Attempt, fees: Fees) -> None:
    """Adds cluster, storage and egress of an attempt; a missing volume or price is unknown."""
    if attempt.cluster is None:
        items.add_unknown(CLUSTER, "launch.json does not name the cluster of the nodes")
    else:
        _add_cluster(items, attempt, attempt.cluster, fees)
    of = (attempt.provider, attempt.region)
    storage = fees.find("storage_gib_month", *of)
    egress = fees.find("egress_gib", *of, TO_THE_INTERNET)
    for name, quantity, fee in (
        (STORAGE, attempt.stored_gib_months, storage),
        (EGRESS, attempt.egress_gib, egress),
    ):
        if quantity is None:
            items.add_unknown(name, "launch.json does not contain the volume")
        elif fee is None:
            items.add_unknown(name, f"no price of {name} in {attempt.provider} {attempt.region}")
        else:
            items.add_fee(name, fee, quantity=quantity)


def _add_cluster(items: LineItemBuilder, attempt: Attempt, cluster: Cluster, fees: Fees) -> None:
    seconds = cluster.share_seconds()
    if seconds is not None and attempt.kept:
        seconds += attempt.kept.seconds()  # no other run used the cluster for this one
    if seconds is None:
        why = f"the uptime of cluster {cluster.name} or the runs that shared it were not recorded"
        items.add_unknown(CLUSTER, why)
        return
    of = (attempt.provider, attempt.region)
    plane = fees.find("control_plane", *of, cluster.control_plane)
    hours = seconds / _HOUR_SECONDS
    if cluster.control_plane is None or plane is None:
        kind = cluster.control_plane or "of an unknown kind"
        items.add_unknown(CLUSTER, f"no fee of a control plane {kind}", seconds=seconds)
    else:
        items.add_fee(CLUSTER, plane, quantity=hours, seconds=seconds)
    if cluster.system_nodes == 0 or not has_system_node(attempt.provider):
        return
    node = fees.find("system_node", *of, cluster.system_node) if cluster.system_node else None
    if node is None or cluster.system_nodes is None:
        kind = cluster.system_node or "of unknown type"
        why = f"number or price of system nodes {kind} is unknown"
        items.add_unknown(SYSTEM_NODES, why, seconds=seconds)
        return
    items.add_fee(SYSTEM_NODES, node, quantity=hours, seconds=seconds, units=cluster.system_nodes)


def _sum(values: Iterable[float]) -> float | None:
    values = tuple(values)
    return math.fsum(values) if values else None
