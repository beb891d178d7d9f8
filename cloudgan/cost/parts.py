"""The cost of one run in parts: what was paid, what it would be on a given node, or why unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.cost.fee_parts import CLUSTER, EGRESS, STORAGE, charge_attempt
from cloudgan.cost.ledger import Ledger
from cloudgan.cost.processes import INSTALL, NO_END
from cloudgan.cost.rented import (
    PROVISIONING,
    STAGING,
    TAIL,
    processes_of_attempts,
    spend_attempt,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cloudgan.core.cost_report import Duration
    from cloudgan.core.launch import Launch
    from cloudgan.core.price_row import PriceRow
    from cloudgan.cost.billing import AttemptBill
    from cloudgan.cost.fees import Fees
    from cloudgan.cost.processes import ProcessTimes

NOBODY_BILLS_IT = "what this machine costs per hour is unknown; name an offer with --as=OFFER"
COMPUTE = "compute"
LOST_END = "the end of a killed process"
_NOT_RENTED = "no node was rented for this run, so nothing of this was measured"
_NOT_BY_RUN = "nobody noted how much this run stored or moved"


def own_parts(processes: Sequence[ProcessTimes], row: PriceRow | None) -> Ledger:
    """Returns the parts of a run on a machine that nobody bills.

    Args:
        processes: Their times.
        row: The node to price it as, one of it; None where its cost is unknown.
    """
    ledger = Ledger()
    _spend_own(ledger, processes, row)
    for name in (PROVISIONING, STAGING, TAIL, CLUSTER):
        ledger.unknown(name, _NOT_RENTED, "billed_seconds", None)
    for name in (STORAGE, EGRESS):
        ledger.unknown(name, _NOT_BY_RUN, "billed_seconds", None)
    return ledger


def rented_parts(
    processes: Sequence[ProcessTimes],
    launch: Launch,
    bills: Sequence[AttemptBill],
    fees: Fees,
    row: PriceRow | None = None,
) -> Ledger:
    """Returns the parts of a run on rented nodes, summed over its attempts.

    Args:
        processes: Their times.
        launch: The attempts, with their price rows.
        bills: Of the attempts on rented nodes.
        fees: What is charged beside nodes.
        row: What to price those processes as that ran on machines that nobody bills.
    """
    ledger = Ledger()
    ran_in = processes_of_attempts(launch, processes, bills)
    rented = {bill.number for bill in bills}
    if ran_in is not None:
        elsewhere = [one for number, some in ran_in.items() if number not in rented for one in some]
        if elsewhere:
            _spend_own(ledger, elsewhere, row)
    for bill in bills:
        attempt = launch.attempts[bill.number - 1]
        ran = None if ran_in is None or not processes else ran_in.get(bill.number, ())
        spend_attempt(ledger, bill, attempt, ran)
    for bill in bills:
        charge_attempt(ledger, launch.attempts[bill.number - 1], fees)
    return ledger


def _spend_own(ledger: Ledger, processes: Iterable[ProcessTimes], row: PriceRow | None) -> None:
    processes = tuple(processes)
    if not processes:
        ledger.unknown(COMPUTE, "the record holds no process", "program_seconds", None)
    for process in processes:
        for name, seconds in process.parts().items():
            if seconds is None:
                continue
            of: Duration = "billed_seconds" if name == INSTALL else "program_seconds"
            if row is None:
                ledger.unknown(name, NOBODY_BILLS_IT, of, seconds)
            else:
                ledger.spend(name, row, seconds=seconds, node_seconds=seconds, duration=of)
    if any(process.program is None for process in processes):
        ledger.unknown(LOST_END, NO_END, "program_seconds", None)
    if any(process.start_up is None for process in processes):
        ledger.unknown(
            "the start of a process", "its line in the record is missing", "program_seconds", None
        )
