"""What is wanted: `RunConfig`, the file run.yaml, read by the laptop and by the pod alike."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from cloudgan.core.errors import ConfigError, nearest
from cloudgan.core.presets import Preset, find_preset
from cloudgan.core.until import BY_METRIC, Until, parse_until

if TYPE_CHECKING:
    from collections.abc import Mapping

Loop = Literal["custom", "fit"]
StrategyName = Literal["auto", "one", "mirrored", "multiworker", "tpu"]
Precision = Literal["float32", "bfloat16", "mixed", "float64"]
Kernels = Literal["auto", "published", "phases", "fast"]
Tune = Literal["auto", "off"]
ScaleLr = Literal["none", "linear", "sqrt"]

DEFAULT_BATCH = {"paper": 64, "mini": 32, "fixed25": 128, "smoke": 32}
"""Showers per replica and step where the user asks for nothing."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DataConfig(_Part):
    """Which showers, and in which order."""

    path: str = Field("", description="file, glob, comma list or folder of shards")
    held_back_fraction: float = Field(
        0.1, gt=0, lt=1, description="share never trained on, for losses and validation"
    )
    cache: Literal["auto", "memory", "disk", "none"] = Field(
        "auto",
        description="prepared images in memory, in a file beside the shards, or decoded each time;"
        " auto: memory for small sets, else a file; the numbers are the same",
    )
    last_batch: Literal["carry", "drop"] = Field(
        "carry",
        description="fill the last batch of an epoch with the next epoch's first showers, or"
        " drop it as the published code does",
    )
    shards_per_group: int = Field(4, ge=1, description="shards shuffled together")


class TrainingConfig(_Part):
    """How it is trained."""

    loop: Loop = "custom"
    strategy: StrategyName = "auto"
    workers: int = Field(1, ge=1, description="processes of a multiworker run")
    replicas: int | None = Field(
        None, ge=1, description="replicas per process; default: one per GPU or TPU core, one on CPU"
    )
    threads: int | None = Field(None, ge=1, description="threads per process; default: all cores")
    epochs: int = Field(60, ge=1)
    max_steps: int | None = Field(None, ge=1)
    max_seconds: float | None = Field(None, gt=0, description="of training, not of the program")
    batch_per_replica: int | None = Field(None, ge=1)
    global_batch_size: int | None = Field(None, ge=1)
    precision: Precision = Field(
        "float32",
        description="of the networks' arithmetic. bfloat16: losses, statistics and weights stay"
        " float32; mixed: likewise, or float16 with loss scaling on GPUs without bfloat16, or float32"
        " on CPUs without it",
    )
    kernels: Kernels = Field(
        "auto",
        description="published: the layers as they were written; phases: no repeated cells; fast:"
        " generated code on a CPU, else phases; auto: what is faster here",
    )
    tune: Tune = Field(
        "auto",
        description="auto: a long run tries the ways to compute for some seconds, once per machine;"
        " off: no trying, and nothing remembered",
    )
    seed: int = Field(0, ge=0, lt=2**31)
    batch_norm: Literal["replica", "synchronized"] = Field(
        "replica", description="statistics of each replica, as published, or of the global batch"
    )
    scale_lr: ScaleLr = Field(
        "none", description="learning rate times (global batch / reference batch), or its root"
    )
    reference_batch_size: int = Field(64, ge=1)
    warmup_epochs: float = Field(5.0, ge=0, description="used where scale_lr raises the rate")
    steps_per_loop: int | None = Field(
        None,
        ge=1,
        description="steps per call of the device; default 20, on a CPU 10 for small networks, else 1",
    )
    begin_with: str = Field(
        "",
        description="folder of a run whose newest checkpoint is trained on, as with other showers or"
        " losses; its networks must be the same",
    )
    validation_showers: int = Field(1024, ge=0, description="held-back showers per test loss")
    validate_every: int = Field(
        0,
        ge=0,
        description="epochs from one look at the generator's showers to the next; the best checkpoint"
        " is kept. 0: none, or 1 where until asks for something",
    )
    until: str = Field(
        "", description="such as metric<0.15: training ends once it holds; empty: it does not"
    )
    tensorboard: bool = False

    @property
    def validates_every(self) -> int:
        """Epochs from one validation to the next; 0 is never."""
        return self.validate_every or int(bool(self.until))

    @property
    def ends_with_its_epochs(self) -> bool:
        """Whether nothing asked for ends the training before its last epoch."""
        return self.max_steps is None and self.max_seconds is None and not self.until

    @property
    def ranking(self) -> Until:
        """By which number, and in which direction, a generator is better than another."""
        return parse_until(self.until) if self.until else BY_METRIC

    @model_validator(mode="after")
    def _validates_some_epoch(self) -> Self:
        if self.until:
            parse_until(self.until)
        if self.validates_every > self.epochs:
            raise ValueError(
                f"validate_every {self.validate_every} is more than the {self.epochs} epochs, so"
                f" nothing would be validated; use at most {self.epochs}"
            )
        return self

    @model_validator(mode="after")
    def _one_batch_size(self) -> Self:
        if self.batch_per_replica and self.global_batch_size:
            raise ValueError(
                "batch_per_replica and global_batch_size are alternatives: give one of them"
            )
        if self.strategy in {"one", "mirrored", "tpu"} and self.workers > 1:
            raise ValueError(
                f"strategy {self.strategy!r} is one process, {self.workers} workers asked;"
                " use strategy multiworker"
            )
        if self.strategy == "one" and (self.replicas or 1) > 1:
            raise ValueError(f"strategy 'one' has one replica, {self.replicas} asked; use mirrored")
        return self


class CheckpointConfig(_Part):
    """When state is saved, and where it is copied to."""

    keep: int = Field(3, ge=1)
    every_seconds: float = Field(300.0, gt=0)
    every_steps: int | None = Field(None, ge=1)
    url: str = Field("", description="gs://, s3:// or Azure blob URL that gets a copy of each")


class RunConfig(_Part):
    """A training run, as asked for. Reads and writes run.yaml."""

    schema_version: Literal[1] = 1
    name: str = Field("run", min_length=1)
    data: DataConfig = DataConfig()
    model: Preset = Preset()
    training: TrainingConfig = TrainingConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()

    @field_validator("model", mode="before")
    @classmethod
    def _fill_preset(cls, given: Any) -> Any:
        """Starts from the preset's own values, so that a file may override single keys."""
        if not isinstance(given, dict):
            return given
        base = find_preset(str(given.get("preset", "paper"))).model_dump()
        weights = given.get("loss_weights")
        if isinstance(weights, dict):
            given = given | {"loss_weights": base["loss_weights"] | weights}
        return base | given

    def global_batch(self, replicas: int) -> int:
        """Returns the showers per step of all `replicas` together.

        Raises:
            ConfigError: The replicas do not divide the global batch that was asked for.
        """
        asked = self.training.global_batch_size
        if asked is None:
            per_replica = self.training.batch_per_replica
            return (per_replica or DEFAULT_BATCH[self.model.networks]) * replicas
        if asked % replicas:
            near = max(replicas, asked - asked % replicas)
            raise ConfigError(
                f"a global batch of {asked} cannot be shared by {replicas} replicas;"
                f" use --global_batch={near} or --global_batch={near + replicas}"
            )
        return asked

    def mathematics(self) -> dict[str, Any]:
        """The keys that decide which numbers come out; the others may change between resumes."""
        outside: dict[str, Any] = {
            "name": True,
            "checkpoint": True,
            "schema_version": True,
            "training": {
                *("loop", "strategy", "workers", "replicas", "threads", "epochs", "max_steps"),
                *("max_seconds", "steps_per_loop", "validation_showers", "tensorboard"),
                *("kernels", "tune", "validate_every", "until"),
            },
            "data": {"cache"},
        }
        return self.model_dump(mode="json", exclude=outside)

    def config_hash(self) -> str:
        """Sixteen hexadecimal digits of `mathematics`."""
        text = json.dumps(self.mathematics(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def parse_config(given: Mapping[str, Any], source: str) -> RunConfig:
    """Reads a configuration; `source` is named in errors.

    Raises:
        ConfigError: An unknown key (with its path and the nearest one) or a value out of range.
    """
    try:
        return RunConfig.model_validate(given)
    except ValidationError as error:
        raise ConfigError(f"{source}: " + "; ".join(map(_explain, error.errors()))) from error


def _explain(problem: Any) -> str:
    path = ".".join(str(part) for part in problem["loc"]) or "the file"
    if problem["type"] == "extra_forbidden":
        known = _keys_beside(problem["loc"])
        hint = nearest(str(problem["loc"][-1]), known)
        return f"unknown key {path}.{hint} Known there: {', '.join(sorted(known))}."
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{path}: {message} (got {problem['input']!r})" if problem["loc"] else message


def _keys_beside(loc: tuple[Any, ...]) -> set[str]:
    model: Any = RunConfig
    for part in loc[:-1]:
        model = model.model_fields[part].annotation
    return set(model.model_fields)


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str = "") -> list[str]:
    """Lists the keys in which two dumped configurations differ, as ``path: ours, theirs``."""
    found = []
    for key in sorted({*ours, *theirs}):
        here, there = ours.get(key), theirs.get(key)
        if isinstance(here, dict) and isinstance(there, dict):
            found += differences(here, there, f"{path}{key}.")
        elif here != there:
            found.append(f"{path}{key}: {here!r}, {there!r}")
    return found
