"""The cost of one run in parts: what it would be on a given node, or why nobody knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan import __version__
from cloudgan.core.cost_report import (
    CostPart,
    CostReport,
    Duration,
    Durations,
    MeasuredRun,
    Provenance,
    Totals,
)
from cloudgan.cost.estimate import NOT_MEASURED_THERE, RunTimes, price_run, usd

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from cloudgan.core.launch import Launch
    from cloudgan.core.price_row import PriceRow
    from cloudgan.core.record import RunRecord

NOBODY_BILLS_IT = "what this machine costs per hour is unknown; name an offer to price it as"
_NOT_RENTED = "no node was rented for this run, so nothing of this was measured"
_NOT_ROW = "the catalogue has no price for this"
_NO_END = "a process did not record its end"
_NOT_RECORDED = "not recorded"
# Costs of a rented node that a run on this machine cannot know, and what they are a part of.
_ELSEWHERE: tuple[tuple[str, str], ...] = (
    ("provisioning", _NOT_RENTED),
    ("idle tail", _NOT_RENTED),
    ("storage", _NOT_ROW),
    ("egress", _NOT_ROW),
)


def cost_parts(times: RunTimes, row: PriceRow | None) -> tuple[CostPart, ...]:
    """Returns the run's time in parts, each with its cost on the node of `row`.

    Args:
        times: The run's, measured.
        row: The price of the node; None where it ran on a machine that has none.
    """
    known = {
        "first epochs": times.first_epochs_seconds,
        "later epochs": times.later_epochs_seconds,
        "validation": times.validation_seconds,
        "checkpoints": times.checkpoint_seconds,
    }
    rest = "start-up, repeated work and all else"
    parts = [_part(name, seconds, row, _NOT_RECORDED) for name, seconds in known.items()]
    parts.append(_part(rest, _rest_seconds(times), row, _NO_END))
    parts += [_unknown(name, None, why, "billed_seconds") for name, why in _ELSEWHERE]
    return tuple(parts)


def cost_report(
    run: str,
    times: RunTimes,
    today: dt.date,
    *,
    row: PriceRow | None = None,
    launch: Launch | None = None,
    record: RunRecord | None = None,
    offers: Sequence[PriceRow] = (),
    measured_runs: Sequence[MeasuredRun] = (),
) -> CostReport:
    """Returns what a run on this machine cost, in parts, and what it would cost elsewhere.

    Args:
        run: Its name.
        times: Its times, measured.
        today: The day to which ages of prices are counted.
        row: The node to price it as; without it the machine's own price is unknown.
        launch: Where it ran; without it billed seconds are unknown.
        record: Its record, for the provenance.
        offers: Offers to price it on as well.
        measured_runs: Published runs to stand beside it.
    """
    parts = cost_parts(times, row)
    started = record.started() if record else None
    return CostReport(
        run=run,
        priced_as=row.row_id if row else None,
        basis=NOT_MEASURED_THERE if row else NOBODY_BILLS_IT,
        durations=Durations(
            steady_epoch_seconds=times.steady_epoch_seconds,
            program_seconds=times.program_seconds,
            billed_seconds=launch.billed_seconds() if launch else None,
        ),
        parts=parts,
        totals=Totals.of(parts),
        rows=(row,) if row else (),
        elsewhere=price_run(times, offers, today),
        measured_runs=tuple(measured_runs),
        provenance=Provenance(
            cloudgan=__version__,
            today=today.isoformat(),
            measured_on=times.measured_on,
            config_hash=started.config_hash if started else None,
            git_commit=started.git_commit if started else None,
        ),
    )


def _rest_seconds(times: RunTimes) -> float | None:
    if times.program_seconds is None:
        return None
    spent = (
        times.first_epochs_seconds,
        times.later_epochs_seconds,
        times.validation_seconds,
        times.checkpoint_seconds,
    )
    return max(0.0, times.program_seconds - sum(seconds or 0.0 for seconds in spent))


def _part(name: str, seconds: float | None, row: PriceRow | None, why: str) -> CostPart:
    if seconds is None:
        return _unknown(name, None, why, "program_seconds")
    if row is None:
        return _unknown(name, seconds, NOBODY_BILLS_IT, "program_seconds")
    return CostPart(
        name=name,
        seconds=seconds,
        duration="program_seconds",
        usd=usd(seconds, row),
        price_row=row.row_id,
    )


def _unknown(name: str, seconds: float | None, why: str, duration: Duration) -> CostPart:
    return CostPart(name=name, seconds=seconds, duration=duration, usd=None, why_unknown=why)
