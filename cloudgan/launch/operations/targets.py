"""Targets and runs: opens the backend of a target, and finds a run by name."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from cloudgan.core import settings
from cloudgan.core.clouds import CLOUDS, find, region_of
from cloudgan.core.errors import (
    CloudganError,
    ConfigError,
    CredentialsError,
    DataError,
    ResourcesLeftError,
    UnknownNameError,
)
from cloudgan.core.file_lock import holder
from cloudgan.core.labels import as_value, checked_name
from cloudgan.launch.backends.job_backend import JobBackend
from cloudgan.launch.backends.run_document import ForeignDocumentError, RunSource, read_plan
from cloudgan.launch.clouds.client import CloudClient
from cloudgan.launch.clouds.planner import cloud_planner, open_cloud, with_login
from cloudgan.launch.lifecycle.provisioned_backend import ProvisionedBackend
from cloudgan.launch.plan.launch_plan import existing_target
from cloudgan.launch.plan.showers import NO_SHOWERS
from cloudgan.schema import plan as plans
from cloudgan.schema.config import RunConfig
from cloudgan.schema.launch import UNBILLED
from cloudgan.schema.options.shared import RunLocator
from cloudgan.schema.plan import Plan, Target
from cloudgan.schema.run_folder import RUNS, RunFolder, find_run_folder

POD_STORES = ("pvc:", "gs://", "s3://", "https://")
"""How the URL of a store begins that pods on any cluster can reach."""


THIS_FOLDER = RunLocator()


def open_backend(
    target: Target,
    say: Callable[[str], None] = lambda _: None,
    *,
    store: str | None = None,
    cloud: CloudClient | None = None,
) -> JobBackend:
    """Opens the backend of a target, by default on the account's own store; sends no request to a cluster yet.

    Args:
        cloud: The client of the target's cloud, if it is open.
    """
    if target.is_provisioned:
        from cloudgan.launch.lifecycle.run_registry import RunRegistry
        from cloudgan.launch.plan.build import all_steps
        from cloudgan.storage.store import open_store

        cloud = cloud or open_cloud(target, say)
        url = store or cloud_planner(target.provider).store_url(target)
        registry = RunRegistry(open_store(url), _lease_owner(), target)
        return ProvisionedBackend(cloud, registry, all_steps=all_steps, say=say)
    if target.provider == "kubernetes":
        from cloudgan.launch.kubernetes.kubeconfig import connect

        client = connect(target.context)  # raises with the command that installs the client
        from cloudgan.launch.backends.kubernetes.backend import KubernetesBackend
        from cloudgan.launch.kubernetes.api import ClusterApi

        return KubernetesBackend(ClusterApi(client, say=say), target.namespace)
    if target.provider == "slurm":
        from cloudgan.launch.backends.slurm.backend import SlurmBackend
        from cloudgan.launch.backends.slurm.client import SlurmCommands

        return SlurmBackend(RUNS, SlurmCommands(say))
    from cloudgan.launch.backends.local.backend import LocalBackend

    return LocalBackend(RUNS)


def account_target(account: RunLocator) -> Target:
    """Returns the target of an account, with placeholders ``<...>`` for values of its login."""
    assert account.provider is not None  # noqa: S101  the caller has checked it
    region = account.region or find(account.provider).home_region
    owner = account.project or account.subscription
    target = cloud_planner(account.provider).target(owner, region, None, None)
    return target.model_copy(update={"profile": account.profile})


def find_run(
    name: str, locator: RunLocator = THIS_FOLDER, say: Callable[[str], None] = lambda _: None
) -> tuple[Plan, JobBackend]:
    """Finds a launched run: by its locator, in this folder, or in the clusters and clouds that this folder uses.

    Raises:
        ForeignDocumentError: Its plan names another run, owner, store or account.
    """
    if locator == THIS_FOLDER:
        try:
            return _find_here(find_run_folder(name), say)
        except UnknownNameError:
            with suppress(DataError, ForeignDocumentError):  # a damaged plan of another run
                for plan, backend in runs_elsewhere(known_plans(), say):
                    if plan.run == name:
                        return plan, backend
            raise
    run = checked_name(RunFolder(name).path.name)
    if locator.provider in CLOUDS:
        return _find_provisioned(run, locator, say)
    only_clouds = ("project", "profile", "subscription", "region", "store")
    if given := [f"--{flag}" for flag in only_clouds if getattr(locator, flag)]:
        raise ConfigError(
            f"{' and '.join(given)}: only valid in a cloud; add --provider={', '.join(CLOUDS)}"
        )
    target = existing_target(locator.provider or "kubernetes", locator.context, locator.namespace)
    backend = open_backend(target, say)
    found = backend.desired_state(run)
    if found is None:
        known = backend.list_runs()
        if known:
            raise UnknownNameError(f"run in {target.describe()}", run, known)
        raise ConfigError(f"{target.describe()} has no run {run}, and no other run")
    if target.provider == "slurm":
        return found, backend
    _check_pod_store(found, target)
    # The context by which this machine reaches the cluster can have another name elsewhere.
    return found.model_copy(update={"target": target}), backend


def _find_here(folder: RunFolder, say: Callable[[str], None]) -> tuple[Plan, JobBackend]:
    """Returns the plan and the backend of a run that this folder launched."""
    run = folder.path.name
    plan_file = folder.path / plans.FILE_NAME
    if not plan_file.exists():
        raise ConfigError(
            f"{folder.path} has no job: it was made on this machine, not by `cloudgan deploy`; see `cloudgan status"
            f" {folder.path}`"
        )
    if not (RUNS / run).is_dir() or not folder.path.samefile(RUNS / run):
        raise ConfigError(
            f"{folder.path} was launched from another folder; change to {folder.path.absolute().parents[1]}"
        )
    plan = read_plan(plan_file, run)
    backend = open_backend(plan.target, say, store=plan.store)
    if started := backend.desired_state(run):  # perhaps by another user since
        place = f"the started run {run} in {plan.target.describe()}"
        RunSource(place, run, labels=plan.labels().as_dict()).checked_plan(started)
    return plan, backend


def runs_elsewhere(
    here: Iterable[Plan], say: Callable[[str], None]
) -> Iterator[tuple[Plan, JobBackend]]:
    """Yields the open runs of others in the clusters and clouds of these plans; says which do not answer."""
    plans_here = tuple(here)
    known = {plan.run for plan in plans_here}
    places = {
        (
            plan.target.provider,
            plan.target.account,
            plan.target.context,
            plan.target.namespace,
            plan.store,
        ): plan
        for plan in plans_here
        if plan.target.provider not in UNBILLED - {"kubernetes"}  # their runs are those in runs/
    }
    for plan in places.values():
        try:
            backend = open_backend(plan.target, say, store=plan.store)
            for run in backend.list_runs():
                found = None if run in known else backend.desired_state(run)
                if found is not None:
                    known.add(run)
                    if plan.target.provider == "kubernetes":
                        _check_pod_store(found, plan.target)
                        found = found.model_copy(update={"target": plan.target})
                    yield found, backend
        except CloudganError as error:
            say(f"{plan.target.describe()} was not asked for runs of others: {error}")


def _check_pod_store(plan: Plan, target: Target) -> None:
    """Checks that the plan in a ConfigMap names a store that pods can reach.

    A folder would be one of this machine, which the run cannot have written.
    """
    if not plan.store.startswith(POD_STORES):
        raise ForeignDocumentError(
            f"ConfigMap {plan.run} in {target.describe()}: its store {plan.store!r} is not reachable"
            " from pods; nothing was changed. Restore the ConfigMap, or delete the objects of the"
            " run with kubectl"
        )


def _find_provisioned(
    run: str, locator: RunLocator, say: Callable[[str], None]
) -> tuple[Plan, JobBackend]:
    """Finds a run by its desired state, in the stores of an account.

    Raises:
        ConfigError: No store has it, or another version of cloudgan started it.
        ForeignDocumentError: Its desired state names another run, store or account.
        ResourcesLeftError: A part of the account that did not answer may have the run.
    """
    from cloudgan.launch.lifecycle.run_registry import RunRegistry
    from cloudgan.storage.store import StoreError, open_store

    target = account_target(locator)
    cloud = open_cloud(target, say)
    target = with_login(target, cloud.identify())
    known: set[str] = set()
    denied: CredentialsError | None = None
    silent: list[str] = []
    for url in _stores(cloud, target, locator, silent):
        registry = RunRegistry(open_store(url), _lease_owner(), target)
        try:
            found = registry.read(run)
            known |= set(() if found else registry.list_runs())
        except CredentialsError as error:
            denied = denied or error
            continue
        except StoreError as error:
            silent.append(f"{url} ({error})")
            continue
        if found:
            here = found.plan.target.model_copy(update={"profile": locator.profile})
            plan = found.plan.model_copy(update={"target": here})
            return plan, open_backend(here, say, store=plan.store)
    if denied:
        raise denied
    if silent:
        raise ResourcesLeftError(
            f"no answer from {', '.join(silent)}, where run {run} may be; try again later, or give --region or"
            " --store"
        )
    if known:
        raise UnknownNameError(f"run in {locator.provider}", run, known)
    raise ConfigError(
        f"the buckets of {locator.provider} have no run {run}, and no other run; give --region, or"
        " --store if the run has its own"
    )


def _stores(
    cloud: CloudClient, here: Target, locator: RunLocator, silent: list[str]
) -> Iterator[str]:
    """Yields the stores that can have the desired state, the likeliest first.

    What does not answer is added to `silent`: another store may be there.
    """
    if locator.store:
        yield locator.store
        return
    regions = [here.region or ""]
    if not locator.region:
        listed = cloud.list_resources()
        silent += listed.silent
        used = {region_of(here.provider, one.region) for one in listed if one.region}
        regions = sorted(used) or regions
    for region in regions:
        yield cloud_planner(here.provider).store_url(here.model_copy(update={"region": region}))


_OF_SEED: Final = "-seed-"


def run_of_seed(sweep: str, seed: int) -> str:
    """Returns the name of a run of a sweep."""
    return f"{sweep}{_OF_SEED}{seed}"


def runs_of(name: str, locator: RunLocator = THIS_FOLDER) -> tuple[str, ...]:
    """Returns the runs that a name means: the run, or all runs of a sweep in their order.

    Args:
        name: Name or folder of a run, or name of a sweep of this folder.
        locator: Where the run is; elsewhere than in this folder a name is that of a run.
    """
    if locator != THIS_FOLDER:
        return (name,)
    sweep = Path(name).name
    run = re.compile(rf"{re.escape(sweep)}{_OF_SEED}([0-9]+)")
    found = (run.fullmatch(path.parent.name) for path in RUNS.glob(f"*/{plans.FILE_NAME}"))
    seeds = sorted(int(one[1]) for one in found if one)
    if (RUNS / sweep).exists() or not seeds:
        return (name,)
    return tuple(run_of_seed(sweep, seed) for seed in seeds)


def known_stores(provider: str) -> tuple[str, ...]:
    """Returns the stores of this folder's provisioned runs."""
    return tuple(
        dict.fromkeys(plan.store for plan in known_plans() if plan.target.provider == provider)
    )


def known_plans() -> tuple[Plan, ...]:
    """Returns the plans of all runs that this folder launched.

    Raises:
        ForeignDocumentError: A plan.json is not of the run that its folder is named after.
    """
    found = sorted(RUNS.glob(f"*/{plans.FILE_NAME}"))
    return tuple(read_plan(path, path.parent.name) for path in found)


def resolve_plan(plan: Plan, cloud: CloudClient) -> Plan:
    """Returns a plan on nodes of a cloud, whose placeholders the cloud resolves, with all steps.

    Raises:
        PlanError: The cloud cannot serve the plan.
    """
    from cloudgan.launch.plan.build import all_steps

    values = cloud.resolve_placeholders(plan)
    found = plans.fill_placeholders(plan, values)
    if zones := values.get(plans.ZONES):
        details = found.target.details | {"zones": zones}
        target = found.target.model_copy(update={"details": details})
        found = found.model_copy(update={"target": target})
    return found.model_copy(update={"steps": all_steps(found)})


def run_folder(plan: Plan) -> RunFolder:
    """Returns the folder of this machine that keeps a copy of a run's results."""
    return RunFolder(RUNS / plan.run)


def check_not_trained(plan: Plan) -> None:
    """Checks that no other command made, or is making, the run in the folder of a launched run."""
    folder = run_folder(plan)
    folder.refuse_foreign(plans.FILE_NAME)
    if process := holder(folder.lock_file):
        raise ConfigError(
            f"{folder.path} is being trained by process {process}; wait for it, or give another --name"
        )


def local_config(plan: Plan) -> RunConfig:
    """Returns a run's configuration with the data's path on this machine."""
    config, source = plan.config, plan.showers.source
    if source == NO_SHOWERS:
        return config
    changed: dict[str, Any] = {"data": config.data.model_copy(update={"path": source})}
    if config.grid:
        changed["grid"] = config.grid.model_copy(update={"data": source})
    return config.model_copy(update=changed)


def _lease_owner() -> str:
    user, host = as_value(settings.user_name()), as_value(platform.node())
    return f"{user} on {host}"
