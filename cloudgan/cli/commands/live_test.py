"""`cloudgan live-test`: the paid end-to-end test on a real cloud account."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.cli.options.launch_flags import EVERY_CLOUD, account_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.views.confirmation import confirm
from cloudgan.cli.views.output import mark_printed, print_json, print_table
from cloudgan.core import clouds
from cloudgan.core.errors import CloudganError, ConfigError, ResourcesLeftError
from cloudgan.reports.table import Mark, Number, Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cloudgan.api.targets import RunLocator
    from cloudgan.launch.ops.live_test import LiveTestReport

_MARKS = {"passed": True, "failed": False, "not run": None}
_PLANNED_HEADS = ("", "scenario", "proves", "expects", "minutes", "USD")


@with_flags(account=account_flags)
def live_test(
    *,
    budget_usd: float = 5.0,
    accelerator: str = "T4:1",
    unattended_minutes: float = 6.0,
    watch_minutes: float = 10.0,
    dry_run: bool = False,
    yes: bool = False,
    json: bool = False,
    account: RunLocator = EVERY_CLOUD,
) -> None:
    """Runs ten scenarios on your cloud account and writes a report.

    Two of the smallest GPU nodes train, lose a worker, are preempted, and run without a client. The
    test takes up to three hours, stops at the first failure, and always deletes its resources. The
    report is in runs/live-test-.../report.json.

    Args:
        budget_usd: Maximum cost; the test does not start if it can cost more.
        accelerator: Accelerator of each of the two nodes.
        unattended_minutes: Training time of the run without a client.
        watch_minutes: Time during which its nodes must stay deleted.
        dry_run: Show the scenarios and the maximum cost, and stop; needs no login.
        yes: Do not ask for confirmation.
        json: Print the report as JSON.
        account: Account and region; from the shared flags.
    """
    if account.provider is None:
        raise ConfigError(f"--provider is missing; give --provider={clouds.choices()}")
    from cloudgan.api.live_tests import PreparedLiveTest

    prepared = PreparedLiveTest(
        account, accelerator, unattended_minutes=unattended_minutes, watch_minutes=watch_minutes
    )
    if dry_run or not json:
        _print(prepared.report, as_json=json)
    if dry_run:
        return
    prepared.check_budget(budget_usd)
    confirm(f"Spend up to {prepared.report.max_usd:.2f} USD on {account.provider}?", yes=yes)
    from cloudgan.cli.main import main
    from cloudgan.cli.views.progress import ProgressBars

    with ProgressBars() as bars:
        report = prepared.run(main, bars.say)
    _end(report, prepared.report_file, json=json)


def _end(report: LiveTestReport, path: Path, *, json: bool) -> None:
    _print(report, as_json=json)
    error: CloudganError | None = None
    if report.remaining:
        error = ResourcesLeftError(
            f"resources left: {', '.join(report.remaining)}; run `cloudgan doctor --delete`"
        )
    elif not report.has_passed:
        failed = next((one for one in report.scenarios if one.outcome != "passed"), None)
        reason = f"{failed.name}: {failed.observed or failed.outcome}" if failed else "interrupted"
        error = CloudganError(f"the live test failed: {reason}. Report: {path}")
    if error:
        raise mark_printed(error, as_json=json)
    if not json:
        print(f"all scenarios passed, no resources left; report: {path}")


def _print(report: LiveTestReport, *, as_json: bool) -> None:
    if as_json:
        print_json(report.model_dump(mode="json") | {"max_usd": report.max_usd})
        return
    print_table(_table(report))
    for line in _lines(report):
        print(line)


def _lines(report: LiveTestReport) -> Iterator[str]:
    least = "at least " if report.unpriced else ""
    unknown = f" (unknown: {', '.join(report.unpriced)})" if report.unpriced else ""
    yield (
        f"two nodes with {report.accelerator} on {report.provider} in {report.region} and a cluster:"
        f" {least}{report.usd_per_hour:.2f} USD per hour{unknown}"
    )
    yield f"maximum cost, if each scenario takes its maximum time: {least}{report.max_usd:.2f} USD"


def _table(report: LiveTestReport) -> Table:
    if all(one.outcome == "not run" for one in report.scenarios):
        rows = tuple(
            (
                number,
                one.name,
                one.proves,
                one.expects,
                Number(one.max_minutes, f"{one.max_minutes:g}"),
                Number(one.max_usd, f"{one.max_usd:.2f}"),
            )
            for number, one in enumerate(report.scenarios, start=1)
        )
        return Table(_PLANNED_HEADS, rows)
    return Table(
        ("", "scenario", "outcome", "observed"),
        tuple(
            (number, one.name, Mark(_MARKS[one.outcome], one.outcome), one.observed)
            for number, one in enumerate(report.scenarios, start=1)
        ),
    )
