"""Options of the commands that train: train, evolve, search, crossvalidate."""

from __future__ import annotations

from typing import Annotated, Any

from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.flags import Options, Text, argument, flag, keys_of
from cloudgan.core.ranges import MAX_PROCESSES, MAX_SECONDS, MAX_USD
from cloudgan.schema.coevolution import MAX_CELLS, CoevolutionConfig, EnsembleMethod, parse_grid
from cloudgan.schema.config import RunConfig
from cloudgan.schema.options.shared import PRICE_AS, PRICE_FILE, REPORT, NewRun
from cloudgan.schema.search import MAX_FOLDS, SearchConfig
from cloudgan.schema.simulation import UNIT
from cloudgan.schema.stop_criterion import METRIC

TRAINED = ("data.", "model.", "training.", "checkpoint.", "parallel.")
"""Beginnings of the dotted keys in run.yaml that describe a training."""
Training = tuple[dict[str, Any], str | None]
"""Keys of run.yaml that were given, and the path of a run.yaml under them."""


class TrainingFlags(Options):
    """What is trained, and how."""

    config: str | None = flag(
        None,
        "a run.yaml, which `cloudgan init run` writes; flags override its keys",
        "Model",
        screen=True,
        placeholder="FILE",
    )
    run_keys: dict[str, Any] = keys_of(RunConfig, keys=TRAINED, local=False, positional=False)

    @property
    def training(self) -> Training:
        """The keys that were given, and the path of the run.yaml."""
        return self.run_keys, self.config


class TrainOptions(TrainingFlags):
    """Trains a GAN on this machine. Run it again to resume.

    Showers are HDF5 or TFRecord files, or a store from `cloudgan convert`. Flags override the keys of --config, and
    those the preset. Interrupted, it saves a checkpoint, from which the same command continues.

    Examples:
        cloudgan train showers.h5 --preset=mini --epochs=20
        cloudgan train showers.h5 --preset=paper --validate-every=5 --patience=4
    """

    run: NewRun | None = flag(
        None,
        "name or folder of the run; without it runs/NAME of the run.yaml, else",
        "Output",
        screen=True,
        words="runs/PRESET",
        placeholder="RUN",
    )
    run_keys: dict[str, Any] = keys_of(RunConfig, keys=TRAINED)
    allow_open_ports: bool = flag(
        False,
        "start workers where others reach their ports; TensorFlow's servers execute what they"
        " receive",
        "Devices",
    )
    writes_report: bool = flag(
        True,
        "write report.html with figures at the end, of a training of 20 s or more",
        "Output",
        screen=True,
        name="report",
    )
    describe: bool = flag(
        False,
        "parameters, memory and time; or the layout of the ranks; starts nothing",
        "Output",
        screen=True,
    )


class GridFlags(Options):
    """Which cells evolve, and how."""

    grid: Annotated[tuple[int, int] | None, Text(parse_grid, "RxC")] = flag(
        None, "rows and columns of competing GANs", "Grid", screen=True, words="2x2"
    )
    cells: dict[str, Any] = keys_of(CoevolutionConfig)

    @property
    def config_keys(self) -> dict[str, Any]:
        """The keys of coevolution.json that were given."""
        rows = {} if self.grid is None else dict(zip(("rows", "columns"), self.grid, strict=True))
        return rows | self.cells


class EvolveOptions(GridFlags):
    """Trains a grid of cells whose generators and discriminators compete.

    They mutate, and the generators of a neighbourhood form a mixture. A run in the folder continues. The task ring (eight
    Gaussians) needs no showers.

    Examples:
        cloudgan evolve showers.h5 --preset=mini
        cloudgan evolve --task=ring --grid=3x3
        cloudgan evolve --run=runs/grid --iterations=40 --ensemble=greedy
    """

    unit: str | None = UNIT
    preset: str | None = flag(
        None,
        "networks, as in `train`; of the task showers",
        "Networks",
        screen=True,
        words="mini",
        placeholder="NAME",
    )
    run: NewRun = flag(
        "runs/grid",
        "name or folder of the run",
        "Output",
        screen=True,
        placeholder="RUN",
    )
    ensemble: EnsembleMethod | None = flag(
        None,
        "then choose the best mixture; among all generators, greedy or genetic",
        "Output",
        screen=True,
    )
    size: int | None = flag(
        None,
        "generators of that mixture; of greedy at most",
        "Output",
        words="as many as are best",
        ge=1,
        le=MAX_CELLS,
    )


class SearchOptions(TrainingFlags):
    """Searches hyper-parameters; each trial is an ordinary run.

    Trials run on this machine, or with --store on the nodes of `cloudgan deploy -- join NAME`, where NAME is that
    of the search's folder. All trials share the flags of `train` that are given.

    Examples:
        cloudgan init space
        cloudgan search space.yaml showers.h5 --preset=mini --max-steps=2000
        cloudgan search runs/search --trials=50
    """

    space: str = argument(
        "YAML file of ranges and choices, or a search to continue; by key of run.yaml: `cloudgan init space` writes one"
    )
    run: NewRun = flag("runs/search", "name or folder of a new search", "Search", placeholder="RUN")
    search: dict[str, Any] = keys_of(
        SearchConfig,
        keys=(
            "trials",
            "blocks",
            "folds",
            "sampler",
            "objective",
            "direction",
            "prune",
            "second",
            "store",
        ),
    )
    max_hours: float | None = flag(
        None,
        "ends then, and saves the running trials",
        "Limits",
        screen=True,
        gt=0,
        le=MAX_SECONDS / HOUR_SECONDS,
    )
    budget_usd: float | None = flag(
        None,
        "ends before it costs more; with --price-as or --price-file",
        "Limits",
        screen=True,
        gt=0,
        le=MAX_USD,
    )
    price_as: str | None = PRICE_AS
    price_file: str | None = PRICE_FILE
    describe: bool = flag(
        False,
        "forecast of time and cost; from the time of one trial; starts nothing",
        "Show",
        screen=True,
    )
    like: str | None = flag(
        None,
        "run of this machine that takes the time of a trial; for --describe",
        "Show",
        words="the mean of the finished trials of the search",
        placeholder="RUN",
    )
    show: bool = flag(False, "the trials of a search; starts nothing", "Show", screen=True)
    report: str | None = REPORT
    run_keys: dict[str, Any] = keys_of(RunConfig, keys=TRAINED, local=False, screen=False)


class CrossvalidateOptions(TrainingFlags):
    """Trains one run per fold, and shows mean and spread of a validation number.

    Fold f holds out every N-th shower from number f on. The same command continues an interrupted one.

    Examples:
        cloudgan crossvalidate showers.h5 --preset=mini --folds=5
        cloudgan crossvalidate --show=runs/crossvalidation
    """

    run_keys: dict[str, Any] = keys_of(RunConfig, keys=TRAINED, local=False, screen=False)
    folds: int = flag(
        5, "parts of the showers; each is held out once", "Folds", screen=True, ge=2, le=MAX_FOLDS
    )
    repeats: int = flag(
        1,
        "runs of each fold; with consecutive seeds: what initial weights change beside the data",
        "Folds",
        screen=True,
        ge=1,
        le=100,
    )
    blocks: int = flag(1, "runs at the same time", "Folds", screen=True, ge=1, le=MAX_PROCESSES)
    objective: str = flag(
        METRIC, "validation number; as in --until", "Folds", screen=True, placeholder="NUMBER"
    )
    run: NewRun = flag(
        "runs/crossvalidation",
        "name or folder of the runs; the same command continues it",
        "Output",
        screen=True,
        placeholder="RUN",
    )
    show: str | None = flag(
        None,
        "the runs of a cross-validation; starts nothing",
        "Output",
        screen=True,
        placeholder="RUN",
    )
