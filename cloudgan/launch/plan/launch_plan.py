"""From a request to the plan that `deploy` carries out: job, nodes, target, data, limits, requests.

Nothing is sent. Read `make_launch_plan` first; each step has a module of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from cloudgan.core import settings
from cloudgan.core.clock import utc_moment
from cloudgan.core.clouds import NAMESPACE
from cloudgan.core.errors import BudgetError, ConfigError
from cloudgan.core.local_path import local_path
from cloudgan.data.held_out import check_can_validate
from cloudgan.launch.clouds.planner import cloud_planner
from cloudgan.launch.kubernetes.manifests import CLAIM, manifest_steps
from cloudgan.launch.plan.build import PlanRequest, all_steps, make_plan, with_node_pool
from cloudgan.launch.plan.environment import missing_variables
from cloudgan.launch.plan.launch_job import (
    AskedJob,
    asked_job,
    memory_warnings,
    usd_of_earlier_attempts,
    with_image,
    workers_on,
)
from cloudgan.launch.plan.node_choice import NodeChoice, pool_request
from cloudgan.launch.plan.request import (
    NO_ATTEMPTS,
    AttemptHistory,
    LaunchRequest,
    check_request,
)
from cloudgan.launch.plan.showers import Found, in_store, path_for_workers
from cloudgan.money.catalog import load_catalog
from cloudgan.money.price_file import catalog_with, node_in_file
from cloudgan.schema.config import RunConfig
from cloudgan.schema.item import Item
from cloudgan.schema.plan import Plan, SlurmOptions, Step, Target, Wheel, Workers
from cloudgan.schema.price_row import PriceRow
from cloudgan.schema.run_folder import RUNS, RunFolder
from cloudgan.speed.measured import PAPER_SHOWERS
from cloudgan.speed.network import throughput_model

Wheels = Callable[[str | None, RunConfig], tuple[Wheel, ...]]
"""Returns the wheels that pods install, of an accelerator and of whether they start MPI ranks."""
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_TRACKED = (
    "--track={package}: the image must have {package}, which nothing checks, and the pods its address and key"
    " (--env, --secret); they reach servers on port 443 only"
)


def make_launch_plan(
    request: LaunchRequest, wheels: Wheels, history: AttemptHistory = NO_ATTEMPTS
) -> Plan:
    """Returns the plan of a request.

    Args:
        wheels: Of the pods, if their image has no cloudgan.

    Raises:
        ConfigError: A value is not valid; nothing was started.
        PlanError: No offer matches the request.
        BudgetError: The budget is too small.
    """
    check_request(request)
    if request.is_provisioned:
        return _on_new_nodes(request, wheels, history)
    return _on_existing_nodes(request, wheels, history)


def _on_existing_nodes(request: LaunchRequest, wheels: Wheels, history: AttemptHistory) -> Plan:
    nodes, limit, price = request.nodes or 1, request.max_usd_per_hour, None
    if request.price_as:
        price = catalog_with(request.price_file).row(request.price_as)
    elif request.price_file:
        count = request.accelerator_count
        price = node_in_file(request.price_file, request.accelerator_name, count)
    if price and limit and price.hourly_usd(nodes) > limit:
        raise BudgetError(
            f"{nodes} x {price.offer} cost {price.hourly_usd(nodes):.2f} USD per hour, more than"
            f" --max-usd-per-hour={limit:g}"
        )
    workers = workers_on(request, nodes, price)
    job = asked_job(request, workers.accelerators_per_node)
    config = job.on(workers)
    workers = with_image(request, workers, config)
    target = existing_target(request.provider, request.context, request.namespace).model_copy(
        update={
            "queue": request.queue,
            "service_account": request.service_account,
            "slurm": None if request.slurm == SlurmOptions() else request.slurm,
        }
    )
    store = _store(request, target, RunFolder(RUNS / config.name))
    _check_movable(request, config, workers, target)
    found = _found_showers(job, history)
    inputs = _inputs(
        request,
        found,
        wheels,
        config=config,
        target=target,
        workers=workers,
        store=store,
        price=price,
    )
    return make_plan(
        inputs,
        throughput_model(config, inputs.showers.records or PAPER_SHOWERS),
        _steps_of(target),
        utc_moment(),
    )


def _on_new_nodes(request: LaunchRequest, wheels: Wheels, history: AttemptHistory) -> Plan:
    if request.reservation:
        request = request.model_copy(update={"market": "on_demand"})
    job, first = asked_job(request), history.first
    found = _found_showers(job, history)
    speeds = throughput_model(job.config, found.showers.records or PAPER_SHOWERS)
    chosen = NodeChoice(request, history, job.config, found.showers, speeds).choose()
    node = chosen.node
    workers = workers_on(request, chosen.nodes, node)
    config = job.on(workers, name=first.run if first else None, global_batch=chosen.global_batch)
    workers = with_image(request, workers, config)
    cloud = cloud_planner(node.provider)
    target = cloud.target(request.account, node.region, request.zone, request.cluster)
    target = request.complete(target)
    store = request.store or history.stores.get(target.provider) or cloud.store_url(target)
    _check_movable(request, config, workers, target)
    wait = request.effective_gang_timeout_seconds
    if request.market == "auto" and node.market == "spot":  # then on-demand nodes are next
        wait = min(wait, request.spot_wait_seconds)
    inputs = _inputs(
        request,
        found,
        wheels,
        config=config,
        target=target,
        workers=workers,
        store=store,
        gang_timeout_seconds=wait,
        price=chosen.price,
        cost=chosen.cost,
        selection=chosen.selection,
        run_spec_hash=first.spec_hash if first else None,
    )
    pool = pool_request(config.name, request, node, chosen.nodes)
    inputs = with_node_pool(inputs, pool)
    plan = make_plan(inputs, speeds, all_steps, utc_moment())
    warnings = (*_market_warnings(plan, request), *_waiting_warnings(plan, request))
    return plan.model_copy(update={"warnings": (*plan.warnings, *warnings)})


def _found_showers(job: AskedJob, history: AttemptHistory) -> Found:
    found = job.kind.showers(job.config)
    read = history.showers
    return Found(read) if read and read.source == found.showers.source else found


def existing_target(
    provider: str | None = None, context: str | None = None, namespace: str | None = None
) -> Target:
    """Returns a target without provisioned nodes; looks the context up in the kubeconfig."""
    if provider != "kubernetes":
        return Target(provider="slurm" if provider == "slurm" else "local")
    from cloudgan.launch.kubernetes.kubeconfig import find_context

    if namespace is not None and not _NAMESPACE.fullmatch(namespace):
        raise ConfigError(
            f"--namespace={namespace} is not valid: a namespace has at most 63 lower-case letters,"
            " digits and hyphens"
        )
    found = find_context(context)
    return Target(
        provider="kubernetes",
        context=found.name,
        server=found.server,
        namespace=namespace or NAMESPACE,
    )


def _store(request: LaunchRequest, target: Target, folder: RunFolder) -> str:
    if target.provider != "slurm":
        return request.store or str((folder.path / "store").resolve())
    store = request.store
    if not store or store.startswith(CLAIM):
        raise ConfigError(
            "--provider=slurm needs a store for checkpoints, logs and data that all nodes share:"
            " give --store=FOLDER on the cluster's shared disk, or a bucket"
        )
    if "://" in store:
        return store
    shared = local_path(store).resolve()
    if shared == RUNS.resolve().parent:
        raise ConfigError(
            f"--store={store} is the folder whose runs/ keeps the local copies; give another one,"
            " such as --store=store"
        )
    return str(shared)


def _steps_of(target: Target) -> Callable[[Plan], tuple[Step, ...]]:
    if target.provider == "kubernetes":
        return manifest_steps
    if target.provider == "slurm":
        from cloudgan.launch.backends.slurm.requests import slurm_steps

        return slurm_steps
    from cloudgan.launch.backends.local.backend import local_steps

    return local_steps


def _check_movable(
    request: LaunchRequest, config: RunConfig, workers: Workers, target: Target
) -> None:
    """Refuses what remote workers would not have."""
    if target.provider != "local" and config.training.init_from:
        raise ConfigError(
            f"training.init_from: {config.training.init_from} is a folder of this machine, which"
            " remote workers cannot read; fine-tune with `cloudgan train`"
        )
    package = config.training.tracker_package
    if package and workers.image and not request.image:
        raise ConfigError(
            f"--track={package}: the pods' public image and wheels have no {package}; give an --image"
            f" that has cloudgan and {package}, or omit --track"
        )


def _inputs(
    request: LaunchRequest,
    found: Found,
    wheels: Wheels,
    *,
    config: RunConfig,
    target: Target,
    workers: Workers,
    store: str,
    **more: Any,
) -> PlanRequest:
    """Returns everything that a plan is made from, for any target."""
    folder = RunFolder(RUNS / config.name)
    showers = found.showers if target.provider == "local" else in_store(found, store)
    if (path := path_for_workers(showers, folder)) is not None:
        if showers.records is not None:
            check_can_validate(config, showers.records)
        config = config.model_copy(update={"data": config.data.model_copy(update={"path": path})})
    package = config.training.tracker_package
    given: dict[str, Any] = {
        "config": config,
        "target": target,
        "workers": workers,
        "store": store,
        "store_port": store_port(store),
        "showers": showers,
        "owner": settings.user_name(),
        "max_hours": request.max_hours,
        "gang_timeout_seconds": request.effective_gang_timeout_seconds,
        "budget_usd": request.budget_usd,
        "spent_usd": usd_of_earlier_attempts(folder),
        "max_usd_per_hour": request.max_usd_per_hour,
        "notes": (
            *memory_warnings(config, workers),
            *missing_variables(workers),
            *([_TRACKED.format(package=package)] if package and workers.image else ()),
        ),
        "wheels": wheels(workers.accelerator, config)
        if workers.image and not request.image
        else (),
    }
    return PlanRequest(**given | more)


def store_port(store: str) -> int:
    """Returns the port of a store; that of an S3-compatible server is in AWS_ENDPOINT_URL."""
    endpoint = settings.variable("AWS_ENDPOINT_URL_S3") or settings.variable("AWS_ENDPOINT_URL")
    if not store.startswith("s3://") or not endpoint:
        return 443
    found = urlsplit(endpoint)
    return found.port or (80 if found.scheme == "http" else 443)


def on_demand_price(row: PriceRow) -> PriceRow | None:
    """Returns the on-demand price of a spot offer's node type in its region; None: unknown."""
    rows = load_catalog(row.node_type).find(
        provider=row.provider, node_type=row.node_type, region=row.region, market="on_demand"
    )
    return rows[0] if rows else None


def _market_warnings(plan: Plan, request: LaunchRequest) -> list[str]:
    """States the price of the on-demand nodes that --market=auto can fall back to."""
    row = plan.price
    if row is None or row.market != "spot" or request.fixed_market is not None:
        return []
    on_demand = on_demand_price(row)
    if on_demand is None:
        return []
    rate = on_demand.hourly_usd(plan.workers.nodes)
    minutes = plan.limits.gang_timeout_seconds / 60
    warning = (
        f"spot nodes that are not ready within {minutes:.3g} min, or are preempted too often, are"
        f" replaced by on-demand nodes for {rate:.2f} USD per hour; --market=spot prevents that"
    )
    return [warning]


def _waiting_warnings(plan: Plan, request: LaunchRequest) -> list[str]:
    """States what nodes that wait for an unknown next run cost, and which startup they save."""
    pool, cost = plan.node_pool, plan.cost
    if pool is None or not pool.keep_seconds or request.served_runs > 1:
        return []
    found = (
        next((part.usd for part in cost.parts if part.item is Item.WAITING), None) if cost else None
    )
    price = "an unknown amount" if found is None else f"up to {found:.2f} USD"
    saved = "a startup whose time was not measured"
    if cost and cost.startup_seconds is not None and cost.startup_low_seconds is not None:
        low, high = cost.startup_low_seconds / 60, cost.startup_seconds / 60
        saved = f"{low:.0f} to {high:.0f} min of startup"
    warning = (
        f"--keep-nodes: after the run its nodes wait {pool.keep_seconds / 60:.3g} min for the next one,"
        f" which costs {price} and saves that run {saved}; the cluster bills until `cloudgan down`"
    )
    return [warning]
