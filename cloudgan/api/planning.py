"""From requests to the plan that `deploy` carries out."""

from __future__ import annotations

from collections.abc import Callable

from cloudgan.api.attempt_history import NO_ATTEMPTS, AttemptHistory
from cloudgan.api.launch_request import LaunchRequest, ProvisioningRequest
from cloudgan.api.plan_inputs import (
    Training,
    plan_request,
    request_workers,
    run_config,
    throughput_model,
)
from cloudgan.api.request_checks import check_request
from cloudgan.api.simulation_plan import check_task, is_simulation
from cloudgan.api.targets import resolve_target
from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import BudgetError, ConfigError
from cloudgan.core.local_path import local_path
from cloudgan.cost.prices.price_file import catalog_with, node_in_file
from cloudgan.launch.clouds.planner import BUILT_IN_CLOUDS, Clouds
from cloudgan.launch.kubernetes.manifests import CLAIM, manifest_steps
from cloudgan.launch.planning.plan_builder import make_plan
from cloudgan.schema.plan import Plan, SlurmOptions, Step, Target, Wheel
from cloudgan.schema.price_row import PriceRow
from cloudgan.schema.run_folder import RUNS, RunFolder


def make_launch_plan(
    request: LaunchRequest,
    provisioning: ProvisioningRequest,
    training: Training,
    wheels: Callable[[str | None, bool], tuple[Wheel, ...]],
    *,
    clouds: Clouds = BUILT_IN_CLOUDS,
    history: AttemptHistory = NO_ATTEMPTS,
) -> Plan:
    """Returns the plan of a request.

    Args:
        request: Where the run is launched.
        provisioning: Which nodes are created.
        training: The requested training.
        wheels: Returns the wheels that pods with an accelerator install, if their image has no
            cloudgan.
        clouds: The available clouds.
        history: Earlier attempts of the run.

    Raises:
        ConfigError: A value is not valid; nothing was started.
        PlanError: No offer matches the request.
        BudgetError: The budget is too small.
    """
    check_request(request, provisioning)
    check_task(training, request)
    if request.is_provisioned:
        if request.reservation:
            provisioning = provisioning.model_copy(update={"market": "on_demand"})
        from cloudgan.api.provisioned_plan import provisioned_plan

        return provisioned_plan(
            request, provisioning, training, wheels, clouds=clouds, history=history
        )
    nodes = request.nodes or 1
    price = _own_price(request)
    limit = provisioning.max_usd_per_hour
    if price and limit and price.hourly_usd(nodes) > limit:
        raise BudgetError(
            f"{nodes} x {price.offer} cost {price.hourly_usd(nodes):.2f} USD per hour, more than"
            f" --max-usd-per-hour={limit:g}"
        )
    if price and price.accelerator_count and is_simulation(training):
        raise ConfigError(
            f"--price-as={price.offer} has {price.accelerator_count} x {price.accelerator}, which"
            " the job simulate does not use; state the price of your CPU nodes in a --price-file"
        )
    workers = request_workers(request, nodes, price)
    config = run_config(request, training, workers)
    target = resolve_target(request.provider, request.context, request.namespace).model_copy(
        update={
            "queue": request.queue,
            "service_account": request.service_account,
            "slurm": None if request.slurm == SlurmOptions() else request.slurm,
        }
    )
    inputs = plan_request(
        request,
        provisioning,
        config=config,
        target=target,
        workers=workers,
        store=_store(request, target, RunFolder(RUNS / config.name)),
        wheels=wheels,
        price=price,
    )
    speeds = throughput_model(config, inputs.showers)
    return make_plan(inputs, speeds, _steps_of(target), utc_moment())


def _own_price(request: LaunchRequest) -> PriceRow | None:
    """Returns the price of existing nodes: of the offer, or of the node in the price file."""
    if request.price_as:
        return catalog_with(request.price_file).row(request.price_as)
    if request.price_file:
        return node_in_file(request.price_file, request.accelerator_name, request.accelerator_count)
    return None


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
