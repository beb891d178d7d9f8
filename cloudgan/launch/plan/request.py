"""What a user asks of `plan` and `deploy`: the job after ``--``, and which flags apply to its provider."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from cloudgan.core.clouds import CLOUDS
from cloudgan.core.documents import read_json
from cloudgan.core.errors import ConfigError, UnknownNameError
from cloudgan.core.flags import Options, argument, flag, keys_of
from cloudgan.core.local_path import local_path
from cloudgan.core.options import build, options_of, read
from cloudgan.launch.kubernetes.manifests import CLAIM
from cloudgan.launch.plan.flags import AUTO, CHEAPEST, NodeFlags, WorkerFlags
from cloudgan.money.catalog import spelt
from cloudgan.schema.config import RunConfig
from cloudgan.schema.options.training import (
    TRAINED,
    CrossvalidateOptions,
    GridFlags,
    SearchOptions,
    Training,
    TrainingFlags,
)
from cloudgan.schema.parallel import ParallelMode
from cloudgan.schema.plan import Plan, Showers
from cloudgan.schema.search import FILE_NAME, SearchConfig
from cloudgan.schema.simulation import UNIT
from cloudgan.schema.training_config import EngineName
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
    engine: EngineName = flag("tensorflow", "that of the search: tensorflow or jax", "Ranks")

    @property
    def training(self) -> Training:
        """The keys that were given; there is no run.yaml."""
        return _joins(self.name, self.parallel, self.engine)


class SearchJob(SearchOptions):
    """Searches hyper-parameters: this machine coordinates, and the nodes are its blocks."""

    @property
    def training(self) -> Training:
        """The keys of the blocks; there is no run.yaml."""
        if (file := local_path(self.space) / FILE_NAME).is_file():
            return _joins_for(file.parent, read_json(file, SearchConfig).base)
        return _blocks_of(self)


class CrossvalidateJob(CrossvalidateOptions):
    """Trains one run per fold: this machine coordinates, and the nodes are its blocks."""

    @property
    def training(self) -> Training:
        """The keys of the blocks; there is no run.yaml."""
        return _blocks_of(self)


def _joins(name: str, mode: ParallelMode, engine: EngineName) -> Training:
    keys = {"task": "join", "join": name}
    keys |= {} if mode == "none" else {"parallel.mode": mode}
    return keys | ({} if engine == "tensorflow" else {"training.engine": engine}), None


def _joins_for(folder: Path, base: RunConfig) -> Training:
    """Returns the keys of the blocks of a study, whose ranks and engine are those of its trials."""
    return _joins(folder.resolve().name, base.parallel.mode, base.training.engine)


def _blocks_of(options: SearchOptions | CrossvalidateOptions) -> Training:
    config, _ = resolve(options.run_keys, config=options.config, run=options.run, fresh=True)
    return _joins_for(local_path(options.run), config)


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


class LaunchRequest(NodeFlags, WorkerFlags, TrainingFlags):
    """What is launched, and where."""

    job: str | None = argument("a job.yaml; `cloudgan init job` writes one", None)
    command: tuple[str, ...] = flag(
        (),
        "train, evolve, simulate, search or join NAME; or crossvalidate, each with its own flags, default train; see `cloudgan help parallel`",
        takes_words=True,
    )
    run_keys: dict[str, Any] = keys_of(
        RunConfig, keys=TRAINED, local=False, positional=False, screen=False
    )
    config: str | None = _CONFIG
    seeds: str | None = flag(
        None,
        "one run per seed; such as 1,2,3; one after another, each with an equal share of --budget-usd and --max-hours",
        "Run",
    )

    @property
    def training(self) -> Training:
        """What is launched: the job after ``--``, or the training flags before it.

        Raises:
            ConfigError: Flags of the training stand before ``--``, or those of the job are not valid.
        """
        if not self.command:
            return self.run_keys, self.config
        if self.run_keys or self.config:
            keys = {*self.run_keys, *(["config"] if self.config else [])}
            given = " ".join(f"--{one.name}" for one in options_of(type(self)) if one.key in keys)
            raise ConfigError(
                f"{given} before --: flags of the run stand behind it: -- {self.command[0]} {given}"
            )
        return job_options(self.command).training

    def with_training(self, training: Training) -> Self:
        """Returns the request for another job."""
        keys, file = training
        return self.model_copy(update={"command": (), "run_keys": keys, "config": file})


@dataclass(frozen=True)
class AttemptHistory:
    """The failed attempts of a run, as constraints on the next plan, and the showers that `deploy` counted.

    Attributes:
        first: Plan of the first attempt, whose batch and accelerators later ones keep.
        stores: Store of the run by cloud; each cloud has one.
        offer: Offer to prefer if it still matches the request; None: the best one.
        showers: Those in the bucket of the request, as counted there; None: not read.
    """

    first: Plan | None = None
    excluded: Mapping[str, str] = field(default_factory=dict)
    stores: Mapping[str, str] = field(default_factory=dict)
    offer: str | None = None
    showers: Showers | None = None

    def after(self, plan: Plan, why: str) -> AttemptHistory:
        """Returns the history with one more failed attempt."""
        excluded = {**self.excluded, plan.price.offer: why} if plan.price else self.excluded
        return replace(
            self,
            first=self.first or plan,
            excluded=excluded,
            stores={plan.target.provider: plan.store, **self.stores},
            offer=None,
        )


NO_ATTEMPTS = AttemptHistory()


class _Rule(NamedTuple):
    """Flags that apply to some providers only."""

    keys: tuple[str, ...]
    providers: frozenset[str]
    valid: str


_OWN = frozenset({"kubernetes", "slurm", "local"})
_CLOUDS = frozenset(CLOUDS)
_CLOUD_FLAGS = f"--provider={', '.join(CLOUDS)} or {CHEAPEST}"
_RULES = (
    _Rule(
        ("slurm_account", "qos", "constraint", "memory_per", "prologue"),
        frozenset({"slurm"}),
        "--provider=slurm",
    ),
    _Rule(
        ("context", "namespace", "queue", "price_file"),
        _OWN,
        "an existing cluster, such as --provider=kubernetes",
    ),
    _Rule(("network", "subnet", "internal_ips"), _OWN | {"gcp"}, "--provider=gcp"),
    _Rule(("reservation_name",), _CLOUDS | {"slurm"}, f"--provider={', '.join(CLOUDS)} or slurm"),
    # A price limit and a pull secret are valid for any node and any pod.
    _Rule(
        tuple(set(NodeFlags.model_fields) - {"max_usd_per_hour", "pull_secret", "served_runs"}),
        _CLOUDS,
        _CLOUD_FLAGS,
    ),
    _Rule(
        (
            *("context", "namespace", "image", "service_account", "node_selector"),
            *("kubernetes_secrets", "pull_secret"),
        ),
        _CLOUDS | {"kubernetes"},
        "--provider=kubernetes",
    ),
)


def check_request(request: LaunchRequest) -> None:
    """Checks that all values of a request apply to its provider.

    Raises:
        ConfigError: A value does not apply; names it and the flag to give.
    """
    if "?" in (request.store or ""):
        raise ConfigError(
            "--store has a ?, behind which credentials stand, and a plan is not secret: omit them, and give"
            " them by --secret or in the environment"
        )
    if request.nodes is None and not request.is_provisioned:
        raise ConfigError(
            f"--nodes={AUTO} is only valid with {_CLOUD_FLAGS}; give the number of nodes"
        )
    providers = set(request.clouds) or {request.provider}
    for rule in _RULES:
        given = [
            f"--{one.name}"
            for one in options_of(LaunchRequest)
            if one.key in rule.keys and getattr(request, one.key) != one.info.default
        ]
        if given and not providers <= rule.providers:
            raise ConfigError(
                f"{' and '.join(given)}: only valid with {rule.valid}, and --provider={request.provider} was"
                " given"
            )
    if request.is_provisioned:
        _check_cloud(request)
    elif request.provider == "kubernetes":
        _check_cluster(request)
    elif request.provider == "local" and (request.queue or (request.store or "").startswith(CLAIM)):
        raise ConfigError(
            "--queue and --store=pvc: are not valid with --provider=local; omit them, or give"
            " --provider=kubernetes"
        )


def _check_cloud(request: LaunchRequest) -> None:
    if request.chooses_cloud:
        if request.store:
            raise ConfigError(
                f"--store is in one cloud, and --provider={request.provider} can select any; name the store's"
                " cloud as --provider, or omit --store to use the account's own bucket"
            )
        if request.account or request.zone or request.profile:
            raise ConfigError(
                "--project, --subscription, --profile and --zone belong to one cloud: name it as"
                " --provider"
            )
    if request.nodes is None and request.allow_unknown_price:
        raise ConfigError(
            f"--nodes={AUTO} compares costs; with --allow-unknown-price give the number of nodes"
        )
    if request.reservation:
        _check_reservation(request)


def _check_reservation(request: LaunchRequest) -> None:
    """Refuses flags that would start other nodes than those of the reservation."""
    if request.chooses_cloud or request.accelerator is None:
        raise ConfigError(
            "--reservation is of one node type in one cloud: give --provider and --accelerator, such as"
            " --accelerator=a3-highgpu-8g"
        )
    if len(request.regions_in(request.provider)) != 1:
        raise ConfigError("--reservation is in one region: give --region or --zone")
    if request.keep_nodes_seconds:
        raise ConfigError(
            "--keep-nodes and --reservation: waiting nodes occupy the reservation that the next run asks"
            " for; omit --keep-nodes, since the reservation keeps the capacity"
        )
    others = {
        "--market=spot": request.market == "spot",
        "--flex-start": request.flex_start,
        f"--fallback={request.fallback}": request.fallback != "none",
    }
    if given := [flag for flag, is_given in others.items() if is_given]:
        raise ConfigError(
            f"{' and '.join(given)} would start nodes outside of --reservation={request.reservation}; give"
            " only one of them"
        )


def _check_cluster(request: LaunchRequest) -> None:
    if request.accelerator_name and spelt(request.accelerator_name).startswith("TPU"):
        raise ConfigError(
            f"--accelerator={request.accelerator_name}: --provider=kubernetes supports NVIDIA GPUs"
            " only, such as --accelerator=v100:8"
        )
    if not request.store:
        raise ConfigError(
            "--provider=kubernetes needs a store for checkpoints, logs and data: give"
            " --store=gs://BUCKET/prefix, s3://, an Azure blob URL, or pvc:CLAIM"
        )
    if not re.match(r"(pvc:|gs://|s3://|https://).", request.store):
        raise ConfigError(
            f"--store={request.store} is not reachable from pods: give gs://BUCKET/prefix, s3://, an"
            " Azure blob URL, or pvc:CLAIM"
        )
    if request.store.startswith(CLAIM) and not request.image:
        raise ConfigError(
            f"--store={request.store}: only pods can write to a claim, so wheels cannot be uploaded;"
            " give an --image that has cloudgan (built from deploy/Dockerfile)"
        )
