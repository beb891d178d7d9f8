"""`cloudgan doctor`: resources in your clouds, their runs, and their cost per day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.cli.options.launch_flags import EVERY_CLOUD, account_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.views.confirmation import confirm
from cloudgan.cli.views.output import mark_printed, print_json, print_table, progress_bars
from cloudgan.core.errors import CloudganError, CredentialsError, ResourcesLeftError
from cloudgan.reports.table import Mark, Number, Table

if TYPE_CHECKING:
    from cloudgan.api.targets import RunLocator

_MARKS = {"expected": True, "orphaned": False, "deleting": False, "unknown": None}
_STATUS = {"expected": "needed", "deleting": "being deleted"}


@with_flags(account=account_flags)
def doctor(
    *,
    store: str | None = None,
    delete: bool = False,
    yes: bool = False,
    json: bool = False,
    account: RunLocator = EVERY_CLOUD,
) -> None:
    """Lists all resources of cloudgan in every cloud that you are logged in to.

    Shows for each resource its run, its cost per day and the command that deletes it. Exits with 4
    if resources are orphaned or a part of a cloud did not answer, with 2 if no cloud could be queried.
    Resources without cloudgan's labels are not listed.

    Args:
        store: Stores of runs that are not in the account's bucket, separated by commas.
        delete: Delete orphaned resources, after confirmation; never those of active runs.
        yes: Do not ask for confirmation.
        json: Print the result as JSON.
        account: Accounts to query; from the shared flags.
    """
    from cloudgan.api.accounts import AccountSurveys

    surveys = AccountSurveys(account, tuple(filter(None, (store or "").split(","))))
    report = surveys.report()
    if not json:
        _print(report)
    if not surveys and not report["silent"]:
        message = "no cloud could be queried; `cloudgan check` shows what each one needs"
        raise _ended(CredentialsError(message), report, json=json)
    if report["orphaned"] and delete:
        confirm(f"Delete {_count(report['orphaned'], 'orphaned resource')}?", yes=yes)
        with progress_bars(as_json=json) as progress:
            deleted = surveys.delete_orphans(progress)
        report = surveys.report() | {"deleted": deleted}
        if not json:
            print(f"{len(deleted)} deleted")
    found = []
    if report["orphaned"]:
        usd = _total(report["usd_per_day_orphaned"])
        hint = "" if delete else "; `cloudgan doctor --delete` deletes them"
        found = [f"{_count(report['orphaned'], 'orphaned resource')}, {usd} per day{hint}"]
    for name, places in report["silent"].items():
        found.append(
            f"{name}: no answer from {', '.join(places)}; resources may be there: try again later"
        )
    if found:
        raise _ended(ResourcesLeftError(". ".join(found)), report, json=json)
    if json:
        print_json(report)


def _ended(error: CloudganError, report: dict[str, Any], *, json: bool) -> CloudganError:
    if json:
        print_json(report)
    return mark_printed(error, as_json=json)


def _print(report: dict[str, Any]) -> None:
    for name, reason in report["unavailable"].items():
        print(f"{name} could not be queried: {reason}")
    for name, account in report["clouds"].items():
        count = sum(one["provider"] == name for one in report["resources"])
        where = f"the part of {account} that answered" if name in report["silent"] else account
        print(f"{name}: {_count(count, 'resource')} of cloudgan in {where}")
    if report["resources"]:
        print_table(_resources(report["resources"]))
        print(f"total: {_total(report['usd_per_day'])} per day")
    if report["folders"]:
        print_table(_folders(report["folders"]))
        print(f"run folders: {_total(report['usd_per_month_of_folders'])} per month")
    for note in report["notes"]:
        print(f"not checked: {note}")


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _total(sums: dict[str, Any]) -> str:
    """Such as ``at least 1.20 USD (unknown: cloudgan/gan)``."""
    known = f"{sums['known_usd']:.2f} USD"
    return f"at least {known} (unknown: {', '.join(sums['unknown'])})" if sums["unknown"] else known


def _resources(resources: list[dict[str, Any]]) -> Table:
    heads = ("cloud", "resource", "region", "run", "status", "reason", "USD/day", "deleted by")
    rows = tuple(
        (
            one["provider"],
            f"{one['kind']} {one['name']}",
            one["region"],
            one["run"] or "",
            Mark(_MARKS[one["status"]], _STATUS.get(one["status"], one["status"])),
            one["reason"],
            _usd(one["usd_per_day"]),
            one["remove"],
        )
        for one in resources
    )
    return Table(heads, rows)


def _folders(folders: list[dict[str, Any]]) -> Table:
    heads = ("cloud", "run folder", "state", "MiB", "USD/month", "deleted by")
    rows = tuple(
        (
            one["provider"],
            one["run"],
            one["state"],
            _mib(one["bytes"]),
            _usd(one["usd_per_month"]),
            one["remove"],
        )
        for one in folders
    )
    return Table(heads, rows)


def _usd(value: float | None) -> Number:
    return Number(value, "" if value is None else f"{value:.2f}")


def _mib(size_bytes: int | None) -> Number:
    return Number(size_bytes, "" if size_bytes is None else f"{size_bytes / 2**20:.1f}")
