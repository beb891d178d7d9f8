"""The whole report on what a run cost: parts, totals, what a unit of work cost, by which rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cloudgan import __version__
from cloudgan.core.cost_report import (
    Billed,
    CostReport,
    Durations,
    Figure,
    Figures,
    Provenance,
    Totals,
)
from cloudgan.cost.billing import bills_of
from cloudgan.cost.estimate import NOT_MEASURED_THERE, price_run, run_times, usd
from cloudgan.cost.fees import Fees
from cloudgan.cost.hints import hints
from cloudgan.cost.parts import NOBODY_BILLS_IT, own_parts, rented_parts
from cloudgan.cost.processes import process_times

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from cloudgan.core.cost_report import MeasuredRun, OfferThere
    from cloudgan.core.hint import Hint
    from cloudgan.core.launch import Launch
    from cloudgan.core.price_row import PriceRow
    from cloudgan.core.record import RunRecord
    from cloudgan.cost.billing import AttemptBill
    from cloudgan.cost.estimate import RunTimes

RENTED = (
    "billed seconds of rented nodes, by the provider's timestamps, at the price rows that the"
    " launch was chosen by"
)
_MILLION = 1e6


class Beside(NamedTuple):
    """What stands beside the run's own cost.

    Attributes:
        offers: To price it on as if each were as fast as the machine it ran on.
        there: Epochs on offers, by measured runs of the same network.
        measured_runs: Published runs.
        other_market: Every spot row of a node that may have been paid on demand.
    """

    offers: Sequence[PriceRow] = ()
    there: Sequence[OfferThere] = ()
    measured_runs: Sequence[MeasuredRun] = ()
    other_market: Sequence[PriceRow] = ()


def cost_report(
    run: str,
    record: RunRecord,
    today: dt.date,
    *,
    row: PriceRow | None = None,
    launch: Launch | None = None,
    fees: Fees | None = None,
    accepted: bool | None = None,
    beside: Beside | None = None,
) -> CostReport:
    """Returns what a run cost, in parts, and what it would cost elsewhere.

    Args:
        run: Its name.
        record: What happened.
        today: The day to which ages of prices are counted.
        row: The node to price as what nobody bills; without it that is unknown.
        launch: Where it ran; its attempts on rented nodes price themselves.
        fees: What is charged beside nodes; without them that is unknown.
        accepted: What the verdict was; None: none was asked for.
        beside: What to show beside it.
    """
    times, bills, beside = run_times(record), bills_of(launch), beside or Beside()
    processes = process_times(record)
    if launch and bills:
        ledger = rented_parts(processes, launch, bills, fees or Fees(()), row)
    else:
        ledger = own_parts(processes, row)
    parts = ledger.parts()
    totals, paid = Totals.of(parts), _paid_by(bills, row)
    return CostReport(
        run=run,
        priced_as=paid[0].row_id if paid else None,
        basis=RENTED if bills else NOT_MEASURED_THERE if row else NOBODY_BILLS_IT,
        durations=Durations(
            steady_epoch_seconds=times.steady_epoch_seconds,
            program_seconds=times.program_seconds,
            billed_seconds=launch.billed_seconds() if launch else None,
        ),
        parts=parts,
        totals=totals,
        figures=_figures(times, paid, totals, accepted, any(p.usd is not None for p in parts)),
        billed=tuple(map(_billed, bills)),
        rows=ledger.rows(),
        elsewhere=price_run(times, beside.offers, today),
        elsewhere_measured=tuple(beside.there),
        measured_runs=tuple(beside.measured_runs),
        warnings=record.warnings(),
        hints=_hints(record, paid, beside.other_market),
        provenance=_provenance(record, times, today),
    )


def _provenance(record: RunRecord, times: RunTimes, today: dt.date) -> Provenance:
    started = record.started()
    return Provenance(
        cloudgan=__version__,
        today=today.isoformat(),
        measured_on=times.measured_on,
        config_hash=started.config_hash if started else None,
        git_commit=started.git_commit if started else None,
    )


def _paid_by(bills: Sequence[AttemptBill], row: PriceRow | None) -> tuple[PriceRow, int] | None:
    """The price and number of nodes that the run last trained on; None: unknown."""
    if not bills:
        return (row, 1) if row else None
    last = next((bill for bill in reversed(bills) if bill.nodes), None)
    return (last.row, last.at_once) if last and last.row else None


def _hints(
    record: RunRecord, paid: tuple[PriceRow, int] | None, spot_rows: Sequence[PriceRow]
) -> tuple[Hint, ...]:
    row, nodes = paid or (None, 1)
    place = (row.provider, row.node_type, row.region) if row else None
    spot = [one for one in spot_rows if (one.provider, one.node_type, one.region) == place]
    return hints(record, row=row, other_market=spot[0] if spot else None, nodes=nodes)


def _figures(
    times: RunTimes,
    paid: tuple[PriceRow, int] | None,
    totals: Totals,
    accepted: bool | None,
    any_known: bool,
) -> Figures:
    rate = times.showers_per_second
    return Figures(
        per_epoch=_timed(
            times.steady_epoch_seconds,
            paid,
            "steady_epoch_seconds",
            "the record holds no complete epoch after the first",
        ),
        per_million_showers=_timed(
            _MILLION / rate if rate else None,
            paid,
            "a million showers at the median rate of the epochs",
            "no rate was recorded",
        ),
        per_accepted_model=_per_model(totals, accepted, any_known),
    )


def _timed(seconds: float | None, paid: tuple[PriceRow, int] | None, what: str, why: str) -> Figure:
    if seconds is None:
        return Figure(usd=None, basis=what, why_unknown=why)
    if paid is None:
        return Figure(usd=None, basis=what, why_unknown=NOBODY_BILLS_IT)
    row, nodes = paid
    basis = f"{what} ({seconds:.4g} s) on {nodes} x {row.row_id}"
    return Figure(usd=usd(seconds, row, nodes), basis=basis)


def _per_model(totals: Totals, accepted: bool | None, any_known: bool) -> Figure:
    basis = "all parts of this run's cost"
    if accepted is None:
        why = "no verdict was asked for: the folder of the run holds no verdict.json"
    elif not accepted:
        why = "the verdict was that this model is not good enough"
    elif not any_known:
        why = f"every part is unknown: {', '.join(totals.unknown)}"
    else:
        return Figure(usd=totals.known_usd, basis=basis, without=totals.unknown)
    return Figure(usd=None, basis=basis, why_unknown=why)


def _billed(bill: AttemptBill) -> Billed:
    known = not bill.why_unknown
    return Billed(
        attempt=bill.number,
        nodes=len(bill.nodes),
        up_node_seconds=bill.up_seconds if known else None,
        billed_node_seconds=bill.billed_seconds if known else None,
        rule=bill.rule.source if bill.rule else None,
        price_row=bill.row.row_id if bill.row else None,
        why_unknown=bill.why_unknown or None,
    )
