"""The command `doctor`: resources in your clouds, their runs, and their cost per day; an unknown price is never zero."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import Field

from cloudgan.core.clock import utc_moment
from cloudgan.core.clouds import CLOUDS, region_of
from cloudgan.core.command import command
from cloudgan.core.durations import DAY_SECONDS
from cloudgan.core.errors import (
    CloudganError,
    ConfigError,
    CredentialsError,
    ResourcesLeftError,
    counted,
)
from cloudgan.core.progress import Progress, Silent
from cloudgan.launch.clouds.engine import Engine
from cloudgan.launch.clouds.planner import open_cloud, with_login
from cloudgan.launch.clouds.resource import Resource
from cloudgan.launch.operations.cloud_queries import disable_unless_reachable, run_concurrently
from cloudgan.launch.operations.inventory import (
    Folder,
    Inventory,
    InventoryScanner,
    ResourceStatus,
)
from cloudgan.launch.operations.targets import account_target, known_stores
from cloudgan.money.catalog import Catalog, load_catalog
from cloudgan.money.fees import Fees, load_fees
from cloudgan.money.ledger import Ledger, Usage
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Mark, Number, Table, usd_text
from cloudgan.schema.cost_report import Totals
from cloudgan.schema.item import Item
from cloudgan.schema.options.runs import DoctorOptions
from cloudgan.schema.options.shared import RunLocator
from cloudgan.schema.price_row import FeeKind, FeeRow, PriceRow

_SURVEY_SECONDS = 600.0
_BY_THE_HOUR: Final[tuple[FeeKind, ...]] = ("control_plane", "system_node", "public_ip")
_MARKS = {"expected": True, "orphaned": False, "deleting": False, "unknown": None}
_STATES = {"expected": "needed", "deleting": "in deletion"}
_MOST_REASONS = 5


class AccountInventory(Result):
    """Resources and run folders in the accounts, the runs that need them, and their cost."""

    clouds: dict[str, str | None] = Field(description="account by cloud")
    unavailable: dict[str, str] = Field(description="reason by cloud that could not be queried")
    silent: dict[str, tuple[str, ...]] = Field(description="what did not answer, by cloud")
    resources: tuple[dict[str, Any], ...]
    orphaned: int
    usd_per_day: Totals
    usd_per_day_orphaned: Totals
    folders: tuple[dict[str, Any], ...]
    usd_per_month_of_folders: Totals
    notes: tuple[str, ...]
    deleted: tuple[str, ...] | None = Field(default=None, description="None: nothing was to be")

    def as_json(self) -> dict[str, Any]:
        """Returns all fields; those of a deletion only after one."""
        return self.model_dump(mode="json", exclude={"deleted"} if self.deleted is None else None)

    def view(self) -> View:
        """Returns a row per resource, the folders, and what is not known."""
        lines = [
            f"{name}: {_count(sum(one['provider'] == name for one in self.resources), 'resource')} of cloudgan in"
            f" {f'the part of {account} that answered' if name in self.silent else account}"
            for name, account in self.clouds.items()
        ]
        lines += [f"{name} could not be queried: {why}" for name, why in self.unavailable.items()]
        notes, folders = [], self.folders
        if self.resources:
            notes.append(f"total: {_sum(self.usd_per_day)} per day")
        reasons = [
            f"{one['kind']} {one['name']}: {one['reason']}"
            for one in self.resources
            if one["status"] != "expected"
        ]
        notes += reasons[:_MOST_REASONS]
        if folders:
            month = _sum(self.usd_per_month_of_folders)
            names = ", ".join(one["run"] for one in folders)
            notes.append(f"run folders: {month} per month: {names}")
        notes += [f"not checked: {note}" for note in self.notes]
        return View(
            line="\n".join(lines),
            table=self._table() if self.resources else None,
            notes=tuple(notes),
            basis=(*reasons, *(_folder_line(one) for one in folders)),
        )

    def _table(self) -> Table:
        rows = tuple(
            (
                f"{one['kind']} {one['name']}",
                Number(one["usd_per_day"], _usd(one["usd_per_day"])),
                Mark(_MARKS[one["status"]], _STATES.get(one["status"], one["status"])),
                one["remove"],
                one["region"],
            )
            for one in self.resources
        )
        return Table(("resource", "USD/day", "state", "deleted by", "region"), rows, align="lrlll")

    def problem(self) -> CloudganError | None:
        """Returns the error of orphaned resources, silent parts, or no cloud."""
        if not self.clouds and not self.silent:
            return CredentialsError(
                "no cloud could be queried; `cloudgan check` shows what each one needs"
            )
        found = []
        if self.orphaned:
            usd = _sum(self.usd_per_day_orphaned)
            hint = "; `cloudgan doctor --delete` deletes them" if self.deleted is None else ""
            found = [f"{_count(self.orphaned, 'orphaned resource')}, {usd} per day{hint}"]
        found += [
            f"{name}: no answer from {', '.join(places)}; resources may be there: try again later"
            for name, places in self.silent.items()
        ]
        return ResourcesLeftError(". ".join(found)) if found else None


def _folder_line(one: dict[str, Any]) -> str:
    size = "unknown size" if one["bytes"] is None else f"{one['bytes'] / 2**20:.1f} MiB"
    usd = _usd(one["usd_per_month"]) or "unknown"
    return f"run folder {one['run']}, {one['state']}, {size}, {usd} USD/month: {one['remove']}"


def _count(number: int, noun: str) -> str:
    return counted(number, noun) if number else f"no {noun}s"


def _usd(usd: float | None) -> str:
    return "" if usd is None else usd_text(usd)


def _sum(sums: Totals) -> str:
    """Such as ``1.20 USD, plus cloudgan/gan (unknown)``."""
    unknown = f"{', '.join(sums.unknown)} (unknown)"
    if sums.unknown and not sums.known_usd:
        return unknown
    return f"{sums.known_usd:.2f} USD{f', plus {unknown}' if sums.unknown else ''}"


@command
def doctor(
    options: DoctorOptions,
    *,
    progress: Progress | None = None,
    confirm: Callable[[str], None] = lambda _: None,
    show: Callable[[Result], None] = lambda _: None,
) -> AccountInventory:
    """Returns the resources, after those without a run were deleted if that is asked for.

    Args:
        options: The accounts.
        progress: Receives each deletion.
        confirm: Called with a question before anything is deleted; raises ConfirmationError to stop.
        show: Called with the resources before that question.

    Raises:
        ConfigError: A flag of one cloud was given for another one.
    """
    say = (progress or Silent()).say
    disable_unless_reachable()
    accounts = {str(one.provider): one for one in _each_cloud(options.account)}
    surveys = run_concurrently(
        accounts, lambda name: survey_account(accounts[name], options.store), _SURVEY_SECONDS
    )
    found = _report(surveys)
    if not (found.orphaned and options.delete):
        return found
    show(found)
    confirm(f"Delete {counted(found.orphaned, 'orphaned resource')}?")
    deleted: list[str] = []
    for name, survey in surveys.items():
        if isinstance(survey, CloudganError):
            continue
        scanner, inventory = survey
        try:
            for gone in collect(scanner, inventory, say):
                say(f"deleted: {gone}")
                deleted.append(gone)
        except ResourcesLeftError as error:
            say(str(error))
        surveys[name] = scanner, scanner.scan(utc_moment())
    return _report(surveys).model_copy(update={"deleted": tuple(deleted)})


def _each_cloud(account: RunLocator) -> Iterator[RunLocator]:
    """Yields one locator per requested cloud, with the account of that cloud only."""
    for name in CLOUDS if account.provider is None else (account.provider,):
        flags = {cloud.account_flag for cloud in CLOUDS.values()} - {CLOUDS[name].account_flag}
        yield account._replace(provider=name, **dict.fromkeys(flags))


def survey_account(
    account: RunLocator, stores: tuple[str, ...]
) -> tuple[InventoryScanner, Inventory]:
    """Returns the scanner of one account, and what it found in its own buckets and these stores."""
    target, notes = account_target(account), list[str]()
    cloud = open_cloud(target, notes.append)
    target = with_login(target, cloud.identify())
    scanner = InventoryScanner(cloud, target, (*stores, *known_stores(target.provider)), notes)
    return scanner, scanner.scan(utc_moment())


def collect(
    scanner: InventoryScanner,
    inventory: Inventory,
    say: Callable[[str], None],
    poll_seconds: float = 5.0,
) -> Iterator[str]:
    """Deletes orphaned resources of ended runs, run by run, then unowned ones; yields each name when it is gone.

    Raises:
        ResourcesLeftError: At least one resource remains; the others are deleted.
    """
    failures: list[str] = []
    engine = Engine(scanner.cloud, say, poll_seconds)
    orphaned: dict[str, list[Resource]] = {}
    for resource, status in inventory.resources:
        if resource.run and status.is_orphaned:
            orphaned.setdefault(resource.run, []).append(resource)
    for run, resources in orphaned.items():
        try:
            desired_state = inventory.runs[run].desired_state
            if scanner.is_alive(run, inventory):
                say(f"run {run} is active or its state is unknown: skipped")
            elif desired_state is None or not desired_state.is_open:
                yield from engine.destroy(resources)
            else:
                yield from scanner.backend_of(desired_state.plan).destroy(run)
        except CloudganError as error:
            failures.append(str(error))
    try:  # of a new scan: a run may use one since the last
        unowned = [
            resource
            for resource, status in scanner.scan(utc_moment()).resources
            if resource.run is None and status.is_orphaned
        ]
        yield from engine.destroy(unowned)
    except CloudganError as error:
        failures.append(str(error))
    if failures:
        raise ResourcesLeftError("; ".join(failures))


def _report(
    surveys: Mapping[str, tuple[InventoryScanner, Inventory] | CloudganError],
) -> AccountInventory:
    """Returns resources, run folders and their cost, and what could not be queried."""
    errors = {name: one for name, one in surveys.items() if isinstance(one, CloudganError)}
    found = [one[1] for one in surveys.values() if not isinstance(one, CloudganError)]
    # One without a login or an SDK has no resources of this user.
    silent = {
        name: (str(error),)
        for name, error in errors.items()
        if not isinstance(error, ConfigError | CredentialsError)
    }
    costs = DailyCostModel(load_catalog(), load_fees())
    resources = [_resource(one, *pair, costs) for one in found for pair in one.resources]
    folders = [_folder(one, folder, costs) for one in found for folder in one.folders]
    orphaned = [one for one in resources if one["is_orphaned"]]
    return AccountInventory(
        clouds={one.target.provider: one.target.account for one in found},
        unavailable={name: str(error) for name, error in errors.items()},
        silent=silent | {one.target.provider: one.silent for one in found if one.silent},
        resources=tuple(resources),
        orphaned=len(orphaned),
        usd_per_day=_total(resources),
        usd_per_day_orphaned=_total(orphaned),
        folders=tuple(folders),
        usd_per_month_of_folders=total(
            (f"runs/{one['run']}", one["usd_per_month"]) for one in folders
        ),
        notes=tuple(note for one in found for note in one.notes),
    )


def _resource(
    survey: Inventory, resource: Resource, status: ResourceStatus, costs: DailyCostModel
) -> dict[str, Any]:
    provider = survey.target.provider
    return {
        "provider": provider,
        "kind": resource.kind,
        "name": resource.name,
        "region": resource.region,
        "run": resource.run,
        "shared": resource.shared,
        "state": resource.state,
        "nodes": resource.nodes,
        "created_at": resource.created_at,
        "status": status.state,
        "is_orphaned": status.is_orphaned,
        "reason": status.reason,
        "usd_per_day": costs.usd_per_day(provider, resource),
        "remove": _delete_command(survey, resource, status),
    }


def _delete_command(survey: Inventory, resource: Resource, status: ResourceStatus) -> str:
    provider = survey.target.provider
    clean_up = f"cloudgan doctor --delete --provider={provider}"
    if resource.run is None:
        if status.state != "expected":
            return clean_up
        if resource.shared == "cluster":
            return ""
        return f"cloudgan setup --teardown --provider={provider}"
    if survey.runs[resource.run].desired_state is None:  # `down` needs it
        return clean_up if status.is_orphaned else ""
    return f"cloudgan down {resource.run} --provider={provider}{_store_flag(survey, resource.run)}"


def _store_flag(survey: Inventory, run: str) -> str:
    """The --store flag of a run whose store is not the account's own bucket."""
    stores = [one.store for one in survey.folders if one.run == run and not one.region]
    return f" --store={stores[0]}" if stores else ""


def _folder(survey: Inventory, folder: Folder, costs: DailyCostModel) -> dict[str, Any]:
    provider = survey.target.provider
    usd = None
    if folder.size_bytes is not None and folder.region:
        usd = costs.usd_per_month(provider, folder.region, folder.size_bytes)
    store = _store_flag(survey, folder.run)
    return {
        "provider": provider,
        "run": folder.run,
        "store": folder.store,
        "state": folder.state,
        "bytes": folder.size_bytes,
        "usd_per_month": usd,
        "remove": f"cloudgan down {folder.run} --purge --provider={provider}{store}",
    }


def _total(resources: list[dict[str, Any]]) -> Totals:
    return total((one["name"], one["usd_per_day"]) for one in resources)


@dataclass(frozen=True)
class DailyCostModel:
    """The price lists."""

    catalog: Catalog
    fees: Fees

    def usd_per_day(self, provider: str, resource: Resource) -> float | None:
        """Returns the cost of a resource per day in USD; None: unknown.

        A resource without nodes and fee is free.
        """
        if resource.is_free:
            return 0.0
        region, lines = region_of(provider, resource.region), []
        if (
            resource.fee and resource.fee != resource.node_type
        ):  # a fee per node is included in the node
            fee = self._fee(provider, region, resource.fee)
            lines.append(Usage(item=Item.CLUSTER, row=fee, quantity=DAY_SECONDS))
        if resource.nodes:
            node = self._node(provider, region, resource)
            lines.append(Usage(item=Item.NODES, row=node, quantity=DAY_SECONDS * resource.nodes))
        found = Ledger(tuple(lines)).total()
        return None if found.unknown else found.known_usd

    def usd_per_month(self, provider: str, region: str, size_bytes: int) -> float | None:
        """Returns the storage cost per month in USD; None: unknown."""
        fee = self.fees.find("storage_gib_month", provider, region)
        stored = Usage(item=Item.STORAGE, row=fee, quantity=size_bytes / 2**30)
        return stored.usd if size_bytes else 0.0

    def _fee(self, provider: str, region: str, name: str) -> FeeRow | None:
        found = (self.fees.find(kind, provider, region, name) for kind in _BY_THE_HOUR)
        return next(filter(None, found), None)

    def _node(self, provider: str, region: str, resource: Resource) -> PriceRow | FeeRow | None:
        """Price of one node; a missing market counts as on demand."""
        for row in self.catalog.rows:
            if (
                row.node_type == resource.node_type
                and (row.provider, row.region) == (provider, region)
                and row.market == (resource.market or "on_demand")
                and row.snapshot == "current"
            ):
                return row
        return self._fee(provider, region, resource.node_type) if resource.node_type else None


def total(costs: Iterable[tuple[str, float | None]]) -> Totals:
    """Returns the sum of known costs and the names of unknown ones."""
    costs = tuple(costs)
    return Totals(
        known_usd=math.fsum(usd for _, usd in costs if usd is not None),
        unknown=tuple(name for name, usd in costs if usd is None),
    )
