"""What stands beside a run's cost: what its plan foretold, and what its cloud billed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.core import launch
from cloudgan.core import plan as plans
from cloudgan.core.errors import DataError
from cloudgan.cost.bills.reading import read_bill
from cloudgan.cost.bills.reconciling import reconciled
from cloudgan.cost.foreseen import USD, compared

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.core.cost_report import CostReport
    from cloudgan.core.launch import Launch
    from cloudgan.core.record import RunRecord
    from cloudgan.run_folder import RunFolder

_GIB = 2**30
_LONG_UNSEEN_SECONDS = 300


def known_launch(folder: RunFolder) -> Launch | None:
    """Returns launch.json; what was fetched of a rented run is what left its cloud.

    Raises:
        DataError: It holds something else.
    """
    if not folder.launch_file.exists():
        return None
    known = launch.read(folder.launch_file)
    if not known.attempts or not known.attempts[-1].is_rented:
        return known
    last = known.attempts[-1]
    if last.egress_gib is not None or last.uploaded_gib is None:
        return known
    fetched = [folder.record_file, *folder.checkpoints.glob("*")]
    gib = sum(path.stat().st_size for path in fetched if path.is_file()) / _GIB
    last = last.model_copy(update={"egress_gib": gib})
    return known.model_copy(update={"attempts": (*known.attempts[:-1], last)})


def with_forecast(
    report: CostReport, folder: RunFolder, run: RunRecord, known: Launch | None
) -> CostReport:
    """Returns a report with what was foretold, where a plan did, and with what nobody saw.

    Raises:
        DataError: plan.json holds something else.
    """
    path = folder.path / plans.FILE_NAME
    found = compared(report, plans.read(path).forecast, len(run.epochs())) if path.exists() else ()
    warnings = (*report.warnings, *_unseen(known))
    return report.model_copy(update={"compared": found, "warnings": warnings})


def with_bill(report: CostReport, folder: RunFolder, files: tuple[Path, ...]) -> CostReport:
    """Returns a report with what a cloud billed.

    Raises:
        DataError: A file is no billing export; says what was expected.
    """
    missing = [path for path in files if not path.is_file()]
    if missing:
        raise DataError(f"--billed: there is no file {missing[0]}")
    known = known_launch(folder)
    run = known.run if known else report.run
    bill = reconciled(read_bill(files, run), files, report, known)
    rows = tuple(
        row.model_copy(update={"billed": bill.billed_usd}) if row.what == USD else row
        for row in report.compared
    )
    return report.model_copy(update={"bill": bill, "compared": rows})


def _unseen(known: Launch | None) -> list[str]:
    return [
        f"node {node.name} of attempt {number} was gone some time between"
        f" {node.seen:%Y-%m-%d %H:%M} and {node.down:%Y-%m-%d %H:%M} UTC, while nobody looked; it"
        " counts until the latter"
        for number, attempt in enumerate(known.attempts if known else (), start=1)
        for node in attempt.nodes
        if node.unseen_seconds() > _LONG_UNSEEN_SECONDS
    ]
