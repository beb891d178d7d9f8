"""Training time, wall-clock time and cost of a run until a line of its record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import takewhile

from cloudgan.money.fees import Fees
from cloudgan.money.ledger import Ledger, Usage
from cloudgan.money.processes import NO_END, process_times
from cloudgan.money.report import AttemptBill, processes_of_attempts, run_ledger
from cloudgan.schema.launch import Launch
from cloudgan.schema.price_row import HOURLY_FEES, PriceRow
from cloudgan.schema.quality import RunToQuality
from cloudgan.schema.record import Line, Process, RunRecord, Stopped, Validated

_AMBIGUOUS = "the record does not show in which attempt the goal was met"


def end_of_step(record: RunRecord, step: int) -> Validated | Stopped | None:
    """Returns the line that has the time at which the checkpoint of `step` was complete.

    That is the first validation or end of a process after this step; a restart before the step voids it.
    None: the record has no such line.
    """
    found: Validated | Stopped | None = None
    for line in record.once():
        if line.kind in ("started", "resumed") and line.step < step:
            found = None
        elif line.kind in ("validated", "stopped") and line.step == step:
            found = found or line
    return found


def cost_until(
    run: RunToQuality,
    record: RunRecord,
    line: Validated | Stopped,
    *,
    row: PriceRow | None,
    launch: Launch | None,
    fees: Fees,
) -> RunToQuality:
    """Returns a run with its time and cost until `line`, a line of its record.

    On provisioned nodes that is the cost of all attempts until then, less the nodes' time after `line`.

    Args:
        run: Without time and cost.
        line: The validation, or the end of a process.
        row: Node type to price a machine without a bill as.
    """
    processes, program = record.processes(), record.program_seconds_until(line)
    if program is None:
        return run.model_copy(update={"why_unknown": NO_END})
    at = next(n for n, one in enumerate(processes) if any(each is line for each in one.lines))
    train = math.fsum(
        each.epoch.train_seconds
        for number, process in enumerate(processes[: at + 1])
        for each in process.epochs
        if number < at or each.epoch.step <= line.step
    )

    def known(**more: object) -> RunToQuality:
        return run.model_copy(update={"train_seconds": train, "program_seconds": program} | more)

    _, bills = run_ledger(record, launch=launch, fees=fees)
    bill: AttemptBill | None = None
    if launch and bills:
        number = _attempt_of(record, at, launch, bills)
        if number is None:
            return known(why_unknown=_AMBIGUOUS)
        bill = next((bill for bill in bills if bill.number == number), None)
        launch = launch.model_copy(update={"attempts": launch.attempts[:number]})
    ended = processes[at].stopped
    ledger, _ = run_ledger(_until(processes, at, line), row=row, launch=launch, fees=fees)
    if bill:
        if bill.row is None or bill.why_unknown or ended is None:
            return known(why_unknown=bill.why_unknown or NO_END)
        ledger = _less_the_end(ledger, bill, ended.program_seconds - line.program_seconds)
    unknown = ledger.total().unknown
    if all(one.usd is None for one in ledger.lines):
        return known(usd_unknown=unknown, why_unknown=ledger.lines[0].why)
    return known(usd=ledger.known_usd, usd_unknown=unknown)


def _less_the_end(ledger: Ledger, bill: AttemptBill, seconds: float) -> Ledger:
    """Returns the usage without the last `seconds` of an attempt's nodes and of what is billed beside them."""
    whole = bill.up_seconds
    after = min(whole, max(0.0, seconds) * bill.concurrent_nodes)

    def is_before(usage: Usage) -> Mapping[bool, float]:
        lasts = usage.is_node_time or usage.item in HOURLY_FEES
        return (
            {True: whole - after, False: after}
            if lasts and usage.attempt == bill.number
            else {True: 1.0}
        )

    return ledger.shares(is_before).get(True, Ledger())


def _attempt_of(
    record: RunRecord, at: int, launch: Launch, bills: tuple[AttemptBill, ...]
) -> int | None:
    """Returns the number of the attempt in which process `at` ran; None: it is ambiguous."""
    times = process_times(record)
    known = processes_of_attempts(launch, times, bills) or {}
    found = [n for n, ran in known.items() if any(one is times[at] for one in ran)]
    if not found and at == len(times) - 1:
        return len(launch.attempts)
    return found[0] if found else None


def _until(processes: tuple[Process, ...], at: int, line: Validated | Stopped) -> RunRecord:
    """Returns the record as if the process `at` had ended with `line`."""
    earlier = [each for process in processes[:at] for each in process.lines]
    until = takewhile(lambda each: each is not line, processes[at].lines)
    before: list[Line] = [each for each in until if each.kind != "noticed"]
    notices = [each for each in processes[at].lines if each.kind == "noticed"]
    end = Stopped(
        time=line.time,
        step=line.step,
        reason="reached",
        program_seconds=line.program_seconds,
        train_seconds=0,
    )
    return RunRecord(lines=(*earlier, *before, end, *notices))
