"""Kinds of jobs, one row each: all in which planning differs between them.

A job is known to the rest of the launch by the keys of run.yaml that it gives, and these are of one of
four kinds: the training of one GAN, a grid of cells, a simulation, or the trials of a search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cloudgan.coevolution.grid import check_grid
from cloudgan.core.errors import ConfigError, counted
from cloudgan.core.labels import checked_name
from cloudgan.launch.kubernetes.manifests import CLAIM
from cloudgan.launch.plan.flags import WorkerFlags
from cloudgan.launch.plan.showers import (
    NO_SHOWERS,
    OF_THE_SEARCH,
    SIMULATED,
    Found,
    find_showers,
    gib_of,
)
from cloudgan.ranks.layout import divide_ranks
from cloudgan.ranks.placement import ranks_on
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.schema.config import RunConfig
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.schema.plan import Forecast, Plan, Showers, Workers
from cloudgan.schema.price_row import PriceRow
from cloudgan.speed.measured import CORES_PER_CHIP
from cloudgan.speed.model import ThroughputModel
from cloudgan.training.run_options import flag_of

_LONGEST_SEARCH = 20
"""Letters of a search in the names of its deployments."""
_UNPRICED = "the price of these nodes: give it with --price-as=OFFER"


@dataclass(frozen=True)
class Kind:
    """In what planning a job differs from planning others.

    Attributes:
        check: Refuses flags that do not apply, and nodes that cannot run the job. Takes the keys that were given,
            the run.yaml or None, and the request.
        layout: Returns the keys of run.yaml that follow from the workers.
        forecast: Returns time and cost; takes the configuration, the workers, the speeds and the price of a node.
        title: Returns a name for the run, which says what its workers train.
        amount: Returns the work, such as ``60 epochs`` or ``200,000 showers``.
        work: Returns the work of a plan in a line.
        doing: Returns what a run of a name does, for its progress.
        total: Returns the units until the end, of the configuration and the newest heartbeat; None: unknown.
        needs_showers: Whether it needs training data.
        no_seeds: Why `--seeds` does not apply; "": it does.
    """

    name: str
    check: Callable[[Mapping[str, Any], str | None, WorkerFlags], None]
    showers: Callable[[RunConfig], Found]
    forecast: Callable[[RunConfig, Workers, ThroughputModel, PriceRow | None], Forecast]
    title: Callable[[RunConfig], str]
    amount: Callable[[RunConfig], str]
    work: Callable[[Plan], str]
    doing: Callable[[RunConfig, str], str]
    total: Callable[[RunConfig, Heartbeat], int | None]
    layout: Callable[[RunConfig, Workers], dict[str, Any]] = lambda *_: {}
    unit: str = "epochs"
    less: str = ""
    shorter: str = ""
    needs_showers: bool = False
    no_seeds: str = ""


def kind_of(given: Mapping[str, Any], file: Mapping[str, Any]) -> Kind:
    """Returns the kind of a requested job, of its keys and those of its run.yaml."""
    task = given.get("task") or file.get("task")
    if given.get("join") or file.get("task") == "join":
        return KINDS["join"]
    if task == "simulate":
        return KINDS["simulate"]
    return KINDS["evolve" if given.get("grid.rows") or file.get("grid") else "train"]


def _refuse(given: Mapping[str, Any], is_wrong: Callable[[str], bool], why: str) -> None:
    wrong = (key for key in given if is_wrong(key) and key != "grid.columns")  # rows: the same flag
    if flags := " and ".join(f"--{flag_of(key)}" for key in wrong):
        raise ConfigError(f"{flags}: {why}")


def _refuse_simulation(given: Mapping[str, Any]) -> None:
    why = "only valid with the job simulate: -- simulate"
    _refuse(given, lambda key: key.startswith("simulation."), why)


def _check_training(given: Mapping[str, Any], *_: object) -> None:
    _refuse_simulation(given)
    why = "only valid with a grid, and the run.yaml has none: give --grid=2x2"
    _refuse(given, lambda key: key.startswith("grid."), why)


def _train_layout(config: RunConfig, workers: Workers) -> dict[str, Any]:
    if config.parallel.has_ranks:
        return {"parallel.ranks": ranks_on(config, workers)}
    if workers.nodes == 1:
        return {}
    return {"training.strategy": "multiworker", "training.workers": workers.nodes}


def train_forecast(
    config: RunConfig, workers: Workers, throughput: ThroughputModel, price: PriceRow | None
) -> Forecast:
    """Returns the time and cost of a training, from measured runs; an unknown forecast has a reason."""
    epochs = config.training.epochs
    name = price.accelerator if price else workers.accelerator
    count = workers.accelerators_per_node * workers.nodes
    if not name or not count:
        return Forecast(epochs=epochs, why_unknown="no measured run on this hardware")
    replicas = count * CORES_PER_CHIP.get(name, 1)
    epoch = throughput.epoch(name, count, config.global_batch(replicas) / replicas)
    if epoch is None:
        return Forecast(epochs=epochs, why_unknown=throughput.why_unknown(name))
    known = Forecast(
        epochs=epochs,
        epoch_seconds=epoch.seconds,
        low_epoch_seconds=epoch.low_seconds,
        high_epoch_seconds=epoch.high_seconds,
        grade=epoch.grade,
        basis=epoch.basis,
        why_unknown="--max-steps, --max-seconds or --until ends the training",
    )
    if not config.training.ends_with_its_epochs:
        return known
    return _priced(known, epoch.job_seconds(epochs), workers, price)


def _priced(
    known: Forecast, seconds: tuple[float, float], workers: Workers, price: PriceRow | None
) -> Forecast:
    low, high = seconds
    usd = [price.cost_usd(one, workers.nodes) if price else None for one in seconds]
    total = {"low_seconds": low, "high_seconds": high, "low_usd": usd[0], "high_usd": usd[1]}
    return known.model_copy(update=total | {"why_unknown": "" if price else _UNPRICED})


def _train_work(plan: Plan) -> str:
    showers = plan.showers
    of = f", {showers.records:,} showers" if showers.records and not plan.assumes_showers else ""
    config = plan.config
    kind = KINDS[config.job]
    return f"{kind.name} {kind.title(config)}, {kind.amount(config)}{of}"


def _epochs_text(config: RunConfig) -> str:
    epochs, steps = counted(config.training.epochs, "epoch"), config.training.max_steps
    return epochs if steps is None else f"{epochs} or {counted(steps, 'step')}"


_OF_GRIDS = {
    "data.path",
    "data.unit",
    "model.preset",
    "training.seed",
    "training.batch_per_replica",
}


def _check_evolution(given: Mapping[str, Any], _: str | None, request: WorkerFlags) -> None:
    _refuse_simulation(given)
    why = (
        "not an option of a grid of cells, which trains for --iterations; omit it, or omit the grid"
    )
    _refuse(given, lambda key: key not in _OF_GRIDS and not key.startswith("grid."), why)
    if request.is_provisioned and request.nodes is None:
        raise ConfigError(
            "the time of a grid is not known before it ran, so no number of nodes is the cheapest: give"
            " --nodes=N"
        )


def _grid_of(config: RunConfig) -> CoevolutionConfig:
    if config.grid is None:
        raise TypeError(f"run {config.name} has no grid")
    return config.grid


def _grid_layout(config: RunConfig, workers: Workers) -> dict[str, Any]:
    """Seed and threads are fixed, so that another placement of the cells after a loss changes no bit."""
    grid = _grid_of(config)
    check_grid(grid)
    if (workers.accelerator or "").startswith("TPU"):
        raise ConfigError("cells run on CPUs and GPUs, and one process owns all cores of a TPU")
    first, *others = grid_ranks(grid, workers.nodes)
    most = max(1, first - 1, *others)  # without the master
    has_seed = "seed" in config.training.model_fields_set
    seed = config.training.seed if has_seed else grid.seed
    threads = grid.threads or max(1, int(workers.cpus) // most)
    return {"training.seed": seed, "grid.seed": seed, "grid.threads": threads}


def grid_ranks(grid: CoevolutionConfig, nodes: int) -> tuple[int, ...]:
    """Returns the ranks of each node: the master beside the first cells, where they are enough."""
    if nodes > grid.cells + 1:
        raise ConfigError(
            f"--nodes={nodes} are more than the {grid.cells + 1} ranks of a grid of"
            f" {grid.rows}x{grid.columns}: a master and {grid.cells} cells; use"
            f" --nodes={grid.cells + 1} or fewer"
        )
    return divide_ranks(1, grid.cells, nodes)


def _grid_showers(config: RunConfig) -> Found:
    grid = _grid_of(config)
    if grid.task == "showers":
        return find_showers(config.data)
    if config.data.path:
        raise ConfigError(
            f"--data={config.data.path}: on nodes the task {grid.task} has no data of its own; omit it, or"
            " give --task=showers"
        )
    return Found(Showers(source=NO_SHOWERS))


def _grid_name(config: RunConfig) -> str:
    task = _grid_of(config).task
    return config.model.preset if task == "showers" else task


_LOW_SECONDS_PER_GEV, _HIGH_SECONDS_PER_GEV = 0.008, 0.025
"""CPU time of one core for a GeV of Geant4 11.4 in the CLIC ECAL, from docs/measurements/validation.md: measured
0.0098 to 0.013 on two machines; the band allows for faster cores, and for virtual cores that share one."""
_START_SECONDS = 10.0


def _check_simulation(given: Mapping[str, Any], _: str | None, request: WorkerFlags) -> None:
    own = {"task", "training.seed"}
    why = "only valid with the job train, and the run.yaml has simulate"
    _refuse(given, lambda key: key not in own and not key.startswith("simulation."), why)
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
            " wheel, which the default image lacks; docs/cluster.md has the lines to add to an image"
        )


def _simulation_forecast(
    config: RunConfig, workers: Workers, _: ThroughputModel, price: PriceRow | None
) -> Forecast:
    """Returns the time and cost on the cores of the workers."""
    if price and price.accelerator_count:
        raise ConfigError(
            f"--price-as={price.offer} has {price.accelerator_count} x {price.accelerator}, which"
            " the job simulate does not use; state the price of your CPU nodes in a --price-file"
        )
    simulation = config.simulation
    mean_gev = sum(simulation.energy_gev) / 2
    # The last worker determines the end: it has one shard more than others may have.
    busiest = len(simulation.shards_of(0, workers.nodes)) * simulation.showers_per_shard
    gev = min(busiest, simulation.showers) * mean_gev / max(1, int(workers.cpus))
    rates = (_LOW_SECONDS_PER_GEV, _HIGH_SECONDS_PER_GEV)
    basis = f"{rates[0]:g} to {rates[1]:g} s per GeV and core, measured on other machines: docs/measurements/validation.md"
    low, high = (_START_SECONDS + gev * rate for rate in rates)
    return _priced(Forecast(epochs=1, grade="modelled", basis=basis), (low, high), workers, price)


def _check_join(given: Mapping[str, Any], file: str | None, request: WorkerFlags) -> None:
    """Refuses flags without effect on trials, and a store that this machine cannot reach."""
    name = given.get("join")
    if not name or file:
        raise ConfigError(
            f"--config={file}: blocks train the trials of a search, whose run.yaml is that of the search;"
            " give -- join NAME without --config"
        )
    try:
        checked_name(name)
    except ConfigError as error:
        raise ConfigError(f"{name} is no name of a search: {error}") from error
    if request.is_provisioned:
        raise ConfigError(
            f"--provider={request.provider} chooses its nodes by the forecast of one run, which a search does"
            " not have: its blocks need nodes that exist. Create a cluster, and give --provider=kubernetes"
            " --context=NAME"
        )
    if not request.store or request.store.startswith(CLAIM):
        raise ConfigError(
            "the blocks of a search need its store: give --store=URL before --, that of `cloudgan search` for"
            " join; a bucket or a folder that all nodes see"
        )


def _showers_text(config: RunConfig) -> str:
    return counted(config.simulation.showers, "shower")


_UNKNOWN_END = Forecast(epochs=1, why_unknown="the blocks train trials until the search ends")
KINDS = {
    one.name: one
    for one in (
        Kind(
            name="train",
            check=_check_training,
            layout=_train_layout,
            showers=lambda config: find_showers(config.data),
            forecast=train_forecast,
            title=lambda config: config.model.preset,
            amount=_epochs_text,
            work=_train_work,
            doing=lambda _, run: f"training {run}",
            total=lambda _, beat: beat.epochs,
            less="reduce --epochs",
            shorter="--max-steps to train less, fewer --epochs",
            needs_showers=True,
        ),
        Kind(
            name="evolve",
            check=_check_evolution,
            layout=_grid_layout,
            showers=_grid_showers,
            forecast=lambda config, *_: Forecast(
                epochs=_grid_of(config).iterations,
                why_unknown="no iteration of a grid was measured on such nodes",
            ),
            title=_grid_name,
            amount=lambda config: _grid_of(config).describe(),
            work=_train_work,
            doing=lambda _, run: f"evolving {run}",
            unit="iterations",
            total=lambda _, beat: beat.epochs,
            less="reduce --iterations",
            shorter="fewer --iterations",
            needs_showers=True,
            no_seeds="--seeds compares trainings of one GAN; deploy a grid of cells once per --seed",
        ),
        Kind(
            name="simulate",
            check=_check_simulation,
            showers=lambda config: Found(
                Showers(
                    source=SIMULATED,
                    records=config.simulation.showers,
                    gib=gib_of(config.simulation.showers),
                )
            ),
            forecast=_simulation_forecast,
            title=lambda config: f"{config.simulation.particle}s",
            amount=_showers_text,
            work=lambda plan: (
                f"simulate {_showers_text(plan.config)} with Geant4, {plan.config.simulation.particle}s"
            ),
            doing=lambda _, run: f"simulating {run}",
            unit="showers",
            total=lambda config, _: config.simulation.showers,
            less="reduce --showers",
            shorter="fewer --showers",
            no_seeds="--seeds compares trainings; a simulation has one --seed, and --showers=N makes it larger",
        ),
        Kind(
            name="join",
            check=_check_join,
            showers=lambda _: Found(Showers(source=OF_THE_SEARCH)),
            forecast=lambda *_: _UNKNOWN_END,
            title=lambda config: f"{config.join[:_LONGEST_SEARCH]}-blocks",
            amount=lambda _: "trials until the search ends",
            work=lambda plan: f"train trials of the search {plan.config.join}",
            doing=lambda config, run: f"training trials of {config.join} in {run}",
            total=lambda *_: None,
            no_seeds="--seeds makes runs of its own, and the job join trains the trials of a search; omit --seeds",
        ),
    )
}
