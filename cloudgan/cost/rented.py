"""The cost of rented nodes in parts: the provider's bill, told apart by what the program did."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cloudgan.cost.billing import all_up_at
from cloudgan.cost.processes import REPEATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloudgan.core.launch import Attempt, Launch
    from cloudgan.cost.billing import AttemptBill
    from cloudgan.cost.ledger import Ledger
    from cloudgan.cost.processes import ProcessTimes

PROVISIONING = "provisioning"
STAGING = "image and set-up of the node"
TAIL = "idle tail"
ROUNDING = "least time and whole units that are billed"
NOT_TOLD_APART = "time on the nodes that was not told apart"
_EXACT_SECONDS = 1e-6


def spend_attempt(
    ledger: Ledger, bill: AttemptBill, attempt: Attempt, processes: Sequence[ProcessTimes] | None
) -> None:
    """Adds what the nodes of one attempt are paid for; the parts make its bill exactly.

    No timestamp of the program is ever compared with one of the provider: waiting, image and idle
    tail come from the provider's clock, the program's parts are lengths of its own clock, and what
    neither tells apart is one part.

    Args:
        ledger: To add it to.
        bill: Of the attempt.
        attempt: The same.
        processes: Those that ran in it; None where that is not known.
    """
    if bill.why_unknown or bill.row is None:
        ledger.unknown(
            f"nodes of attempt {bill.number}",
            bill.why_unknown or "its price is not known",
            "billed_seconds",
            None,
        )
        return
    if not bill.nodes:
        return
    if processes is not None and not processes:
        found = {REPEATED: bill.up_seconds}
    else:
        found = _told_apart(bill, attempt, processes or ())
    found[ROUNDING] = bill.billed_seconds - bill.up_seconds
    for name, node_seconds in found.items():
        ledger.spend(
            name,
            bill.row,
            seconds=_wall(name, node_seconds, bill.at_once),
            node_seconds=max(0.0, node_seconds),
            duration="billed_seconds",
        )


def processes_of_attempts(
    launch: Launch, processes: Sequence[ProcessTimes], bills: Sequence[AttemptBill]
) -> dict[int, tuple[ProcessTimes, ...]] | None:
    """Returns which processes ran in which attempt, by its number; None where that is unclear.

    Both lists are in the order of time, but a node may have started the program more than once, and
    clocks of nodes and providers are not compared.
    """
    with_nodes = [bill.number for bill in bills if launch.attempts[bill.number - 1].nodes]
    if len(processes) == len(launch.attempts):
        return {number: (one,) for number, one in enumerate(processes, start=1)}
    if len(processes) == len(with_nodes):
        return {number: (one,) for number, one in zip(with_nodes, processes, strict=True)}
    if len(with_nodes) == 1:
        return {with_nodes[0]: tuple(processes)}
    return None


def _told_apart(
    bill: AttemptBill, attempt: Attempt, processes: Sequence[ProcessTimes]
) -> dict[str, float]:
    """Node-seconds by part; together they are all the time that the nodes were up."""
    nodes = bill.at_once
    found = {PROVISIONING: bill.waited_seconds}
    staging, tail = _from_provider(attempt)
    if staging is not None:
        found[STAGING] = staging
    if tail is not None:
        found[TAIL] = tail
    for process in processes:
        for name, seconds in process.parts().items():
            if seconds is not None:
                found[name] = found.get(name, 0.0) + seconds * nodes
    left = bill.up_seconds - math.fsum(found.values())
    if left < -_EXACT_SECONDS:  # clocks that disagree: the sum stays what is paid for
        return {NOT_TOLD_APART: bill.up_seconds}
    # One process that ends is a run; where there were more, or one was killed, something was lost.
    lost = len(processes) > 1 or any(process.program is None for process in processes)
    is_known = staging is not None and tail is not None
    name = REPEATED if lost and is_known else NOT_TOLD_APART
    found[name] = found.get(name, 0.0) + max(0.0, left)
    return found


def _from_provider(attempt: Attempt) -> tuple[float | None, float | None]:
    """Node-seconds before the program began and after it ended, all by the provider's clock."""
    staging = tail = None
    began, ended, all_up = attempt.program_up, attempt.program_down, all_up_at(attempt)
    if began and all_up:
        waited = max(0.0, (began - all_up).total_seconds())
        staging = waited * sum(1 for node in attempt.nodes if node.up and node.up <= began)
    if ended:
        tail = math.fsum(
            max(0.0, (node.down - max(ended, node.up)).total_seconds())
            for node in attempt.nodes
            if node.up and node.down
        )
    return staging, tail


def _wall(name: str, node_seconds: float, nodes: int) -> float | None:
    """How long it took; of waiting and idling each node has a time of its own."""
    same_on_each = name not in {PROVISIONING, TAIL, ROUNDING, NOT_TOLD_APART, REPEATED}
    return node_seconds / nodes if same_on_each or nodes == 1 else None
