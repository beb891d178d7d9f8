"""What `doctor` found: as JSON, and as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.auditing.daily_cost import Tariff, total
from cloudgan.auditing.standing import is_finding
from cloudgan.cli.table_view import show_table
from cloudgan.cost.catalog import load_catalog
from cloudgan.cost.fees import load_fees
from cloudgan.reports.table import Mark, Number, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudgan.auditing.standing import Standing
    from cloudgan.auditing.survey import Folder, Survey
    from cloudgan.core.cost_report import Totals
    from cloudgan.launching.cloud import Thing

_MARKS = {"expected": True, "left": False, "leaving": False, "unknown": None}
_WORDS = {
    "expected": "needed",
    "left": "left behind",
    "leaving": "being deleted",
    "unknown": "unknown",
}


def report(surveys: Iterable[Survey], refused: dict[str, str]) -> dict[str, Any]:
    """Returns what was found as JSON.

    Args:
        surveys: Of the clouds that could be asked.
        refused: Why the others could not.
    """
    surveys = tuple(surveys)
    tariff = Tariff(load_catalog(), load_fees())
    things = [_thing(one, *pair, tariff) for one in surveys for pair in one.things]
    folders = [_folder(one, folder, tariff) for one in surveys for folder in one.folders]
    left = [one for one in things if one["is_finding"]]
    return {
        "clouds": {one.place.provider: one.place.account for one in surveys},
        "not_asked": refused,
        "things": things,
        "left": len(left),
        "usd_per_day": _sum(things).model_dump(),
        "usd_per_day_left": _sum(left).model_dump(),
        "folders": folders,
        "usd_per_month_of_folders": total(
            (f"runs/{one['run']}", one["usd_per_month"]) for one in folders
        ).model_dump(),
        "notes": [note for one in surveys for note in one.notes],
    }


def show(found: dict[str, Any]) -> None:
    """Prints it for people."""
    for name, why in found["not_asked"].items():
        print(f"{name} was not asked: {why}")
    for name, place in found["clouds"].items():
        there = sum(one["provider"] == name for one in found["things"])
        print(f"{name}: {there or 'no'} thing{'' if there == 1 else 's'} of cloudgan in {place}")
    if found["things"]:
        show_table(_things(found["things"]))
        print(f"all together: {told(found['usd_per_day'])} per day")
    if found["folders"]:
        show_table(_folders(found["folders"]))
        print(f"folders of runs: {told(found['usd_per_month_of_folders'])} per month")
    for note in found["notes"]:
        print(f"not looked at: {note}")


def _thing(survey: Survey, thing: Thing, standing: Standing, tariff: Tariff) -> dict[str, Any]:
    provider = survey.place.provider
    return {
        "provider": provider,
        "kind": thing.kind,
        "name": thing.name,
        "region": thing.region,
        "run": thing.run,
        "shared": thing.shared,
        "state": thing.state,
        "nodes": thing.nodes,
        "made": thing.made,
        "standing": standing.state,
        "is_finding": is_finding(standing),
        "why": standing.why,
        "usd_per_day": tariff.usd_per_day(provider, thing),
        "remove": _command(survey, thing, standing),
    }


def _command(survey: Survey, thing: Thing, standing: Standing) -> str:
    provider = survey.place.provider
    if thing.run is None:
        if standing.state == "expected" and thing.shared != "cluster":
            return f"cloudgan setup --teardown --provider={provider}"
        return (
            ""
            if standing.state == "expected"
            else f"cloudgan doctor --delete --provider={provider}"
        )
    if survey.runs[thing.run].intent is None:  # which `down` needs
        is_over = is_finding(standing)
        return f"cloudgan doctor --delete --provider={provider}" if is_over else ""
    return f"cloudgan down {thing.run} --provider={provider}{_store(survey, thing.run)}"


def _store(survey: Survey, run: str) -> str:
    """The flag by which a run's store is found, where that is not the account's own."""
    stores = [one.store for one in survey.folders if one.run == run and not one.region]
    return f" --store={stores[0]}" if stores else ""


def _folder(survey: Survey, folder: Folder, tariff: Tariff) -> dict[str, Any]:
    provider = survey.place.provider
    usd = None
    if folder.size_bytes is not None and folder.region:
        usd = tariff.usd_per_month(provider, folder.region, folder.size_bytes)
    return {
        "provider": provider,
        "run": folder.run,
        "store": folder.store,
        "state": folder.state,
        "bytes": folder.size_bytes,
        "usd_per_month": usd,
        "remove": f"cloudgan down {folder.run} --purge --provider={provider}{_store(survey, folder.run)}",
    }


def _sum(things: list[dict[str, Any]]) -> Totals:
    return total((one["name"], one["usd_per_day"]) for one in things)


def told(sums: dict[str, Any]) -> str:
    """Returns a sum in words, such as ``at least 1.20 USD (unknown: cloudgan/gan)``."""
    known = f"{sums['known_usd']:.2f} USD"
    return f"at least {known} (unknown: {', '.join(sums['unknown'])})" if sums["unknown"] else known


def _things(things: list[dict[str, Any]]) -> Table:
    heads = ("cloud", "what", "where", "run", "stands", "why", "USD/day", "removed by")
    rows = tuple(
        (
            one["provider"],
            f"{one['kind']} {one['name']}",
            one["region"],
            one["run"] or "",
            Mark(_MARKS[one["standing"]], _WORDS[one["standing"]]),
            one["why"],
            _usd(one["usd_per_day"]),
            one["remove"],
        )
        for one in things
    )
    return Table(heads, rows)


def _folders(folders: list[dict[str, Any]]) -> Table:
    heads = ("cloud", "folder of run", "its state", "MiB", "USD/month", "removed by")
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
