"""Plans of the task simulate: what is valid, what the workers get, how long it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.api.grid_plan import check_grid_flags
from cloudgan.api.join_plan import check_join, is_join
from cloudgan.api.launch_data import KB_PER_SHOWER, SIMULATED
from cloudgan.api.run_options import flag_of
from cloudgan.core.documents import read_yaml
from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import local_path
from cloudgan.launch.kubernetes.manifests import CLAIM
from cloudgan.schema.plan import Forecast, Showers
from cloudgan.schema.simulation import SHOWERS

if TYPE_CHECKING:
    from cloudgan.api.launch_request import LaunchRequest
    from cloudgan.api.plan_inputs import Training
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.plan import Plan, Workers
    from cloudgan.schema.price_row import PriceRow

_SHARED = frozenset({"task", "training.seed"})
_SECTION = "simulation."
_LOW_SECONDS_PER_GEV, _HIGH_SECONDS_PER_GEV = 0.008, 0.025
"""CPU time of one core for a GeV of Geant4 11.4 in the CLIC ECAL, from docs/simulation.md: measured
0.0098 to 0.013 on two machines; the band allows for faster cores, and for virtual cores that share one."""
_START_SECONDS = 10.0
_BASIS = (
    f"{_LOW_SECONDS_PER_GEV:g} to {_HIGH_SECONDS_PER_GEV:g} s per GeV and core, measured on other machines:"
    " docs/simulation.md"
)


def is_simulation(training: Training) -> bool:
    """Whether flags or run.yaml request the task simulate."""
    given, file = training
    if given.get("task"):
        return bool(given["task"] == "simulate")
    return bool(file) and read_yaml(local_path(str(file))).get("task") == "simulate"


def check_task(training: Training, request: LaunchRequest) -> None:
    """Checks that all flags apply to the task.

    Raises:
        ConfigError: A flag is of the other task, or the nodes cannot run Geant4.
    """
    if is_join(training):
        check_join(training, request)
        return
    simulates = is_simulation(training)
    wrong = [
        f"--{flag_of(key)}"
        for key, value in training[0].items()
        if value is not None and key not in _SHARED and key.startswith(_SECTION) != simulates
        if simulates or not key.startswith("grid.")
        if key != "grid.columns"  # of the same flag as the rows
    ]
    if wrong:
        other, task = ("train", "simulate") if simulates else ("simulate", "train")
        raise ConfigError(
            f"{' and '.join(wrong)}: only valid with the job {other}, and the run.yaml has {task}"
            if simulates
            else f"{' and '.join(wrong)}: only valid with the job {other}: -- {other}"
        )
    if simulates:
        _check_nodes(request)
    else:
        check_grid_flags(training, request)


def _check_nodes(request: LaunchRequest) -> None:
    if request.accelerator:
        raise ConfigError(
            f"--accelerator={request.accelerator}: the job simulate computes on CPU cores only; omit it"
        )
    if request.is_provisioned:
        raise ConfigError(
            f"--provider={request.provider} creates nodes of the price catalog, which has only nodes with"
            " accelerators, and Geant4 does not use them. Create CPU nodes in a cluster, and give"
            " --provider=kubernetes --context=NAME"
        )
    if request.provider == "kubernetes" and not request.image:
        raise ConfigError(
            "the job simulate needs --image=IMAGE with cloudgan, geant4-pybind and the libraries of its"
            " wheel, which the default image lacks; docs/simulation.md has the lines to add to an image"
        )


def simulated_showers(config: RunConfig) -> Showers:
    """Returns number and size of the showers that a run simulates."""
    showers = config.simulation.showers
    gib = showers * KB_PER_SHOWER * 1000 / 2**30
    return Showers(source=SIMULATED, records=showers, gib=gib)


def simulated_data(plan: Plan) -> str:
    """Returns the folder or URL of the simulated shards, for `--data`."""
    store = CLAIM if plan.store.startswith(CLAIM) else f"{plan.store.rstrip('/')}/"
    return f"{store}runs/{plan.run}/{SHOWERS}"


def simulation_forecast(config: RunConfig, workers: Workers, price: PriceRow | None) -> Forecast:
    """Returns the time and cost of a simulation on the cores of its workers.

    Args:
        config: Of the run.
        workers: Nodes and their cores.
        price: Of one node; None: unknown.
    """
    simulation = config.simulation
    mean_gev = sum(simulation.energy_gev) / 2
    # The last worker determines the end: it has one shard more than others may have.
    busiest = len(simulation.shards_of(0, workers.nodes)) * simulation.showers_per_shard
    showers = min(busiest, simulation.showers)
    cores = max(1, int(workers.cpus))
    low, high = (
        _START_SECONDS + showers * mean_gev * rate / cores
        for rate in (_LOW_SECONDS_PER_GEV, _HIGH_SECONDS_PER_GEV)
    )
    return Forecast(
        epochs=1,
        low_seconds=low,
        high_seconds=high,
        low_usd=price.cost_usd(low, workers.nodes) if price else None,
        high_usd=price.cost_usd(high, workers.nodes) if price else None,
        grade="modelled",
        basis=_BASIS,
        why_unknown="" if price else "the price of these nodes: give it with --price-as=OFFER",
    )
