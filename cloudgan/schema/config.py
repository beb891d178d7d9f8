"""`RunConfig`, the schema of run.yaml: the same file configures the laptop and the pod."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from cloudgan.core.documents import check_booleans, explain
from cloudgan.core.errors import ConfigError, nearest, shorten
from cloudgan.core.flags import argument, flag
from cloudgan.core.ranges import (
    MAX_BATCH,
    MAX_EPOCHS,
    MAX_LOCAL_PROCESSES,
    MAX_PATIENCE,
    MAX_PROCESSES,
    MAX_SECONDS,
    MAX_SEED,
    MAX_SMOOTH,
    MAX_STEP,
)
from cloudgan.core.user_text import check_texts
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.schema.early_stop import EarlyStop
from cloudgan.schema.ecal_unit import EcalUnit
from cloudgan.schema.engine import EngineName, check_engine
from cloudgan.schema.parallel import ParallelConfig
from cloudgan.schema.presets import Preset, find_preset, find_profile
from cloudgan.schema.simulation import SimulationConfig, Task
from cloudgan.schema.stop_criterion import DEFAULT_RANKING, StopCriterion, parse_stop_criterion

if TYPE_CHECKING:
    from collections.abc import Mapping

Loop = Literal["custom", "fit"]
StrategyName = Literal["auto", "one", "mirrored", "multiworker", "tpu"]
Precision = Literal["float32", "bfloat16", "mixed", "float64"]
ConvImplOption = Literal["auto", "published", "phases", "fast"]
ScaleLr = Literal["none", "linear", "sqrt"]
_MAX_PROBLEMS = 8


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DataConfig(_Part):
    """The training showers and their order."""

    path: str = argument(
        "showers; HDF5 or TFRecord files (path, glob or comma list), or a folder or bucket of `cloudgan convert`",
        "",
        topic="Data",
        name="data",
    )
    unit: EcalUnit | None = flag(
        None, "unit of ECAL; in files that state none, where several fit", "Data"
    )
    held_out_fraction: float = flag(
        0.1,
        "share kept for losses and validation; `validate` needs 200 such showers",
        "Quality",
        screen=True,
        name="held-out",
        gt=0,
        lt=1,
    )
    fold: int | None = Field(
        None,
        ge=0,
        description="number of the first held-out shower, for cross-validation; default: the last of the"
        " first group of round(1 / held_out_fraction) showers",
    )
    cache: Literal["auto", "memory", "disk", "none"] = Field(
        "auto",
        description="preprocessed images in memory, in a file beside the shards, or decoded each time;"
        " auto: memory for small sets, else a file; the results are the same",
    )
    last_batch: Literal["carry", "drop"] = Field(
        "carry",
        description="fill the last batch of an epoch with the next epoch's first showers, or"
        " drop it as the published code does",
    )
    shards_per_group: int = Field(4, ge=1, le=10**6, description="shards shuffled together")

    @model_validator(mode="after")
    def _fold_exists(self) -> Self:
        folds = max(2, round(1 / self.held_out_fraction))
        if self.fold is not None and self.fold >= folds:
            raise ValueError(
                f"fold is {self.fold}, but held_out_fraction {self.held_out_fraction:g} makes {folds}"
                " folds, numbered from 0"
            )
        return self

    @model_serializer(mode="wrap")
    def _without_unset_keys(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omits an unset fold or unit, so that the documents and hashes of other runs stay as they are."""
        return {key: value for key, value in dump(self).items() if value is not None}


class TrainingConfig(_Part):
    """Training options."""

    engine: EngineName = flag(
        "tensorflow",
        "tensorflow, or jax; the same training with the same checkpoints, compiled by XLA",
        "Devices",
        screen=True,
        is_local=True,
    )
    loop: Loop = flag("custom", "custom, or fit (Keras); both train identically", "Devices")
    strategy: StrategyName = flag(
        "auto",
        "auto uses all GPUs of this machine; multiworker joins TF_CONFIG or starts workers",
        "Devices",
        screen=True,
        is_local=True,
    )
    workers: int = flag(
        1,
        "processes to start on this machine; with --strategy=multiworker",
        "Devices",
        is_local=True,
        ge=1,
        le=MAX_LOCAL_PROCESSES,
    )
    replicas: int | None = flag(
        None,
        "replicas per process",
        "Devices",
        screen=True,
        words="one per GPU or TPU core, one on a CPU",
        ge=1,
        le=MAX_PROCESSES,
    )
    threads: int | None = Field(
        None, ge=1, le=MAX_PROCESSES, description="threads per process; default: all cores"
    )
    epochs: int = flag(
        60, "passes over the training showers", "Length", screen=True, ge=1, le=MAX_EPOCHS
    )
    max_steps: int | None = flag(
        None, "stop after so many steps", "Length", screen=True, ge=1, le=MAX_STEP
    )
    max_seconds: float | None = flag(
        None,
        "stop after so much training time; without start-up",
        "Length",
        screen=True,
        gt=0,
        le=MAX_SECONDS,
    )
    batch_per_replica: int | None = flag(
        None,
        "showers per replica and step",
        "Batch",
        screen=True,
        name="batch",
        words="the preset's",
        ge=1,
        le=MAX_BATCH,
    )
    global_batch_size: int | None = flag(
        None,
        "showers per step of all replicas together; instead of --batch",
        "Batch",
        screen=True,
        name="global-batch",
        ge=1,
        le=MAX_BATCH,
    )
    precision: Precision = flag(
        "float32",
        "of the arithmetic; losses, statistics and weights stay float32, or float64. mixed is bfloat16, or float16"
        " with loss scaling on GPUs without it, or float32 on CPUs without it",
        "Batch",
        screen=True,
    )
    conv_impl: ConvImplOption = flag(
        "auto",
        "implementation of the convolutions; published layers, phases (up-sampling without repeated cells) or fast"
        " (Fourier transforms in generated code on a CPU, else phases). The weights mean the same in all",
        "Devices",
    )
    seed: int = flag(0, "of every random number", "Length", ge=0, le=MAX_SEED)
    batch_norm: Literal["replica", "synchronized"] = Field(
        "replica", description="statistics of each replica, as published, or of the global batch"
    )
    scale_lr: ScaleLr = flag(
        "none",
        "learning rate for larger batches; times (global batch / reference batch) or its root, with warm-up",
        "Batch",
    )
    reference_batch_size: int = Field(64, ge=1, le=MAX_BATCH)
    warmup_epochs: float = Field(
        5.0, ge=0, le=MAX_EPOCHS, description="used if scale_lr raises the learning rate"
    )
    steps_per_loop: int | None = flag(
        None,
        "steps per call of the device; signals take effect between two calls",
        "Devices",
        words="20, on a CPU 10 for small networks, else 1",
        ge=1,
        le=10**6,
    )
    init_from: str = flag(
        "",
        "run whose networks the training starts from; fine-tuning with other showers or losses",
        "Model",
        screen=True,
        placeholder="RUN",
        is_local=True,
    )
    validation_showers: int = Field(
        1024, ge=0, le=10**9, description="held-out showers per validation loss"
    )
    validate_every: int = flag(
        0,
        "epochs between validations; keeps the best checkpoint for --step=best. 0: never, or 1 with --until",
        "Quality",
        screen=True,
        ge=0,
        le=MAX_EPOCHS,
    )
    until: str = flag(
        "",
        'stop at a limit, such as "metric<0.15"; metrics: metric, response, profile_z, hits, angle, separation.'
        " An empty value (--until=) removes the criterion",
        "Length",
        screen=True,
        can_be_empty=True,
    )
    patience: int | None = flag(
        None,
        "stop after so many validations without progress; of the metric of --until, or metric",
        "Length",
        screen=True,
        words="never",
        ge=1,
        le=MAX_PATIENCE,
    )
    smooth: int | None = flag(
        None,
        "validations whose median --patience compares",
        "Length",
        words="1",
        ge=1,
        le=MAX_SMOOTH,
    )
    tensorboard: bool = flag(False, "write TensorBoard summaries into the run's folder", "Output")

    @model_serializer(mode="wrap")
    def _without_an_unused_early_stop(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omits unset keys, so that the documents of other runs stay as they are."""
        found: dict[str, Any] = dump(self)
        for key in ("patience", "smooth"):
            if getattr(self, key) is None:
                found.pop(key, None)
        if self.engine == "tensorflow":
            found.pop("engine", None)
        return found

    @property
    def validates_every(self) -> int:
        """Epochs between validations; 0: never."""
        return self.validate_every or int(bool(self.until))

    @property
    def ends_with_its_epochs(self) -> bool:
        """Whether no limit or stop criterion can end the training before its last epoch."""
        limits = (self.max_steps, self.max_seconds, self.patience)
        return limits == (None, None, None) and not self.until

    @property
    def ranking(self) -> StopCriterion:
        """Metric and direction that rank generators."""
        return parse_stop_criterion(self.until) if self.until else DEFAULT_RANKING

    @property
    def early_stop(self) -> EarlyStop | None:
        """When to stop without an improvement; None: never."""
        return EarlyStop(self.patience, self.smooth or 1) if self.patience else None

    @model_validator(mode="after")
    def _early_stop_has_validations(self) -> Self:
        early = self.early_stop
        if early is None:
            if self.smooth is not None:
                raise ValueError(f"smooth is {self.smooth} without patience; give both")
            return self
        if not self.validates_every:
            raise ValueError(
                f"patience is {self.patience}, but no epoch is validated; give --validate-every=1"
            )
        validations = self.epochs // self.validates_every
        if early.first_stop > validations:
            raise ValueError(
                f"patience {early.patience} with smooth {early.smooth} needs {early.first_stop}"
                f" validations, and {self.epochs} epochs validated every {self.validates_every} have"
                f" {validations}; use more epochs or less patience"
            )
        return self

    @model_validator(mode="after")
    def _validates_some_epoch(self) -> Self:
        if self.until:
            parse_stop_criterion(self.until)
        if self.validates_every > self.epochs:
            raise ValueError(
                f"validate_every is {self.validate_every}, but there are {self.epochs} epochs; use at"
                f" most {self.epochs}"
            )
        return self

    @model_validator(mode="after")
    def _one_batch_size(self) -> Self:
        if self.batch_per_replica and self.global_batch_size:
            raise ValueError(
                "batch_per_replica and global_batch_size are alternatives: set one of them"
            )
        if self.strategy in {"one", "mirrored", "tpu"} and self.workers > 1:
            raise ValueError(
                f"strategy {self.strategy!r} has one process, but workers is {self.workers};"
                " use strategy multiworker"
            )
        if self.strategy == "one" and (self.replicas or 1) > 1:
            raise ValueError(
                f"strategy 'one' has one replica, but replicas is {self.replicas}; use mirrored"
            )
        return self


class CheckpointConfig(_Part):
    """Interval and copy of checkpoints."""

    keep: int = Field(3, ge=1, le=10**6)
    every_seconds: float = Field(300.0, gt=0, le=MAX_SECONDS)
    every_steps: int | None = flag(
        None,
        "steps between two checkpoints; in addition to one every five minutes",
        "Output",
        name="checkpoint-every-steps",
        ge=1,
        le=MAX_STEP,
    )
    url: str = flag(
        "",
        "gs://, s3:// or Azure Blob URL that receives a copy of each checkpoint",
        "Output",
        name="checkpoints",
        placeholder="URL",
        is_local=True,
    )


class RunConfig(_Part):
    """The configuration of a training run: run.yaml."""

    schema_version: Literal[1] = 1
    name: str = Field("run", min_length=1)
    task: Task | Literal["join"] = Field("train", description="program of the workers")
    join: str = Field(
        "", max_length=63, description="name of the search whose trials the task join trains"
    )
    data: DataConfig = DataConfig()
    model: Preset = Preset()
    training: TrainingConfig = TrainingConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    parallel: ParallelConfig = ParallelConfig()
    grid: CoevolutionConfig | None = Field(
        None, description="cells that compete, one MPI rank each; default: one GAN is trained"
    )
    simulation: SimulationConfig = Field(
        SimulationConfig(), description="showers of the task simulate"
    )

    @model_serializer(mode="wrap")
    def _without_an_unused_section(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omits unused sections, so that the documents of other runs stay as they are."""
        found: dict[str, Any] = dump(self)
        if self.task == "train":
            found.pop("task", None)
        if self.task != "simulate":
            found.pop("simulation", None)
        if self.task != "join":
            found.pop("join", None)
        if self.parallel == ParallelConfig():
            found.pop("parallel", None)
        if self.grid is None:
            found.pop("grid", None)
        return found

    @property
    def has_ranks(self) -> bool:
        """Whether MPI ranks train the run: masters and workers, or the cells of a grid."""
        return self.parallel.has_ranks or self.grid is not None

    @property
    def trains_one(self) -> bool:
        """Whether one GAN is trained: no grid, and no other task."""
        return self.task == "train" and self.grid is None

    @property
    def ends_with_its_epochs(self) -> bool:
        """Whether a number of epochs is trained, which a forecast knows; a grid has iterations."""
        return self.grid is None and self.training.ends_with_its_epochs

    @field_validator("grid", mode="before")
    @classmethod
    def _cells_are_ranks(cls, given: Any) -> Any:
        """Fills what differs on nodes: cells are ranks."""
        return {"engine": "ranks"} | given if isinstance(given, dict) else given

    @model_validator(mode="after")
    def _grid_has_no_other_program(self) -> Self:
        if self.grid is None:
            return self
        if self.task != "train" or self.parallel.has_ranks:
            other = f"task {self.task!r}" if self.task != "train" else "parallel"
            raise ConfigError(f"grid and {other} are different programs of the nodes; omit one")
        if self.grid.engine != "ranks":
            raise ConfigError("on nodes each cell is a rank: grid.engine is ranks; omit the key")
        return self

    @model_validator(mode="after")
    def _a_search_is_named_by_the_task_join(self) -> Self:
        if (self.task == "join") != bool(self.join):
            raise ConfigError(
                f"task is {self.task!r} and join is {self.join!r}: the task join, and no other, names a search"
            )
        return self

    @model_validator(mode="after")
    def _stages_are_of_one_replica(self) -> Self:
        check_engine(self)
        training, group = self.training, self.parallel.group
        several = {
            "strategy": training.strategy not in {"auto", "one"} and training.strategy,
            "replicas": (training.replicas or 1) > 1 and training.replicas,
            "workers": training.workers > 1 and training.workers,
            "group": group > 1 and group,
        }
        for name, value in several.items():
            if self.parallel.stages and value:
                raise ConfigError(
                    f"stages {','.join(self.parallel.stages)} put one replica on several devices, but"
                    f" {name} is {value!r}; use one of both"
                )
        return self

    @model_validator(mode="after")
    def _ranks_train_with_the_custom_loop(self) -> Self:
        if not self.parallel.has_ranks:
            return self
        mode, training = self.parallel.mode, self.training
        if training.loop == "fit":
            raise ConfigError(
                f"parallel mode {mode!r} exchanges weights between steps, which loop 'fit' cannot;"
                " use loop custom"
            )
        if training.strategy in {"tpu", "multiworker"} or training.workers > 1:
            given = (
                f"workers is {training.workers}"
                if training.workers > 1
                else f"strategy is {training.strategy!r}"
            )
            raise ConfigError(
                f"parallel mode {mode!r} starts a process per GPU or CPU share and sets their"
                f" strategy, but {given}; use strategy auto, and group for synchronous processes"
            )
        return self

    @field_validator("model", mode="before")
    @classmethod
    def _fill_preset(cls, given: Any) -> Any:
        """Fills missing keys from the preset, so that a file may override single keys."""
        if not isinstance(given, dict):
            return given
        base = find_preset(str(given.get("preset", "paper"))).model_dump()
        weights = given.get("loss_weights")
        if isinstance(weights, dict):
            given = given | {"loss_weights": base["loss_weights"] | weights}
        merged = base | given
        find_profile(str(merged["networks"]))
        return merged

    def global_batch(self, replicas: int) -> int:
        """Returns the showers per step of all `replicas` together.

        Raises:
            ConfigError: The replicas do not divide the global batch.
        """
        asked = self.training.global_batch_size
        if asked is None:
            per_replica = self.training.batch_per_replica
            return (per_replica or find_profile(self.model.networks).batch) * replicas
        if asked % replicas:
            near = max(replicas, asked - asked % replicas)
            raise ConfigError(
                f"{replicas} replicas do not divide a global batch of {asked};"
                f" use --global-batch={near} or --global-batch={near + replicas}"
            )
        return asked

    def mathematics(self) -> dict[str, Any]:
        """Returns the keys that determine the results; the others may change between resumes."""
        if self.task == "join":
            return {"task": self.task, "join": self.join}
        if self.task == "simulate":
            simulation = self.simulation.model_dump(mode="json")
            return {"task": self.task, "seed": self.training.seed, "simulation": simulation}
        outside: dict[str, Any] = {
            "name": True,
            "checkpoint": True,
            "schema_version": True,
            "training": {
                *("loop", "strategy", "workers", "replicas", "threads", "epochs", "max_steps"),
                *("max_seconds", "steps_per_loop", "validation_showers", "tensorboard"),
                *("conv_impl", "validate_every", "until", "patience", "smooth", "engine"),
            },
            "data": {"cache"},
            "parallel": self.parallel.without_effect() if self.parallel.has_ranks else True,
            "grid": True,
        }
        keys = self.model_dump(mode="json", exclude=outside)
        if self.grid:
            keys["grid"] = self.grid.mathematics()
        weights = keys["model"]["loss_weights"]
        # A term of weight 0 changes no result, so a new term keeps the hash of every existing run.
        keys["model"]["loss_weights"] = {name: weight for name, weight in weights.items() if weight}
        return keys

    def config_hash(self) -> str:
        """Returns sixteen hexadecimal digits of the SHA-256 of `mathematics`."""
        text = json.dumps(self.mathematics(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def parse_config(given: Mapping[str, Any], source: str) -> RunConfig:
    """Validates a configuration; errors name `source`.

    Raises:
        ConfigError: An unknown key (with its path and the nearest one), a value out of range, or a secret.
    """
    check_texts(source, given)
    try:
        config = RunConfig.model_validate(given)
        check_booleans(given, config)
    except ValidationError as error:
        found = [_explain(one) for one in error.errors()]
        more = [f"and {len(found) - _MAX_PROBLEMS} more"] * (len(found) > _MAX_PROBLEMS)
        raise ConfigError(f"{source}: {'; '.join([*found[:_MAX_PROBLEMS], *more])}") from error
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error
    return config


def _explain(problem: Any) -> str:
    if problem["type"] == "extra_forbidden":
        path = ".".join(str(part) for part in problem["loc"])
        known = _valid_keys(problem["loc"])
        hint = nearest(str(problem["loc"][-1]), known)
        return f"unknown key {shorten(path)}.{hint} Valid: {', '.join(sorted(known))}."
    return explain(problem)


def _valid_keys(loc: tuple[Any, ...]) -> set[str]:
    model: Any = RunConfig
    for part in loc[:-1]:
        annotation = model.model_fields[part].annotation
        known = [each for each in get_args(annotation) if hasattr(each, "model_fields")]
        model = known[0] if known else annotation  # a section may be missing
    return set(model.model_fields)


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str = "") -> list[str]:
    """Returns the keys in which two dumped configurations differ, as ``path: ours, theirs``."""
    found = []
    for key in sorted({*ours, *theirs}):
        here, there = ours.get(key), theirs.get(key)
        if isinstance(here, dict) and isinstance(there, dict):
            found += differences(here, there, f"{path}{key}.")
        elif here != there:
            found.append(f"{path}{key}: {here!r}, {there!r}")
    return found
