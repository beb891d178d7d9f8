"""Cloud accounts: checks them, sets them up, tears them down, and finds orphaned resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.api.account_reports import AccountCheck, AccountInventory, SetupPlan, Teardown
from cloudgan.api.launch_request import LaunchRequest, ProvisioningRequest
from cloudgan.api.planning import make_launch_plan
from cloudgan.api.targets import account_target, known_stores, open_backend
from cloudgan.core.clock import utc_moment, utc_today
from cloudgan.core.clouds import CLOUDS, region_of
from cloudgan.core.errors import (
    CloudganError,
    ConfigError,
    CredentialsError,
    PlanError,
    ResourcesLeftError,
)
from cloudgan.cost.prices.catalog import load_catalog
from cloudgan.cost.prices.fees import load_fees
from cloudgan.launch.clouds.planner import cloud_planner, open_cloud, with_login
from cloudgan.launch.ops.account_resources import BUCKET, AccountSetup, teardown_resources
from cloudgan.launch.ops.concurrent_queries import run_concurrently
from cloudgan.launch.ops.daily_cost import DailyCostModel, total
from cloudgan.launch.ops.garbage_collector import GarbageCollector
from cloudgan.launch.ops.inventory import InventoryScanner, is_orphaned
from cloudgan.launch.ops.metadata_server import disable_unless_reachable
from cloudgan.launch.ops.preflight import (
    PreflightReport,
    check_cloud,
    login_error_finding,
    prices_finding,
)
from cloudgan.schema.options.shared import RunLocator
from cloudgan.schema.resource import Finding
from cloudgan.storage.store import delete_objects, open_store, undeletable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cloudgan.core.progress import Progress
    from cloudgan.launch.clouds.client import CloudClient
    from cloudgan.launch.ops.inventory import Folder, Inventory, ResourceStatus
    from cloudgan.schema.cost_report import Totals
    from cloudgan.schema.plan import Plan, Target
    from cloudgan.schema.resource import Resource

    Approve = Callable[[str], None]

_SURVEY_SECONDS = 600.0
_CONTACT_SECONDS = 10.0
"""Until each login has answered; without a network an SDK retries for minutes."""


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


def check_accounts(
    provider: str | None,
    *,
    accelerator: str | None,
    nodes: int,
    offer: str | None,
    reservation: str | None = None,
    provisioning: ProvisioningRequest,
) -> AccountCheck:
    """Checks login, APIs, permissions and quota of each cloud; creates nothing.

    Args:
        provider: Cloud to check; None: every cloud.
        accelerator: NAME or NAME:COUNT whose quota is checked.
        nodes: Number of nodes.
        offer: Offer whose quota is checked instead.
        reservation: Reservation that is checked instead of the quota.
        provisioning: Account, region and market.

    Raises:
        ConfigError: A value is not valid.
    """
    disable_unless_reachable()
    if provider is None and (provisioning.regions or provisioning.zone):
        raise ConfigError(
            f"--region and --zone are in one cloud: add --provider={', '.join(CLOUDS)}"
        )
    if reservation and (provider is None or accelerator is None):
        raise ConfigError(
            "--reservation is of one node type in one cloud: give --provider and --accelerator"
        )
    names = tuple(CLOUDS) if provider is None else (provider,)

    def quota_plan(name: str) -> Plan | PlanError | None:
        if accelerator is None and offer is None:
            return None
        if offer and not offer.startswith(f"{name}/"):
            return PlanError(f"--price-as={offer} is an offer of another cloud")
        request = LaunchRequest(
            provider=name,
            name="check",
            accelerator=accelerator,
            nodes=nodes,
            offer=offer,
            reservation_name=reservation,
        )
        one_step = {
            "training.max_steps": 1
        }  # whether a training fits its deadline is not asked here
        try:
            return make_launch_plan(request, provisioning, (one_step, None), lambda *_: ())
        except PlanError as error:
            return error

    plans = {name: quota_plan(name) for name in names}
    opened = run_concurrently(
        names, lambda name: _open(name, plans[name], provisioning), _CONTACT_SECONDS
    )

    def findings(name: str) -> tuple[Finding, ...]:
        found = opened[name]
        if isinstance(found, CloudganError):
            return login_error_finding(found)
        return _check(name, plans[name], *found)

    answers = run_concurrently(names, findings)
    found = tuple(
        PreflightReport(name, answer if isinstance(answer, tuple) else login_error_finding(answer))
        for name, answer in answers.items()
    )
    return AccountCheck(provider=provider, clouds=found)


def _open(
    name: str, plan: Plan | PlanError | None, provisioning: ProvisioningRequest
) -> tuple[CloudClient, Target]:
    """Opens a cloud whose login answers."""
    regions = provisioning.restricted_to_zone(name).regions
    account = RunLocator(
        name,
        project=provisioning.account,
        profile=provisioning.profile,
        region=regions[0] if regions else None,
    )
    wanted = None if isinstance(plan, PlanError) else plan
    target = wanted.target if wanted else account_target(account)
    cloud = open_cloud(target)
    cloud.identify()
    return cloud, target


def _check(
    name: str, plan: Plan | PlanError | None, cloud: CloudClient, target: Target
) -> tuple[Finding, ...]:
    wanted = None if isinstance(plan, PlanError) else plan
    found = check_cloud(cloud, wanted, target.region, utc_today())
    if plan is None:
        return (*found, prices_finding(load_catalog().find(provider=name)))
    if isinstance(plan, PlanError):
        return (*found, Finding("offer", "missing", str(plan)))
    return found


def plan_setup(account: RunLocator) -> SetupPlan:
    """Returns the target and the requests of `setup`; needs no login."""
    return _setup_plan(account_target(account))


def _setup_plan(target: Target) -> SetupPlan:
    steps = cloud_planner(target.provider).setup_steps(target)
    return SetupPlan(
        provider=target.provider, account=target.account, region=target.region, steps=steps
    )


def set_up_account(
    account: RunLocator,
    approve: Callable[[SetupPlan], None],
    progress: Progress,
) -> SetupPlan:
    """Creates what an account needs once in a region and what is missing.

    Args:
        account: Account and region.
        approve: Called before anything is created; raises ConfirmationError to stop.
        progress: Receives each step.

    Returns:
        The target, its steps, and what was created.
    """
    disable_unless_reachable()
    target = account_target(account)
    cloud = open_cloud(target, progress.say)
    target = with_login(target, cloud.identify())
    made = _setup_plan(target)
    approve(made)
    created = []
    for step, is_new in AccountSetup(cloud, progress.say).create(made.steps):
        progress.say(f"{'created' if is_new else 'exists'}: {step.ensure}")
        created += [step.ensure] if is_new else []
    return made.model_copy(update={"created": tuple(created)})


def tear_down_account(
    account: RunLocator,
    approve: Callable[[Target, tuple[Resource, ...]], None],
    approve_purge: Approve,
    progress: Progress,
    *,
    purge: bool,
    dry_run: bool,
) -> Teardown:
    """Deletes what `setup` created and no run owns, in a region or, without one, everywhere.

    Args:
        account: Account and region.
        approve: Called before anything is deleted; raises ConfirmationError to stop.
        approve_purge: Called with a question before a bucket is emptied.
        progress: Receives each deletion.
        purge: Delete the buckets and their contents, too.
        dry_run: Delete nothing.

    Raises:
        ConfigError: Runs are active.
        ResourcesLeftError: Not all of the account answered; nothing was deleted.
    """
    disable_unless_reachable()
    surveyor, survey = survey_account(account, ())
    if survey.silent and not dry_run:
        raise ResourcesLeftError(
            f"no answer from {', '.join(survey.silent)}, where runs may need what `setup` created; nothing"
            " was deleted. Try again later"
        )
    resources = teardown_resources(survey, everywhere=account.region is None, purge=purge)
    kept = tuple(
        one for one, _ in survey.resources if one.shared == BUCKET and one not in resources
    )
    names = tuple(f"{one.kind} {one.name}" for one in resources)
    done = Teardown(resources=names, deleted=(), kept=tuple(one.name for one in kept))
    if dry_run or not resources:
        return done
    approve(survey.target, resources)
    buckets = {one.region for one in resources if one.shared == BUCKET}
    _empty_buckets(survey, buckets, progress, approve_purge)
    deleted = []
    for name in AccountSetup(surveyor.cloud, progress.say).destroy(resources):
        progress.say(f"deleted: {name}")
        deleted.append(name)
    return done.model_copy(update={"deleted": tuple(deleted)})


def _empty_buckets(
    survey: Inventory, regions: set[str], progress: Progress, approve: Approve
) -> None:
    """Deletes all objects in the account's own buckets, after a question for each bucket."""
    provider = survey.target.provider
    for region in sorted({region_of(provider, one) for one in regions}):
        target = survey.target.model_copy(update={"region": region})
        store = open_store(cloud_planner(provider).store_url(target))
        names = store.list()
        if not names:
            continue
        runs = ", ".join(sorted({one.run for one in survey.folders if one.store == store.url}))
        size = f"{len(names)} files, {store.size_bytes() / 2**20:.1f} MiB"
        approve(f"{store.url} has {size} of {runs or 'no run'}: delete them permanently?")
        left = delete_objects(store, names)
        progress.say(f"{len(names) - len(left)} files deleted from {store.url}")
        if left:
            progress.say(f"{store.url}: {undeletable(left)}")


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
