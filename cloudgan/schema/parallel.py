"""The `parallel` section of run.yaml: how several ranks train one GAN."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from cloudgan.core.ranges import MAX_PROCESSES

ParallelMode = Literal["none", "downpour", "easgd", "gem"]
Damping = Literal["staleness", "mean", "none"]
MasterOptimizer = Literal["sgd", "adam", "rmsprop", "adadelta"]
Sent = Literal["weights", "gradients"]


class ParallelConfig(BaseModel):
    """Ranks that train one GAN: asynchronous masters and workers, and stages on several devices."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mode: ParallelMode = Field(
        "none",
        description="update rule between masters and workers: downpour (NeurIPS 2012), easgd"
        " (arXiv:1412.6651), gem (arXiv:1805.08469); none: no masters",
    )
    ranks: int | None = Field(
        None,
        ge=1,
        le=MAX_PROCESSES,
        description="masters and workers together; default: all ranks of the existing MPI world",
    )
    group: int = Field(
        1, ge=1, le=MAX_PROCESSES, description="ranks of a worker, which train one batch together"
    )
    masters: int = Field(
        1,
        ge=1,
        le=MAX_PROCESSES,
        description="masters that serve workers; above 1, one more rank, 0, is above them",
    )
    sync_every: int = Field(1, ge=1, le=10**6, description="steps of a worker between exchanges")
    master_sync_every: int = Field(
        8, ge=1, le=10**6, description="updates of a master between its exchanges with rank 0"
    )
    elastic_force: float = Field(
        0.9,
        ge=0,
        le=MAX_PROCESSES,
        description="of easgd, divided by the workers; above 0 and below the number of workers",
    )
    sends: Sent = Field(
        "weights", description="of downpour: differences of weights, or summed gradients"
    )
    damping: Damping = Field(
        "staleness",
        description="of downpour: an update counts 1/staleness, 1/workers (mean) or fully (none)",
    )
    synchronous: bool = Field(
        False, description="of downpour: the master applies the mean of one update of each worker"
    )
    master_optimizer: MasterOptimizer = Field("sgd", description="of downpour")
    master_learning_rate: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="of downpour; default: 1 for sgd of weights, else that of the model",
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="of gem")
    kappa: float = Field(
        2.0,
        gt=0,
        le=1e6,
        description="of gem: energy of all workers over that of one with momentum",
    )
    stages: tuple[str, ...] = Field(
        (), description="layers from which on a network is on the next device, such as conv3"
    )

    trace: bool = Field(False, description="write trace.json: what all ranks did when")

    @field_validator("stages", mode="before")
    @classmethod
    def _split(cls, given: Any) -> Any:
        """Accepts a comma list, as on the command line."""
        if isinstance(given, str):
            return tuple(name.strip() for name in given.split(",") if name.strip())
        return given

    @property
    def has_ranks(self) -> bool:
        """Whether masters and workers exchange weights."""
        return self.mode != "none"

    def without_effect(self) -> set[str]:
        """Returns the keys that change no result of this run with ranks."""
        found = {"stages", "trace"}
        return found if self.masters > 1 else found | {"master_sync_every"}

    @model_validator(mode="after")
    def _options_of_the_mode(self) -> Self:
        for name, modes in _OPTIONS.items():
            given = getattr(self, name) != type(self).model_fields[name].default
            if given and self.mode not in modes:
                raise ValueError(
                    f"{name} is an option of mode {' or '.join(modes)}, but mode is {self.mode!r};"
                    f" give --parallel={modes[0]}, or omit {name}"
                )
        every = self.master_sync_every
        if self.masters == 1 and every != type(self).model_fields["master_sync_every"].default:
            raise ValueError(
                f"master_sync_every is {every}, but one master exchanges with no other; give"
                " --masters=2 or more, or omit it"
            )
        return self


_EVERY_MODE = ("downpour", "easgd", "gem")
_OPTIONS = {
    **dict.fromkeys(("ranks", "group", "masters", "sync_every"), _EVERY_MODE),
    **dict.fromkeys(("master_sync_every", "trace"), _EVERY_MODE),
    "elastic_force": ("easgd",),
    **dict.fromkeys(
        ("sends", "damping", "synchronous", "master_optimizer", "master_learning_rate"),
        ("downpour",),
    ),
    **dict.fromkeys(("momentum", "kappa"), ("gem",)),
}
"""Keys that only some modes read."""
