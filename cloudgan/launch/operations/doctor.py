"""The command `doctor`: resources in your clouds, their runs, and their cost per day."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cloudgan.core.clock import utc_moment
from cloudgan.core.clouds import CLOUDS
from cloudgan.core.command import command
from cloudgan.core.errors import (
    CloudganError,
    ConfigError,
    CredentialsError,
    ResourcesLeftError,
)
from cloudgan.core.progress import Progress, Silent
from cloudgan.launch.clouds.engine import Engine, names_of_gone
from cloudgan.launch.clouds.planner import open_cloud, with_login
from cloudgan.launch.operations.account_reports import AccountInventory
from cloudgan.launch.operations.concurrent_queries import run_concurrently
from cloudgan.launch.operations.daily_cost import DailyCostModel, total
from cloudgan.launch.operations.inventory import (
    Folder,
    Inventory,
    InventoryScanner,
    ResourceStatus,
    is_orphaned,
)
from cloudgan.launch.operations.metadata_server import disable_unless_reachable
from cloudgan.launch.operations.targets import account_target, known_stores, open_backend
from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import load_fees
from cloudgan.reports.result import Result
from cloudgan.schema.cost_report import Totals
from cloudgan.schema.options.runs import DoctorOptions
from cloudgan.schema.options.shared import RunLocator
from cloudgan.schema.resource import Resource
from cloudgan.storage.store import open_store

_SURVEY_SECONDS = 600.0


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
    confirm(f"Delete {found.orphaned} orphaned resource{'' if found.orphaned == 1 else 's'}?")
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
    """Returns the scanner of one account, and what it found.

    Args:
        account: The account.
        stores: Stores of runs that are not in the account's own buckets.
    """
    target, notes = account_target(account), list[str]()
    cloud = open_cloud(target, notes.append)
    target = with_login(target, cloud.identify())
    scanner = InventoryScanner(
        cloud,
        target,
        open_backend=lambda where, store: open_backend(where, store=store),
        open_store=open_store,
        stores=(*stores, *known_stores(target.provider)),
        notes=notes,
    )
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
        if resource.run and is_orphaned(status):
            orphaned.setdefault(resource.run, []).append(resource)
    for run, resources in orphaned.items():
        try:
            desired_state = inventory.runs[run].desired_state
            if scanner.is_alive(run, inventory):
                say(f"run {run} is active or its state is unknown: skipped")
            elif desired_state is None or not desired_state.is_open:
                yield from names_of_gone(engine.destroy(resources))
            else:
                profile = {"profile": inventory.target.profile}
                here = desired_state.plan.target.model_copy(update=profile)
                yield from scanner.open_backend(here, desired_state.plan.store).destroy(run)
        except CloudganError as error:
            failures.append(str(error))
    try:  # of a new scan: a run may use one since the last
        unowned = [
            resource
            for resource, status in scanner.scan(utc_moment()).resources
            if resource.run is None and is_orphaned(status)
        ]
        yield from names_of_gone(engine.destroy(unowned))
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
        "is_orphaned": is_orphaned(status),
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
        return clean_up if is_orphaned(status) else ""
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
