"""The ledger of a finished run by what its processes did, and the report that is made of it.

The time of a provisioned attempt is the provider's, and its parts add up to the bill exactly. Timestamps of
the program are never compared with the provider's: waiting, set-up and idle tail come from the provider's
clock, activities are durations of the program's clock, and the remainder is one part.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from cloudgan import __version__
from cloudgan.core.clouds import BillingRule
from cloudgan.money.advice import recommendations
from cloudgan.money.billing import billing_rule, launch_ledger, notices_of
from cloudgan.money.fees import Fees
from cloudgan.money.ledger import Ledger, Usage
from cloudgan.money.processes import NO_END, Activities, process_times, record_warnings
from cloudgan.money.shares import rank_shares
from cloudgan.schema.cost_report import (
    BilledAttempt,
    CostReport,
    Duration,
    Durations,
    PricedOffer,
    ReportProvenance,
    Totals,
    UnitCost,
    UnitCosts,
)
from cloudgan.schema.item import Item
from cloudgan.schema.launch import Attempt, Launch
from cloudgan.schema.price_row import PriceRow
from cloudgan.schema.record import RunRecord

PROVISIONED = (
    "billed seconds of provisioned nodes, by the provider's timestamps, at the price rows of the"
    " launch"
)
NOT_MEASURED_THERE = (
    "not measured on this node: its price for the times of the machine that was measured; a bound,"
    " not a forecast"
)
HOURLY_PRICE_UNKNOWN = (
    "the hourly price of this machine is unknown; name an offer with --price-as=OFFER"
)
_NOT_PROVISIONED = "no node was provisioned for this run"
_NOT_RECORDED = "the volume that this run stored or transferred was not recorded"
_MILLION = 1e6
_EXACT_SECONDS = 1e-6
_DIFFERS = frozenset(
    {Item.PROVISIONING, Item.TAIL, Item.ROUNDING, Item.NOT_ATTRIBUTED, Item.REPEATED}
)
"""Items whose wall-clock time is not the same on all nodes."""


class AttemptBill(NamedTuple):
    """The nodes of one attempt.

    Attributes:
        number: Of the attempt, from 1.
    """

    number: int
    attempt: Attempt
    nodes: Ledger

    @property
    def row(self) -> PriceRow | None:
        """Price of one node; None: unknown."""
        return self.attempt.price

    @property
    def why_unknown(self) -> str:
        """Why the time or the price is unknown, or ""."""
        return next((line.why for line in self.nodes.lines if line.usd is None), "")

    @property
    def concurrent_nodes(self) -> int:
        """Nodes up at a time: fewer than all if lost ones were replaced."""
        count = int(sum(line.units for line in self.nodes.lines))
        return min(count, self.attempt.node_count or count)

    @property
    def up_seconds(self) -> float:
        """Uptime, summed over the nodes."""
        return math.fsum(line.units * (line.lasted or 0.0) for line in self.nodes.lines)

    @property
    def paid_share(self) -> float:
        """Share of the uptime that is not free."""
        free = math.fsum(line.lasted or 0.0 for line in self.nodes.lines if line.is_free)
        return 1 - free / self.up_seconds if free else 1.0

    @property
    def free_nodes(self) -> int:
        """Nodes that the cloud took so early that they cost nothing."""
        return sum(line.is_free for line in self.nodes.lines)


def attempt_bills(ledger: Ledger, launch: Launch | None) -> tuple[AttemptBill, ...]:
    """Returns the nodes of each attempt on provisioned nodes."""
    nodes = ledger.of(Item.NODES).by(lambda line: line.attempt)
    return tuple(
        AttemptBill(number, attempt, nodes.get(number, Ledger()))
        for number, attempt in enumerate(launch.attempts if launch else (), start=1)
        if attempt.is_billed
    )


def by_activity(bill: AttemptBill, processes: Sequence[Activities] | None) -> Ledger:
    """Returns the node time of an attempt by what its processes did (None: unknown); it adds up to the bill exactly."""
    ledger = bill.nodes
    if bill.why_unknown or not ledger.lines:
        return ledger
    found = {Item.REPEATED: bill.up_seconds}
    if processes is None or processes:
        found = _attributed(bill, processes or ())
    found = {item: seconds * bill.paid_share for item, seconds in found.items()}
    found[Item.ROUNDING] = max(0.0, ledger.node_seconds - math.fsum(found.values()))
    nodes = replace(ledger.lines[0], quantity=ledger.node_seconds, since=None, is_free=False)
    parts: list[Usage] = []
    for item, share in Ledger((nodes,)).shares(lambda _: found).items():
        (part,) = share.lines
        is_same = item not in _DIFFERS or bill.concurrent_nodes == 1
        seconds = share.node_seconds / bill.concurrent_nodes if is_same else None
        parts.append(replace(part, item=item, seconds=seconds))
    return Ledger(tuple(parts))


def _attributed(bill: AttemptBill, processes: Sequence[Activities]) -> dict[Item, float]:
    """Returns node-seconds by item; they add up to the time that the nodes were up."""
    all_up = all_nodes_up_at(bill.attempt)
    # A node that was deleted before the last one came up waited for its whole uptime.
    waited = (
        min(line.lasted or 0.0, max(0.0, (all_up - line.since).total_seconds()))
        for line in bill.nodes.lines
        if all_up and line.since
    )
    found = {Item.PROVISIONING: math.fsum(waited)}
    staging, tail = _set_up_and_tail(bill.attempt)
    if staging is not None:
        found[Item.SET_UP] = staging
    if tail is not None:
        found[Item.TAIL] = tail
    for process in processes:
        for item, seconds in process.items():
            if seconds is not None:
                found[item] = found.get(item, 0.0) + seconds * bill.concurrent_nodes
    rest = bill.up_seconds - math.fsum(found.values())
    if rest < -_EXACT_SECONDS:  # the clocks disagree: keep the billed sum
        return {Item.NOT_ATTRIBUTED: bill.up_seconds}
    # A run without losses is one process that ends.
    lost = len(processes) > 1 or any(_is_killed(process) for process in processes)
    is_known = staging is not None and tail is not None
    item = Item.REPEATED if lost and is_known else Item.NOT_ATTRIBUTED
    found[item] = found.get(item, 0.0) + max(0.0, rest)
    return found


def _set_up_and_tail(attempt: Attempt) -> tuple[float | None, float | None]:
    """Returns node-seconds before the program started and after it ended (provider's clock)."""
    began, ended = attempt.program_started_at, attempt.program_ended_at
    all_up = all_nodes_up_at(attempt)
    return (
        _up_seconds(attempt, all_up, began) if began and all_up else None,
        _up_seconds(attempt, ended) if ended else None,
    )


def _up_seconds(attempt: Attempt, since: dt.datetime, until: dt.datetime | None = None) -> float:
    """Returns the uptime of all nodes between two moments; None: until the known end of each."""
    spans = (
        (max(node.started_at, since), min(filter(None, (node.terminated_at, until)), default=None))
        for node in attempt.nodes
        if node.started_at
    )
    return math.fsum(max(0.0, (end - begin).total_seconds()) for begin, end in spans if end)


def processes_of_attempts(
    launch: Launch, processes: Sequence[Activities], bills: Sequence[AttemptBill]
) -> dict[int, tuple[Activities, ...]] | None:
    """Returns the processes of each attempt by its number; None if the assignment is ambiguous.

    Both lists are in time order, but a node may start the program more than once, and clocks of
    nodes and providers are not compared.
    """
    could_run = [
        number
        for number, one in enumerate(launch.attempts, start=1)
        if one.nodes or one.program_started_at or one.end_reason is None
    ]
    with_nodes = [bill.number for bill in bills if bill.attempt.nodes]
    for numbers in (could_run, with_nodes):
        if len(numbers) == len(processes):
            return {number: (one,) for number, one in zip(numbers, processes, strict=True)}
        if len(numbers) == 1:
            return {numbers[0]: tuple(processes)}
    return None


def all_nodes_up_at(attempt: Attempt) -> dt.datetime | None:
    """Returns when the last initial node was up; later nodes are replacements."""
    ups = sorted(node.started_at for node in attempt.nodes if node.started_at)
    begun = attempt.program_started_at
    first = [up for up in ups if begun and up <= begun] or ups[: attempt.node_count or len(ups)]
    return first[-1] if first else None


def _is_killed(process: Activities) -> bool:
    """Whether the end of a process is unknown."""
    return process.get(Item.OTHER, 0.0) is None


def own_machine(processes: Sequence[Activities], row: PriceRow | None) -> Ledger:
    """Returns the usage of a machine without a bill, at the price of a node; None: unknown."""
    lines = []
    if not processes:
        lines.append(
            Usage(item=Item.COMPUTE, why="the record contains no process", duration=_PROGRAM)
        )
    for process in processes:
        for item, seconds in process.items():
            of: Duration = "billed_seconds" if item in (Item.INSTALL, Item.SMOKE_STEP) else _PROGRAM
            if seconds is not None:
                lines.append(
                    Usage(
                        item=item,
                        row=row,
                        quantity=seconds,
                        seconds=seconds,
                        duration=of,
                        why=HOURLY_PRICE_UNKNOWN,
                    )
                )
    if any(_is_killed(process) for process in processes):
        lines.append(Usage(item=Item.PROCESS_END, why=NO_END, duration=_PROGRAM))
    if any(process.get(Item.START_UP, 0.0) is None for process in processes):
        why = "the record has no line for the start"
        lines.append(Usage(item=Item.PROCESS_START, why=why, duration=_PROGRAM))
    return Ledger(tuple(lines))


_PROGRAM: Duration = "program_seconds"
_UNSEEN = (
    *(
        (item, _NOT_PROVISIONED)
        for item in (Item.PROVISIONING, Item.SET_UP, Item.TAIL, Item.CLUSTER)
    ),
    *((item, _NOT_RECORDED) for item in (Item.STORAGE, Item.EGRESS)),
)


def run_ledger(
    record: RunRecord,
    *,
    row: PriceRow | None = None,
    launch: Launch | None = None,
    fees: Fees | None = None,
) -> tuple[Ledger, tuple[AttemptBill, ...]]:
    """Returns the usage of a run by activity, and the nodes of its attempts on provisioned nodes.

    Args:
        row: Price of machines without a bill; None: unknown.
        fees: Prices beside the nodes; None: unknown.
    """
    processes = process_times(record)
    usage = launch_ledger(launch, fees or Fees(()), notices_of(record)) if launch else Ledger()
    bills = attempt_bills(usage, launch)
    if not launch or not bills:
        unseen = (Usage(item=item, why=why) for item, why in _UNSEEN)
        return own_machine(processes, row) + Ledger(tuple(unseen)), ()
    ran_in = processes_of_attempts(launch, processes, bills)
    billed = {bill.number for bill in bills}
    own = [one for number, ran in (ran_in or {}).items() if number not in billed for one in ran]
    found = own_machine(own, row) if own else Ledger()
    for bill in bills:
        ran = None if ran_in is None or not processes else ran_in.get(bill.number, ())
        found += by_activity(bill, ran)
    beside = (
        line for line in usage.lines if line.item is not Item.NODES and line.attempt in billed
    )
    return found + Ledger(tuple(beside)), bills


def cost_report(
    run: str,
    record: RunRecord,
    today: dt.date,
    *,
    row: PriceRow | None = None,
    launch: Launch | None = None,
    fees: Fees | None = None,
    accepted: bool | None = None,
    group: int = 1,
    spot_rows: Sequence[PriceRow] = (),
) -> CostReport:
    """Returns the cost of a run by line item.

    Args:
        today: Day for the age of prices.
        row: Node type to price a machine without a bill as; None: unknown cost.
        launch: Attempts; those on provisioned nodes use their own price rows.
        fees: Fees besides nodes; None: unknown.
        accepted: Verdict of the validation; None: not validated.
        group: Ranks of a worker, in a run with masters and workers.
        spot_rows: Offers that may have cost less.
    """
    ledger, bills = run_ledger(record, row=row, launch=launch, fees=fees)
    line_items = ledger.line_items()
    totals, paid, started = ledger.total(), _last_price(bills, row), record.started()
    any_known = any(item.usd is not None for item in line_items)
    rate, up_seconds = record.samples_per_second(), launch.billed_seconds() if launch else None
    price, nodes = paid or (None, 1)
    spot_id = price.in_other_market.row_id if price else None
    other = next((one for one in spot_rows if one.row_id == spot_id), None)
    return CostReport(
        run=run,
        priced_as=paid[0].row_id if paid else None,
        basis=PROVISIONED if bills else NOT_MEASURED_THERE if row else HOURLY_PRICE_UNKNOWN,
        durations=Durations(
            steady_epoch_seconds=record.steady_epoch_seconds(),
            program_seconds=record.whole_program_seconds(),
            billed_seconds=up_seconds,
        ),
        line_items=line_items,
        totals=totals,
        shares=rank_shares(record, ledger, group=group),
        unit_costs=UnitCosts(
            per_epoch=_cost_of_time(
                record.steady_epoch_seconds(),
                paid,
                "steady_epoch_seconds",
                "the record contains no complete epoch after the first",
            ),
            per_million_showers=_cost_of_time(
                _MILLION / rate if rate else None,
                paid,
                "one million showers at the median throughput of the epochs",
                "no throughput was recorded",
            ),
            per_accepted_model=_per_model(totals, accepted, any_known),
        ),
        billed_attempts=tuple(map(_billed, bills)),
        rows=ledger.rows(),
        warnings=(*record_warnings(record), *_free_nodes_notes(bills)),
        recommendations=recommendations(
            record, line_items, up_seconds, row=price, other_market=other, nodes=nodes
        ),
        provenance=ReportProvenance(
            cloudgan=__version__,
            today=today.isoformat(),
            measured_on=started.hardware.describe() if started else "an unknown machine",
            config_hash=started.config_hash if started else None,
            git_commit=started.git_commit if started else None,
        ),
    )


def price_run(
    record: RunRecord, offers: Iterable[PriceRow], today: dt.date
) -> tuple[PricedOffer, ...]:
    """Prices a run on each offer as if its node were as fast as the machine it ran on; None is unknown."""
    rate = record.samples_per_second()
    seconds = {
        "usd_per_epoch": record.steady_epoch_seconds(),
        "usd_per_run": record.whole_program_seconds(),
        "usd_per_million_showers": _MILLION / rate if rate else None,
    }
    reasons = ("no complete epoch after tracing", NO_END, "no throughput was recorded")
    unknown = tuple(
        f"{name}: {why}"
        for (name, time), why in zip(seconds.items(), reasons, strict=True)
        if time is None
    )
    return tuple(
        PricedOffer(
            row=row,
            age_days=row.age_days(today),
            unknown=unknown,
            basis=NOT_MEASURED_THERE,
            **{name: row.cost_usd(time) for name, time in seconds.items()},
        )
        for row in offers
    )


def _last_price(bills: Sequence[AttemptBill], row: PriceRow | None) -> tuple[PriceRow, int] | None:
    """Returns price and number of the nodes of the last attempt; None if unknown."""
    if not bills:
        return (row, 1) if row else None
    last = next((bill for bill in reversed(bills) if bill.nodes.lines), None)
    return (last.row, last.concurrent_nodes) if last and last.row else None


def _cost_of_time(
    seconds: float | None, paid: tuple[PriceRow, int] | None, what: str, why: str
) -> UnitCost:
    if seconds is None:
        return UnitCost(usd=None, basis=what, why_unknown=why)
    if paid is None:
        return UnitCost(usd=None, basis=what, why_unknown=HOURLY_PRICE_UNKNOWN)
    row, nodes = paid
    basis = f"{what} ({seconds:.4g} s) on {nodes} x {row.row_id}"
    return UnitCost(usd=row.cost_usd(seconds, nodes), basis=basis)


def _per_model(totals: Totals, accepted: bool | None, any_known: bool) -> UnitCost:
    basis = "all line items of this run"
    if accepted is None:
        why = "the run was not validated: it has no verdict.json; run `cloudgan validate`"
    elif not accepted:
        why = "the model did not pass the validation"
    elif not any_known:
        why = f"every line item is unknown: {', '.join(totals.unknown)}"
    else:
        return UnitCost(usd=totals.known_usd, basis=basis, unknown=totals.unknown)
    return UnitCost(usd=None, basis=basis, why_unknown=why)


def _billed(bill: AttemptBill) -> BilledAttempt:
    is_known, rule = not bill.why_unknown, _rule(bill)
    return BilledAttempt(
        attempt=bill.number,
        nodes=int(sum(line.units for line in bill.nodes.lines if line.since)),
        up_node_seconds=bill.up_seconds if is_known else None,
        billed_node_seconds=bill.nodes.node_seconds if is_known else None,
        rule=rule.source if rule else None,
        price_row=bill.row.row_id if bill.row else None,
        why_unknown=bill.why_unknown or None,
    )


def _rule(bill: AttemptBill) -> BillingRule | None:
    ups = [line.since for line in bill.nodes.lines if line.since]
    return billing_rule(bill.attempt.provider, bill.attempt.node_type, max(ups, default=None))


def _free_nodes_notes(bills: Sequence[AttemptBill]) -> tuple[str, ...]:
    """Returns a sentence for each attempt with nodes that cost nothing."""
    return tuple(
        f"{bill.free_nodes} of {len(bill.nodes.lines)} nodes of attempt {bill.number} cost nothing:"
        f" the cloud took them back within {rule.free_if_taken_seconds / 60:g} min"
        for bill in bills
        if bill.free_nodes and (rule := _rule(bill))
    )
