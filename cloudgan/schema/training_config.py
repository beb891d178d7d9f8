"""The `training` section of run.yaml."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from cloudgan.core.document import SparseDocument
from cloudgan.core.flags import flag
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
from cloudgan.schema.stop_criterion import (
    DEFAULT_RANKING,
    EarlyStop,
    StopCriterion,
    parse_stop_criterion,
)

EngineName = Literal["tensorflow", "jax"]
Loop = Literal["custom", "fit"]
StrategyName = Literal["auto", "one", "mirrored", "multiworker", "tpu"]
Precision = Literal["float32", "bfloat16", "mixed", "float64"]
ConvImplOption = Literal["auto", "published", "phases", "fast"]
TrackerName = Literal["none", "mlflow", "wandb", "tensorboard"]
ScaleLr = Literal["none", "linear", "sqrt"]


class TrainingConfig(SparseDocument):
    """Training options."""

    OMITTED = ("engine", "patience", "smooth")

    engine: EngineName = flag(
        "tensorflow",
        "library that computes; jax: the same training with the same checkpoints, compiled by XLA",
        "Devices",
        screen=True,
    )
    loop: Loop = flag(
        "custom", "training loop; custom, or fit (Keras); both train identically", "Devices"
    )
    strategy: StrategyName = flag(
        "auto",
        "auto: all GPUs of this machine; multiworker joins TF_CONFIG or starts workers",
        "Devices",
        is_local=True,
    )
    workers: int = flag(
        1,
        "processes on this machine; with --strategy=multiworker",
        "Devices",
        is_local=True,
        ge=1,
        le=MAX_LOCAL_PROCESSES,
    )
    replicas: int | None = flag(
        None,
        "replicas per process; one per GPU or TPU core, one on a CPU",
        "Devices",
        screen=True,
        words="one per GPU",
        ge=1,
        le=MAX_PROCESSES,
    )
    threads: int | None = Field(
        None, ge=1, le=MAX_PROCESSES, description="threads per process; default: all cores"
    )
    epochs: int = flag(60, "passes over the showers", "Length", screen=True, ge=1, le=MAX_EPOCHS)
    max_steps: int | None = flag(
        None, "stops after so many steps", "Length", screen=True, ge=1, le=MAX_STEP
    )
    max_seconds: float | None = flag(
        None,
        "stops after so much training; without start-up",
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
        "showers per step of all replicas; instead of --batch",
        "Batch",
        screen=True,
        name="global-batch",
        ge=1,
        le=MAX_BATCH,
    )
    precision: Precision = flag(
        "float32",
        "float32, bfloat16, mixed or float64; losses, statistics and weights stay float32, or float64. mixed is bfloat16, or float16"
        " with loss scaling on GPUs without it, or float32 on CPUs without it",
        "Batch",
        screen=True,
    )
    conv_impl: ConvImplOption = flag(
        "auto",
        "how convolutions are computed; published layers, phases (up-sampling without repeated cells) or fast"
        " (Fourier transforms in generated code on a CPU, else phases). The weights mean the same in all",
        "Devices",
    )
    seed: int = flag(0, "of all random numbers", "Length", ge=0, le=MAX_SEED)
    batch_norm: Literal["replica", "synchronized"] = Field(
        "replica", description="statistics of each replica, as published, or of the global batch"
    )
    scale_lr: ScaleLr = flag(
        "none",
        "raise the learning rate with the batch; times (global batch / reference batch) or its root, with warm-up",
        "Batch",
    )
    reference_batch_size: int = Field(64, ge=1, le=MAX_BATCH)
    warmup_epochs: float = Field(
        5.0, ge=0, le=MAX_EPOCHS, description="used if scale_lr raises the learning rate"
    )
    steps_per_loop: int | None = flag(
        None,
        "steps per call of the device; signals take effect between two calls; 20, on a CPU 10 for small networks, else 1",
        "Devices",
        words="by network",
        ge=1,
        le=10**6,
    )
    init_from: str = flag(
        "",
        "run whose networks it starts from; fine-tuning with other showers or losses",
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
        "epochs between validations; keeps the best checkpoint for --step=best. 0: only at the end, or 1 with --until",
        "Quality",
        screen=True,
        ge=0,
        le=MAX_EPOCHS,
    )
    until: str = flag(
        "",
        'stops at a limit, such as "metric<0.15"; metrics: metric, response, profile_z, hits, angle, separation.'
        " An empty value (--until=) removes the criterion",
        "Length",
        screen=True,
        can_be_empty=True,
        placeholder="LIMIT",
    )
    patience: int | None = flag(
        None,
        "stops after N validations without progress; of the metric of --until, or metric",
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
    track: TrackerName = flag(
        "none",
        "experiment tracker that also gets losses, metrics and the end of the run",
        "Output",
    )

    @property
    def tracker_package(self) -> str | None:
        """The package, and extra, that sends the run to a server; None: no server."""
        return self.track if self.track in {"mlflow", "wandb"} else None

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
