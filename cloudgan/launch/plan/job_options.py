"""The words after ``--``: one model of flags per job, parsed completely before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cloudgan.core.command_words import read
from cloudgan.core.documents import read_json
from cloudgan.core.errors import ConfigError, UnknownNameError
from cloudgan.core.flags import Options, argument, flag, keys_of
from cloudgan.core.local_path import local_path
from cloudgan.core.options import build
from cloudgan.schema.config import RunConfig
from cloudgan.schema.ecal_unit import UNIT
from cloudgan.schema.options.training import (
    TRAINED,
    CrossvalidateOptions,
    GridFlags,
    SearchOptions,
    Training,
    TrainingFlags,
)
from cloudgan.schema.parallel import ParallelMode
from cloudgan.schema.search import FILE_NAME, SearchConfig
from cloudgan.training.run_options import resolve

_CONFIG: Any = flag(None, "a run.yaml; flags override its keys", "Model", placeholder="FILE")


class TrainJob(TrainingFlags):
    """Trains one GAN on the nodes.

    Examples:
        cloudgan deploy --provider=gcp --accelerator=l4 --nodes=2 -- train showers.h5 --preset=mini
    """

    run_keys: dict[str, Any] = keys_of(RunConfig, keys=TRAINED, local=False)


class EvolveJob(GridFlags):
    """Trains a grid of cells on the nodes; each cell is an MPI rank.

    Examples:
        cloudgan deploy --provider=slurm --store=/shared/gan --nodes=4 -- evolve showers.h5
    """

    config: str | None = _CONFIG
    unit: str | None = UNIT
    preset: str | None = flag(None, "networks, as in `train`", "Networks", words="mini")

    @property
    def training(self) -> Training:
        """The keys that were given, and the path of the run.yaml."""
        cells = self.config_keys
        if self.grid is None and self.config is None:
            cells |= {"rows": 2, "columns": 2}
        keys = {
            "data.path": cells.pop("data", None),
            "data.unit": self.unit,
            "model.preset": self.preset,
            "training.seed": cells.pop("seed", None),
        }
        return keys | {f"grid.{name}": value for name, value in cells.items()}, self.config


class SimulateJob(Options):
    """Simulates showers with Geant4 into the store.

    Examples:
        cloudgan deploy --provider=kubernetes --nodes=4 -- simulate --showers=100000
    """

    config: str | None = _CONFIG
    run_keys: dict[str, Any] = keys_of(RunConfig, keys=("simulation.", "training.seed"))

    @property
    def training(self) -> Training:
        """The keys that were given, and the path of the run.yaml."""
        return {"task": "simulate"} | self.run_keys, self.config


class JoinJob(Options):
    """Trains the trials of a search (`cloudgan search --store`), each one after another, until it ends.

    Examples:
        cloudgan deploy --provider=kubernetes --nodes=2 --store=s3://lab/x -- join search
    """

    name: str = argument("name of the search")
    parallel: ParallelMode = flag(
        "none", "that of the search: each node trains with the ranks of a trial", "Ranks"
    )

    @property
    def training(self) -> Training:
        """The keys that were given; there is no run.yaml."""
        return _joins(self.name, self.parallel)


class SearchJob(SearchOptions):
    """Searches hyper-parameters: this machine coordinates, and the nodes are its blocks."""

    @property
    def training(self) -> Training:
        """The keys of the blocks; there is no run.yaml."""
        if (file := local_path(self.space) / FILE_NAME).is_file():
            return _joins(_name(self.space), read_json(file, SearchConfig).base.parallel.mode)
        return _joins(_name(self.run), _mode(self))


class CrossvalidateJob(CrossvalidateOptions):
    """Trains one run per fold: this machine coordinates, and the nodes are its blocks."""

    @property
    def training(self) -> Training:
        """The keys of the blocks; there is no run.yaml."""
        return _joins(_name(self.run), _mode(self))


def _joins(name: str, mode: ParallelMode) -> Training:
    return {"task": "join", "join": name} | (
        {} if mode == "none" else {"parallel.mode": mode}
    ), None


def _name(folder: str) -> str:
    return local_path(folder).resolve().name


def _mode(options: SearchOptions | CrossvalidateOptions) -> ParallelMode:
    config, _ = resolve(options.run_keys, config=options.config, run=options.run, fresh=True)
    return config.parallel.mode


Job = TrainJob | EvolveJob | SimulateJob | JoinJob | SearchJob | CrossvalidateJob
JOBS: dict[str, type[Job]] = {
    "train": TrainJob,
    "evolve": EvolveJob,
    "simulate": SimulateJob,
    "join": JoinJob,
    "search": SearchJob,
    "crossvalidate": CrossvalidateJob,
}


def job_options(words: Sequence[str]) -> Job:
    """Returns the options of the job after ``--``."""
    name, *rest = words
    if name not in JOBS:
        raise UnknownNameError("job after `cloudgan deploy --`", name, JOBS)
    model, command = JOBS[name], f"cloudgan deploy -- {name}"
    own, common = read(command, model, rest)
    if common:
        raise ConfigError(
            f"--{' and --'.join(common)}: flags of `cloudgan deploy` stand before --, those of {name} behind it"
        )
    return build(model, own, command=command)


def read_job(words: Sequence[str]) -> Training:
    """Returns what the words after ``--`` request."""
    return job_options(words).training
