"""The command `doctor`: resources in your clouds, their runs, and their cost per day."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
from cloudgan.launch.clouds.planner import open_cloud, with_login
from cloudgan.launch.operations.account_reports import AccountInventory
from cloudgan.launch.operations.concurrent_queries import run_concurrently
from cloudgan.launch.operations.daily_cost import DailyCostModel, total
from cloudgan.launch.operations.garbage_collector import GarbageCollector
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
    surveys = AccountSurveys(options.account, options.store)
    found = surveys.report()
    if found.orphaned and options.delete:
        show(found)
        confirm(f"Delete {found.orphaned} orphaned resource{'' if found.orphaned == 1 else 's'}?")
        deleted = tuple(surveys.delete_orphans(progress or Silent()))
        found = surveys.report().model_copy(update={"deleted": deleted})
    return found


def each_cloud(account: RunLocator) -> Iterator[RunLocator]:
    """Yields one locator per requested cloud, with the account of that cloud only."""
    for name in CLOUDS if account.provider is None else (account.provider,):
        yield account._replace(
            provider=name,
            **{
                flag: getattr(account, flag) if flag == CLOUDS[name].account_flag else None
                for flag in {cloud.account_flag for cloud in CLOUDS.values()}
            },
        )


def survey_account(
    account: RunLocator, stores: tuple[str, ...]
) -> tuple[InventoryScanner, Inventory]:
    """Returns the surveyor of one account, and what it found.

    Args:
        account: The account.
        stores: Stores of runs that are not in the account's own buckets.

    Raises:
        CloudganError: The account cannot be queried.
    """
    target, notes = account_target(account), list[str]()
    cloud = open_cloud(target, notes.append)
    target = with_login(target, cloud.identify())
    surveyor = InventoryScanner(
        cloud,
        target,
        open_backend=lambda where, store: open_backend(where, store=store),
        open_store=open_store,
        stores=(*stores, *known_stores(target.provider)),
        notes=notes,
    )
    return surveyor, surveyor.scan(utc_moment())


class AccountSurveys:
    """The surveys of the requested clouds.

    Args:
        account: The requested accounts.
        stores: Stores of runs that are not in the accounts' own buckets.

    Attributes:
        unavailable: Reason by cloud that could not be queried.
        silent: Those that did not answer, and not for want of a login or an SDK.
    """

    def __init__(self, account: RunLocator, stores: tuple[str, ...]) -> None:
        disable_unless_reachable()
        requested = {str(one.provider): one for one in each_cloud(account)}
        answers = run_concurrently(
            requested,
            lambda name: survey_account(requested[name], stores),
            timeout_seconds=_SURVEY_SECONDS,
        )
        self._surveyors: list[InventoryScanner] = []
        self._surveys: list[Inventory] = []
        self.unavailable: dict[str, str] = {}
        self.silent: dict[str, tuple[str, ...]] = {}
        for name, answer in answers.items():
            if isinstance(answer, CloudganError):
                self.unavailable[name] = str(answer)
                if not isinstance(answer, ConfigError | CredentialsError):
                    self.silent[name] = (str(answer),)
            else:
                self._surveyors.append(answer[0])
                self._surveys.append(answer[1])

    def __len__(self) -> int:
        """Returns the number of clouds that could be queried."""
        return len(self._surveys)

    def report(self) -> AccountInventory:
        """Returns resources, run folders and their cost."""
        return inventory_report(self._surveys, self.unavailable, self.silent)

    def delete_orphans(self, progress: Progress) -> list[str]:
        """Deletes orphaned resources and repeats the surveys; returns the deleted names."""
        deleted: list[str] = []
        for surveyor, survey in zip(self._surveyors, self._surveys, strict=True):
            try:
                for name in GarbageCollector(surveyor, progress.say).collect(survey, utc_moment()):
                    progress.say(f"deleted: {name}")
                    deleted.append(name)
            except ResourcesLeftError as error:
                progress.say(str(error))
        self._surveys = [surveyor.scan(utc_moment()) for surveyor in self._surveyors]
        return deleted


def inventory_report(
    surveys: Iterable[Inventory],
    unavailable: dict[str, str],
    silent: dict[str, tuple[str, ...]],
) -> AccountInventory:
    """Returns resources, run folders and their cost.

    Args:
        surveys: The surveys.
        unavailable: Reason by cloud that could not be queried.
        silent: What did not answer, by cloud, besides that of the surveys.
    """
    surveys = tuple(surveys)
    costs = DailyCostModel(load_catalog(), load_fees())
    resources = [_resource(one, *pair, costs) for one in surveys for pair in one.resources]
    folders = [_folder(one, folder, costs) for one in surveys for folder in one.folders]
    orphaned = [one for one in resources if one["is_orphaned"]]
    return AccountInventory(
        clouds={one.target.provider: one.target.account for one in surveys},
        unavailable=unavailable,
        silent=silent | {one.target.provider: one.silent for one in surveys if one.silent},
        resources=tuple(resources),
        orphaned=len(orphaned),
        usd_per_day=_total(resources),
        usd_per_day_orphaned=_total(orphaned),
        folders=tuple(folders),
        usd_per_month_of_folders=total(
            (f"runs/{one['run']}", one["usd_per_month"]) for one in folders
        ),
        notes=tuple(note for one in surveys for note in one.notes),
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
