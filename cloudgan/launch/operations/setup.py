"""The command `setup`: creates or deletes what an account needs once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from pydantic import Field

from cloudgan.core.clouds import region_of
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError, ResourcesLeftError, counted
from cloudgan.core.progress import Progress, Silent
from cloudgan.launch.clouds.engine import Engine
from cloudgan.launch.clouds.planner import cloud_planner, open_cloud, with_login
from cloudgan.launch.clouds.resource import Resource
from cloudgan.launch.operations.cloud_queries import disable_unless_reachable
from cloudgan.launch.operations.doctor import survey_account
from cloudgan.launch.operations.inventory import Inventory
from cloudgan.launch.operations.targets import account_target
from cloudgan.reports.result import Result, View
from cloudgan.schema.options.runs import SetupOptions
from cloudgan.schema.plan import Step, Target
from cloudgan.storage.store import delete_objects, open_store, undeletable

BUCKET: Final = "bucket"


class SetupPlan(Result):
    """What `setup` creates in a region of an account, if it is missing."""

    provider: str
    account: str | None
    region: str | None
    steps: tuple[Step, ...]
    created: tuple[str, ...] | None = Field(default=None, description="None: not yet done")

    def place(self) -> str:
        """Returns such as ``gcp lab-1, us-central1``."""
        return f"{self.provider} {self.account}, {self.region}"

    def as_json(self) -> dict[str, Any]:
        """Returns the steps, or what was created."""
        key = "created" if self.created is None else "steps"
        return self.model_dump(mode="json", exclude={key})

    def view(self) -> View:
        """Returns what is needed once; the requests are the basis."""
        if self.created is not None:
            existing = len(self.steps) - len(self.created)
            line = f"{self.place()} is ready: {len(self.created)} created, {existing} existed"
            return View(line, done=True, basis=self.created)
        return View(
            f"Once in {self.place()}, if missing:",
            notes=(*(f"  {step.ensure}" for step in self.steps), "-v shows the requests"),
            basis=tuple(f"{step.ensure}: {step.operation}" for step in self.steps),
        )


class Teardown(Result):
    """What `setup --teardown` deletes and keeps."""

    resources: tuple[str, ...] = Field(description="that no run owns")
    deleted: tuple[str, ...]
    kept: tuple[str, ...] = Field(description="buckets")

    def view(self) -> View:
        """Returns what was or would be deleted, and what stays."""
        kept = tuple(
            f"bucket {one} is kept with its contents; --purge deletes it" for one in self.kept
        )
        if not self.resources:
            return View("no resource without a run exists", notes=kept)
        if self.deleted:
            return View(f"{len(self.deleted)} deleted", notes=kept, done=True)
        return View("\n".join(f"would delete: {one}" for one in self.resources), notes=kept)


@command
def setup(
    options: SetupOptions,
    *,
    progress: Progress | None = None,
    confirm: Callable[[str], None] = lambda _: None,
    show: Callable[[Result], None] = lambda _: None,
) -> SetupPlan | Teardown:
    """Creates what an account needs once in a region and what is missing, or deletes it.

    Args:
        options: Account and region.
        progress: Receives each step.
        confirm: Called with a question before anything is created or deleted; raises ConfirmationError to stop.
        show: Called with what is to be created before that question.

    Raises:
        ConfigError: Runs are active.
        ResourcesLeftError: Not all of the account answered; nothing was deleted.
    """
    progress = progress or Silent()
    if options.teardown:
        return _tear_down(options, confirm, progress)
    if options.dry_run:
        return _setup_plan(account_target(options.account))
    disable_unless_reachable()
    target = account_target(options.account)
    cloud = open_cloud(target, progress.say)
    target = with_login(target, cloud.identify())
    made = _setup_plan(target)
    show(made)
    confirm(f"Create what is missing in {made.place()}?")
    created = []
    engine = Engine(cloud, progress.say)
    for step in made.steps:
        is_new = engine.ensure(step, None)
        progress.say(f"{'created' if is_new else 'exists'}: {step.ensure}")
        created += [step.ensure] if is_new else []
    return made.model_copy(update={"created": tuple(created)})


def _setup_plan(target: Target) -> SetupPlan:
    steps = cloud_planner(target.provider).setup_steps(target)
    return SetupPlan(
        provider=target.provider, account=target.account, region=target.region, steps=steps
    )


def _tear_down(
    options: SetupOptions, confirm: Callable[[str], None], progress: Progress
) -> Teardown:
    """Deletes what `setup` created and no run owns, in a region or, without one, everywhere."""
    disable_unless_reachable()
    account, purge, dry_run = options.account, options.purge, options.dry_run
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
    for one in resources:
        progress.say(f"  {one.kind} {one.name}  {one.region}")
    where = f"in {survey.target.region}" if account.region else "in all regions"
    owner = f"{survey.target.provider} {survey.target.account}"
    confirm(f"Delete {counted(len(resources), 'resource')} of {owner} {where}?")
    buckets = {one.region for one in resources if one.shared == BUCKET}
    _empty_buckets(survey, buckets, progress, confirm)
    deleted = []
    for name in Engine(surveyor.cloud, progress.say).destroy(resources):
        progress.say(f"deleted: {name}")
        deleted.append(name)
    return done.model_copy(update={"deleted": tuple(deleted)})


def _empty_buckets(
    survey: Inventory, regions: set[str], progress: Progress, confirm: Callable[[str], None]
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
        size = f"{counted(len(names), 'file')}, {store.size_bytes() / 2**20:.1f} MiB"
        confirm(f"{store.url} has {size} of {runs or 'no run'}: delete them permanently?")
        left = delete_objects(store, names)
        progress.say(f"{counted(len(names) - len(left), 'file')} deleted from {store.url}")
        if left:
            progress.say(f"{store.url}: {undeletable(left)}")


def teardown_resources(
    inventory: Inventory, *, everywhere: bool, purge: bool
) -> tuple[Resource, ...]:
    """Returns the resources that a teardown deletes."""
    provider = inventory.target.provider

    def region(one: Resource) -> str:
        return region_of(provider, one.region)

    here = region_of(provider, inventory.target.region or "")
    every = [one for one, _ in inventory.resources]
    resources = [one for one in every if everywhere or region(one) in (here, "")]
    _refuse_open(inventory, resources, None if everywhere else here)
    kept = [one for one in resources if one.shared == BUCKET and not purge]
    is_last = {region(one) for one in every} <= {here, ""}
    return tuple(
        one
        for one in resources
        if one.run is None
        and one not in kept
        and not any(_holds(one, bucket) for bucket in kept)
        and (one.region or everywhere or is_last)  # global: deleted with the last region
    )


def _holds(resource: Resource, bucket: Resource) -> bool:
    """Whether deleting a resource deletes a bucket in it, such as an Azure resource group."""
    inside = bucket.name.lower().startswith(f"{resource.name.lower()}/")
    return inside or resource.name == bucket.parent


def _refuse_open(inventory: Inventory, resources: Iterable[Resource], region: str | None) -> None:
    runs = {resource.run for resource in resources if resource.run}
    for view in inventory.runs.values():
        newest = view.desired_state
        is_here = newest is None or region in (None, newest.plan.target.region)
        if is_here and (
            view.is_alive or (newest and (newest.uses_nodes or newest.state == "removing"))
        ):
            runs.add(view.run)
    if runs:
        raise ConfigError(
            f"runs are open: {', '.join(sorted(runs))}; delete each first, such as with `cloudgan down"
            f" {min(runs)} --provider={inventory.target.provider}`"
        )
