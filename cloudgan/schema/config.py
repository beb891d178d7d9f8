"""`RunConfig`, the schema of run.yaml: the same file configures the laptop and the pod."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from cloudgan.core.document import FiniteDocument, SparseDocument
from cloudgan.core.documents import check_booleans, explain
from cloudgan.core.errors import ConfigError, nearest, shorten
from cloudgan.core.flags import argument, flag
from cloudgan.core.ranges import (
    MAX_SECONDS,
    MAX_STEP,
)
from cloudgan.core.user_text import check_texts
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.schema.parallel import ParallelConfig
from cloudgan.schema.presets import Preset, find_preset, find_profile
from cloudgan.schema.simulation import BINNING, UNIT, EcalUnit, SimulationConfig, Task
from cloudgan.schema.training_config import TrainingConfig

_MAX_PROBLEMS = 8


class DataConfig(SparseDocument):
    """The training showers and their order."""

    OMITTED = ("unit", "binning", "fold")

    path: str = argument(
        "showers: HDF5, TFRecord, or a store, in a folder or bucket; files as path, glob or comma list; a store is what `cloudgan convert` writes",
        "",
        topic="Data",
        name="data",
    )
    unit: EcalUnit | None = UNIT
    binning: str | None = BINNING
    held_out_fraction: float = flag(
        0.1,
        "share of the showers for validation; and for losses; a verdict needs some hundreds",
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
    last_batch: Literal["carry", "drop"] = Field(
        "carry",
        description="fill the last batch of an epoch with the next epoch's first showers, or"
        " drop it as the published code does",
    )
    blocks_per_group: int = Field(
        4, ge=1, le=10**6, description="blocks of 1024 showers that are shuffled together"
    )

    @model_validator(mode="after")
    def _fold_exists(self) -> Self:
        folds = max(2, round(1 / self.held_out_fraction))
        if self.fold is not None and self.fold >= folds:
            raise ValueError(
                f"fold is {self.fold}, but held_out_fraction {self.held_out_fraction:g} makes {folds}"
                " folds, numbered from 0"
            )
        return self


class CheckpointConfig(FiniteDocument):
    """Interval and copy of checkpoints."""

    keep: int = Field(3, ge=1, le=10**6)
    every_seconds: float = Field(300.0, gt=0, le=MAX_SECONDS)
    every_steps: int | None = flag(
        None,
        "steps between checkpoints; in addition to one every five minutes",
        "Output",
        name="checkpoint-every-steps",
        ge=1,
        le=MAX_STEP,
    )
    url: str = flag(
        "",
        "bucket for a copy of each checkpoint; gs://, s3:// or an Azure Blob URL",
        "Output",
        name="checkpoints",
        placeholder="URL",
        is_local=True,
    )


class RunConfig(SparseDocument):
    """The configuration of a training run: run.yaml."""

    OMITTED = ("task", "join", "parallel", "grid")

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
    def _without_unused_keys(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found = super()._without_unused_keys(dump)
        if self.task != "simulate":
            found.pop("simulation", None)
        return found

    @property
    def job(self) -> str:
        """Kind of the job: train, evolve (a grid), simulate or join."""
        return "evolve" if self.grid else self.task

    @property
    def works_together(self) -> bool:
        """Whether the workers exchange data; those of a simulation or a search do not."""
        return self.task == "train"

    @property
    def uses_jax(self) -> bool:
        """Whether JAX trains the networks of the run, or those of the trials that it joins."""
        return (self.trains_one or self.task == "join") and self.training.engine == "jax"

    @property
    def has_ranks(self) -> bool:
        """Whether MPI ranks train the run: masters and workers, or the cells of a grid."""
        return self.parallel.has_ranks or self.grid is not None

    @property
    def trains_one(self) -> bool:
        """Whether one GAN is trained: no grid, and no other task."""
        return self.works_together and self.grid is None

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
    def _jax_supports_it(self) -> Self:
        training, parallel = self.training, self.parallel
        if training.engine != "jax" or self.task == "simulate":
            return self
        missing = {
            "a grid of cells": self.grid is not None,
            f"--parallel={parallel.mode}": parallel.has_ranks,
            f"--stages={','.join(parallel.stages)}": bool(parallel.stages),
            "--loop=fit": training.loop == "fit",
            "--precision=float64": training.precision == "float64",
            "--strategy=tpu": training.strategy == "tpu",
        }
        if found := [name for name, is_given in missing.items() if is_given]:
            raise ConfigError(
                f"--engine=jax does not support {' and '.join(found)}; omit it, or use"
                " --engine=tensorflow"
            )
        return self

    @model_validator(mode="after")
    def _stages_are_of_one_replica(self) -> Self:
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
        """Returns the showers per step of all `replicas` together."""
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
                *("max_seconds", "steps_per_loop", "validation_showers", "track"),
                *("conv_impl", "validate_every", "until", "patience", "smooth", "engine"),
            },
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
