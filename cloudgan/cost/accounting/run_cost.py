"""Cost report of a run: line items, totals, unit costs and the price rows that were used."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cloudgan import __version__
from cloudgan.cost.accounting.billing_rules import attempt_bills, free_nodes_notes
from cloudgan.cost.accounting.line_items import (
    HOURLY_PRICE_UNKNOWN,
    own_machine_items,
    provisioned_items,
)
from cloudgan.cost.accounting.processes import process_times
from cloudgan.cost.accounting.rank_shares import rank_shares
from cloudgan.cost.accounting.recommendations import recommendations
from cloudgan.cost.estimation.estimate import NOT_MEASURED_THERE, price_run, run_times
from cloudgan.cost.prices.fees import Fees
from cloudgan.schema.cost_report import (
    BilledAttempt,
    CostReport,
    Durations,
    ReportProvenance,
    Totals,
    UnitCost,
    UnitCosts,
)
from cloudgan.schema.record import PreemptionNotice
from cloudgan.schema.record_warnings import record_warnings

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from cloudgan.cost.accounting.billing_rules import AttemptBill
    from cloudgan.cost.estimation.estimate import RunTimes
    from cloudgan.schema.cost_report import OfferEstimate, PublishedRun, Recommendation
    from cloudgan.schema.launch import Launch
    from cloudgan.schema.price_row import PriceRow
    from cloudgan.schema.record import RunRecord

PROVISIONED = (
    "billed seconds of provisioned nodes, by the provider's timestamps, at the price rows of the"
    " launch"
)
_MILLION = 1e6


class ReportContext(NamedTuple):
    """Prices and runs to compare a run with.

    Attributes:
        offers: Priced as if each node were as fast as the machine of the run.
        offer_estimates: Epochs on offers, from measured runs of the same network.
        published_runs: Runs of the paper.
        spot_rows: Current spot prices.
    """

    offers: Sequence[PriceRow] = ()
    offer_estimates: Sequence[OfferEstimate] = ()
    published_runs: Sequence[PublishedRun] = ()
    spot_rows: Sequence[PriceRow] = ()


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
    context: ReportContext | None = None,
) -> CostReport:
    """Returns the cost of a run by line item, and estimates on other offers.

    Args:
        run: Name of the run.
        record: Its run record.
        today: Day for the age of prices.
        row: Node type to price a machine without a bill as; None: unknown cost.
        launch: Attempts; those on provisioned nodes use their own price rows.
        fees: Fees besides nodes; None: unknown.
        accepted: Verdict of the validation; None: not validated.
        group: Ranks of a worker, in a run with masters and workers.
        context: Prices and runs to compare with.
    """
    context = context or ReportContext()
    notices = [line for line in record.lines if isinstance(line, PreemptionNotice)]
    times, bills, processes = (
        run_times(record),
        attempt_bills(launch, notices),
        process_times(record),
    )
    if launch and bills:
        items = provisioned_items(processes, launch, bills, fees or Fees(()), row)
    else:
        items = own_machine_items(processes, row)
    line_items = items.line_items()
    totals, paid = Totals.of(line_items), _last_price(bills, row)
    any_known = any(item.usd is not None for item in line_items)
    return CostReport(
        run=run,
        priced_as=paid[0].row_id if paid else None,
        basis=PROVISIONED if bills else NOT_MEASURED_THERE if row else HOURLY_PRICE_UNKNOWN,
        durations=Durations(
            steady_epoch_seconds=times.steady_epoch_seconds,
            program_seconds=times.program_seconds,
            billed_seconds=launch.billed_seconds() if launch else None,
        ),
        line_items=line_items,
        totals=totals,
        shares=rank_shares(record, line_items, group=group),
        unit_costs=_unit_costs(times, paid, totals, accepted, any_known),
        billed_attempts=tuple(map(_billed, bills)),
        rows=items.rows(),
        priced_offers=price_run(times, context.offers, today),
        offer_estimates=tuple(context.offer_estimates),
        published_runs=tuple(context.published_runs),
        warnings=(*record_warnings(record), *free_nodes_notes(bills)),
        recommendations=_recommendations(record, paid, context.spot_rows),
        provenance=_provenance(record, times, today),
    )


def _provenance(record: RunRecord, times: RunTimes, today: dt.date) -> ReportProvenance:
    started = record.started()
    return ReportProvenance(
        cloudgan=__version__,
        today=today.isoformat(),
        measured_on=times.measured_on,
        config_hash=started.config_hash if started else None,
        git_commit=started.git_commit if started else None,
    )


def _last_price(bills: Sequence[AttemptBill], row: PriceRow | None) -> tuple[PriceRow, int] | None:
    """Returns price and number of the nodes of the last attempt; None if unknown."""
    if not bills:
        return (row, 1) if row else None
    last = next((bill for bill in reversed(bills) if bill.nodes), None)
    return (last.row, last.concurrent_nodes) if last and last.row else None


def _recommendations(
    record: RunRecord, paid: tuple[PriceRow, int] | None, spot_rows: Sequence[PriceRow]
) -> tuple[Recommendation, ...]:
    row, nodes = paid or (None, 1)
    of = (row.provider, row.node_type, row.region) if row else None
    spot = [one for one in spot_rows if (one.provider, one.node_type, one.region) == of]
    return recommendations(record, row=row, other_market=spot[0] if spot else None, nodes=nodes)


def _unit_costs(
    times: RunTimes,
    paid: tuple[PriceRow, int] | None,
    totals: Totals,
    accepted: bool | None,
    any_known: bool,
) -> UnitCosts:
    rate = times.showers_per_second
    return UnitCosts(
        per_epoch=_cost_of_time(
            times.steady_epoch_seconds,
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
    )


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
    known = not bill.why_unknown
    return BilledAttempt(
        attempt=bill.number,
        nodes=len(bill.nodes),
        up_node_seconds=bill.up_seconds if known else None,
        billed_node_seconds=bill.billed_seconds if known else None,
        rule=bill.rule.source if bill.rule else None,
        price_row=bill.row.row_id if bill.row else None,
        why_unknown=bill.why_unknown or None,
    )
