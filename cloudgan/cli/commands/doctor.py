"""`cloudgan doctor`: resources in your clouds, their runs, and their cost per day."""

from __future__ import annotations

from typing import Any

from cloudgan.cli.views.confirmation import confirm
from cloudgan.cli.views.output import mark_printed, print_json, print_table, progress_bars
from cloudgan.core.command import command
from cloudgan.core.errors import CloudganError, CredentialsError, ResourcesLeftError
from cloudgan.reports.table import Mark, Number, Table
from cloudgan.schema.options.runs import DoctorOptions

_MARKS = {"expected": True, "orphaned": False, "deleting": False, "unknown": None}
_STATUS = {"expected": "needed", "deleting": "being deleted"}


@command
def doctor(options: DoctorOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    from cloudgan.api.accounts import AccountSurveys

    surveys = AccountSurveys(options.account, tuple(filter(None, (options.store or "").split(","))))
    report = surveys.report()
    if not as_json:
        _print(report)
    if not surveys and not report["silent"]:
        message = "no cloud could be queried; `cloudgan check` shows what each one needs"
        raise _ended(CredentialsError(message), report, json=as_json)
    if report["orphaned"] and options.delete:
        confirm(f"Delete {_count(report['orphaned'], 'orphaned resource')}?", yes=options.yes)
        with progress_bars(as_json=as_json) as progress:
            deleted = surveys.delete_orphans(progress)
        report = surveys.report() | {"deleted": deleted}
        if not as_json:
            print(f"{len(deleted)} deleted")
    found = []
    if report["orphaned"]:
        usd = _total(report["usd_per_day_orphaned"])
        hint = "" if options.delete else "; `cloudgan doctor --delete` deletes them"
        found = [f"{_count(report['orphaned'], 'orphaned resource')}, {usd} per day{hint}"]
    for name, places in report["silent"].items():
        found.append(
            f"{name}: no answer from {', '.join(places)}; resources may be there: try again later"
        )
    if found:
        raise _ended(ResourcesLeftError(". ".join(found)), report, json=as_json)
    if as_json:
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
