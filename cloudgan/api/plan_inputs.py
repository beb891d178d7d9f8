"""Inputs of a plan: configuration, workers, throughput, cost so far, data, wheels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cloudgan.api.grid_plan import check_grid_nodes, grid_settings, showers_of
from cloudgan.api.join_plan import JOINED, TRIAL_FORECAST
from cloudgan.api.launch_data import NO_SHOWERS, PAPER_SHOWERS, find_data, path_for_workers
from cloudgan.api.ranks import ranks_on
from cloudgan.api.run_environment import missing_variables, run_variables
from cloudgan.api.simulation_plan import simulated_showers, simulation_forecast
from cloudgan.core import settings
from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import this_machine
from cloudgan.core.labels import checked_name, spec_digits
from cloudgan.core.memory import in_gib
from cloudgan.cost.estimation.candidates import BatchRule
from cloudgan.cost.estimation.measured_runs import (
    PAPER_NETWORK,
    paper_measurements,
    trained_batches,
)
from cloudgan.cost.estimation.throughput_model import build_throughput_model
from cloudgan.cost.prices.catalog import is_of, load_catalog, spelt
from cloudgan.cost.prices.price_file import catalog_with
from cloudgan.launch.kubernetes.manifests import PYTHON_IMAGE
from cloudgan.launch.planning.plan_builder import PlanRequest
from cloudgan.launch.provisioning.launch_log import spent_usd
from cloudgan.models.device_stages import check_stages
from cloudgan.models.footprint import ERROR
from cloudgan.schema import launch
from cloudgan.schema.held_out import check_can_validate
from cloudgan.schema.plan import Workers
from cloudgan.schema.presets import find_profile
from cloudgan.schema.run_folder import RUNS, RunFolder
from cloudgan.training.expected_memory import footprint_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.api.launch_request import LaunchRequest, ProvisioningRequest
    from cloudgan.cost.estimation.throughput_model import ThroughputModel
    from cloudgan.launch.planning.node_types import NodeType
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.plan import Showers, Target, Wheel
    from cloudgan.schema.price_row import PriceRow

Training = tuple[dict[str, Any], str | None]
"""Settings by dotted key of run.yaml (None: not set), and the path of a run.yaml or None."""

PUBLIC_IMAGE = "tensorflow/tensorflow:2.21.0"
"""Default image of workers without accelerators."""
_CORES, _CORES_PER_ACCELERATOR = 4, 6
_GIB, _GIB_PER_ACCELERATOR = 8.0, 16.0
_LONGEST_SEARCH = 20
"""Letters of a search in the names of its deployments."""
_NODE_SHARE = 0.75
"""Largest default request, of a node: its system needs the rest."""


def run_config(
    request: LaunchRequest,
    training: Training,
    workers: Workers,
    *,
    name: str | None = None,
    global_batch: int | None = None,
) -> RunConfig:
    """Returns the configuration that the workers of a run read.

    Args:
        request: The launch request; its accelerator decides the preset where none is given.
        training: The requested training.
        workers: The workers.
        name: Name of the run. None: as requested, else PRESET-HASH.
        global_batch: Showers per step that the number of workers must not change. None: as
            requested.

    Raises:
        ConfigError: The configuration is not valid.
    """
    from cloudgan.api.run_options import resolve

    given, file = training
    name, accelerated = name or request.name, _has_accelerator(request, workers)
    asked, _ = resolve(given, config=file, run=None, fresh=True, accelerated=accelerated)
    check_stages(asked.parallel.stages, asked.model)
    synchronous = workers.nodes > 1 and not asked.has_ranks and asked.task == "train"
    given = given | {
        "training.strategy": "multiworker" if synchronous else None,
        "training.workers": workers.nodes if synchronous else None,
        "training.threads": max(1, int(workers.cpus)),
    }
    if asked.parallel.has_ranks:
        given |= {"parallel.ranks": ranks_on(asked, workers)}
    if asked.grid:
        given |= grid_settings(asked, given, workers)
    if global_batch is not None:
        given |= {"training.global_batch_size": global_batch, "training.batch_per_replica": None}
    if name is None:
        config, _ = resolve(given, config=file, run=None, fresh=True, accelerated=accelerated)
        digest = spec_digits(config.mathematics() | {"nodes": workers.nodes})[:6]
        of_grid = config.grid.task if config.grid and config.grid.task != "showers" else None
        what = {
            "simulate": f"{config.simulation.particle}s",
            "join": f"{config.join[:_LONGEST_SEARCH]}-blocks",
        }.get(config.task, of_grid or config.model.preset)
        name = f"{what}-{digest}"
    folder = str(RUNS / checked_name(name))
    config, _ = resolve(given, config=file, run=folder, fresh=True, accelerated=accelerated)
    return config


def _has_accelerator(request: LaunchRequest, workers: Workers) -> bool | None:
    """Whether the nodes have an accelerator; None: as this machine. A draft of the workers has none yet."""
    name = request.accelerator_name
    if workers.accelerators_per_node:
        return True
    if name is None and request.price_as:
        return catalog_with(request.price_file).row(request.price_as).accelerator_count > 0
    if name is None:
        return None if request.provider == "local" else request.is_provisioned
    nodes = (row for row in load_catalog().rows if row.node_type.casefold() == name.casefold())
    return all(row.accelerator_count > 0 for row in nodes)


def throughput_model(config: RunConfig, showers: Showers) -> ThroughputModel:
    """Returns the throughput model of a configuration's network."""
    network = "cells" if config.grid else config.model.network_name  # whose batches are no steps
    known = paper_measurements() if network == PAPER_NETWORK else ()
    drops = config.data.last_batch == "drop"
    return build_throughput_model(
        network, showers.records or PAPER_SHOWERS, known, drops_last=drops
    )


def batch_rule(config: RunConfig, global_batch: int | None = None) -> BatchRule:
    """Returns the batches that a run may have: the requested one, or those that fit the memory.

    Args:
        config: Configuration; its own batch, if any, is kept.
        global_batch: Of an earlier attempt of the run; None: none.
    """
    training, trained = config.training, trained_batches()
    is_paper = config.model.network_name == PAPER_NETWORK
    footprint = footprint_on(config, "GPU")
    return BatchRule(
        per_replica=None if global_batch else training.batch_per_replica,
        global_batch=global_batch or training.global_batch_size,
        usual=find_profile(config.model.networks).batch,
        most_global=max(trained) if is_paper else math.inf,
        replica_bytes=lambda batch: footprint.of_replica(batch) * (1 + ERROR),
    )


def usd_of_earlier_attempts(folder: RunFolder) -> float:
    """Returns the cost of all attempts of a run until now, in USD."""
    path = folder.launch_file
    return spent_usd(launch.read(path), utc_moment().timestamp()) if path.exists() else 0.0


def request_workers(request: LaunchRequest, nodes: int, node: NodeType | None) -> Workers:
    """Returns the resources of each worker.

    Args:
        request: The launch request.
        nodes: Number of nodes.
        node: Node type of the offer; None: no offer.

    Raises:
        ConfigError: The requested accelerator is not that of the offer.
    """
    accelerator, count = _accelerator(request, node)
    cpus, memory_gib = request.cpus, request.memory_gib
    if request.provider == "local":
        machine = this_machine()
        cpus = cpus or max(1, machine.cores // nodes)
        memory_gib = memory_gib or max(1.0, round((machine.memory_gib or _GIB) / nodes, 1))
    return Workers(
        nodes=nodes,
        accelerator=accelerator,
        accelerators_per_node=count,
        cpus=cpus
        or _fitting(_CORES_PER_ACCELERATOR * count or _CORES, node.vcpu if node else None),
        memory_gib=memory_gib
        or _fitting(_GIB_PER_ACCELERATOR * count or _GIB, node.memory_gib if node else None),
        node_selector=dict(request.node_selector),
        image=(request.image or (PYTHON_IMAGE if count else PUBLIC_IMAGE))
        if request.provider not in ("local", "slurm")
        else None,
        env=run_variables(request.env, request.secrets, request.env_file),
        secrets=request.secrets,
        kubernetes_secrets=request.kubernetes_secrets,
        allow_open_ports=request.allow_open_ports,
    )


def _fitting(wanted: float, capacity: float | None) -> float:
    return wanted if capacity is None else max(1, min(wanted, int(_NODE_SHARE * capacity)))


def _accelerator(request: LaunchRequest, node: NodeType | None) -> tuple[str | None, int]:
    """Accelerator and count per node, by the catalog's spelling or the offer."""
    name, count = request.accelerator_name, request.accelerator_count
    if name is None:
        has_some = node is not None and node.accelerator_count > 0
        return (node.accelerator, node.accelerator_count) if node and has_some else (None, 0)
    if node and request.is_provisioned:
        return node.accelerator, node.accelerator_count  # the search has matched them
    if node and (count != node.accelerator_count or not is_of(node, name)):
        raise ConfigError(
            f"--price-as={request.price_as} has {node.accelerator_count} x {node.accelerator}, and"
            f" --accelerator={name}:{count} was given; they must agree"
        )
    if node:
        return node.accelerator, count
    return spelt(name), count


def memory_warnings(config: RunConfig, workers: Workers) -> tuple[str, ...]:
    """Returns a warning if the batch is expected not to fit in memory.

    An accelerator's memory is that of the catalog, a CPU worker's the requested one. For TPUs no
    measurement exists.
    """
    replicas = workers.accelerators_per_node or config.training.replicas or 1
    try:
        batch = config.global_batch(replicas * workers.nodes) // (replicas * workers.nodes)
    except ConfigError:
        return ()  # reported where the plan refuses it
    if workers.accelerators_per_node:
        available = _accelerator_memory_gib(workers.accelerator)
        expected = footprint_on(config, "GPU").of_replica(batch)
        owner = f"one {workers.accelerator}"
    else:
        available = workers.memory_gib
        expected = footprint_on(config, "CPU").of_process(batch, replicas)
        owner = "a worker"
    if available is None or expected <= available * (1 << 30):
        return ()
    warning = (
        f"a batch of {batch} per replica needs about {in_gib(expected)}, and {owner} has"
        f" {available:.3g} GiB; give a smaller --batch, or more memory"
    )
    return (warning,)


def _accelerator_memory_gib(accelerator: str | None) -> float | None:
    """Smallest memory in the catalog; None: unknown, or a TPU."""
    if accelerator is None or accelerator.startswith("TPU"):
        return None
    rows = (row for row in load_catalog().rows if row.accelerator == accelerator)
    known = (row.accelerator_memory_gib for row in rows)
    return min((memory for memory in known if memory), default=None)


def plan_request(
    request: LaunchRequest,
    provisioning: ProvisioningRequest,
    *,
    config: RunConfig,
    target: Target,
    workers: Workers,
    store: str,
    wheels: Callable[[str | None, bool], tuple[Wheel, ...]],
    **more: Any,
) -> PlanRequest:
    """Returns everything that a plan is made from, for any target.

    Args:
        request: The launch request.
        provisioning: The provisioning request.
        config: Configuration, with the data's own path.
        target: Target.
        workers: Workers.
        store: Store of the run.
        wheels: Returns the wheels that pods with an accelerator install, if their image has no
            cloudgan.
        more: Other attributes of `PlanRequest`, which override those of the request.

    Raises:
        ConfigError: The data cannot reach the workers, or the held-out set is too small.
        DataError: The data are damaged.
    """
    folder = RunFolder(RUNS / config.name)
    moves = target.provider != "local"
    if moves and config.training.init_from:
        raise ConfigError(
            f"training.init_from: {config.training.init_from} is a folder of this machine, which"
            " remote workers cannot read; fine-tune with `cloudgan train`"
        )
    if config.grid:
        check_grid_nodes(config.grid, config.data.path)
    showers, ahead = showers_of(config.grid) or JOINED, TRIAL_FORECAST
    if config.task == "simulate":
        showers = simulated_showers(config)
        ahead = simulation_forecast(config, workers, more.get("price"))
    elif config.task == "train" and showers.source != NO_SHOWERS:
        showers = find_data(config.data.path, store, moves=moves, unit=config.data.unit)
        if showers.records is not None:
            check_can_validate(config, showers.records)
        path = path_for_workers(showers, folder, moves=moves)
        config = config.model_copy(update={"data": config.data.model_copy(update={"path": path})})
    given: dict[str, Any] = {
        "config": config,
        "target": target,
        "workers": workers.model_copy(update={"pull_secret": provisioning.pull_secret}),
        "store": store,
        "store_port": store_port(store),
        "showers": showers,
        "owner": settings.user_name(),
        "max_hours": request.max_hours,
        "gang_timeout_seconds": request.effective_gang_timeout_seconds,
        "budget_usd": request.budget_usd,
        "spent_usd": usd_of_earlier_attempts(folder),
        "max_usd_per_hour": provisioning.max_usd_per_hour,
        "notes": (
            *(memory_warnings(config, workers) if config.trains_one else ()),
            *missing_variables(workers),
        ),
        "forecast": None if config.task == "train" else ahead,
        "wheels": wheels(workers.accelerator, config.has_ranks)
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
    rows = load_catalog().find(
        provider=row.provider, node_type=row.node_type, region=row.region, market="on_demand"
    )
    return rows[0] if rows else None
