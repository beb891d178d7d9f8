"""The `parallel` section of run.yaml: how several ranks train one GAN."""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from cloudgan.core.document import FiniteDocument
from cloudgan.core.flags import flag
from cloudgan.core.ranges import MAX_PROCESSES

UpdateRule = Literal["downpour", "easgd", "gem"]
ParallelMode = Literal["none", UpdateRule]
Damping = Literal["staleness", "mean", "none"]
MasterOptimizer = Literal["sgd", "adam", "rmsprop", "adadelta"]
Sent = Literal["weights", "gradients"]


class ParallelConfig(FiniteDocument):
    """Ranks that train one GAN: asynchronous masters and workers, and stages on several devices."""

    mode: ParallelMode = flag(
        "none",
        "asynchronous masters and workers; each a rank of MPI; update rule: downpour"
        " (NeurIPS 2012), easgd (arXiv:1412.6651), gem (arXiv:1805.08469); none: no masters",
        "Ranks",
        name="parallel",
    )
    ranks: int | None = flag(
        None,
        "masters and workers together; in `plan` one worker rank per accelerator, or per node without one",
        "Ranks",
        words="all of mpiexec or srun",
        ge=1,
        le=MAX_PROCESSES,
    )
    group: int = flag(
        1, "ranks of one worker; they train one batch together", "Ranks", ge=1, le=MAX_PROCESSES
    )
    masters: int = flag(
        1,
        "masters that serve the workers; with several, rank 0 is above them",
        "Ranks",
        ge=1,
        le=MAX_PROCESSES,
    )
    sync_every: int = flag(
        1, "steps of a worker between exchanges; with its master", "Ranks", ge=1, le=10**6
    )
    master_sync_every: int = flag(
        8,
        "updates of a master between exchanges; with rank 0 above it",
        "Ranks",
        ge=1,
        le=10**6,
    )
    elastic_force: float = flag(
        0.9,
        "force of easgd; divided by the workers of a master; above 0 and below their number",
        "Ranks",
        ge=0,
        le=MAX_PROCESSES,
    )
    sends: Sent = Field(
        "weights", description="of downpour: differences of weights, or summed gradients"
    )
    damping: Damping = flag(
        "staleness",
        "weight of a late update in downpour; 1/staleness, 1/workers (mean) or 1 (none)",
        "Ranks",
    )
    synchronous: bool = flag(
        False,
        "wait for all workers, in downpour; the master applies the mean of one update per worker",
        "Ranks",
    )
    master_optimizer: MasterOptimizer = flag("sgd", "of the master in downpour", "Ranks")
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
    stages: tuple[str, ...] = flag(
        (),
        "cut the networks over devices; layers from which on a network is on the next one, such as conv3 or conv2,conv4",
        "Devices",
    )
    trace: bool = flag(
        False,
        "what all ranks did when; trace.json in the run's folder, for https://ui.perfetto.dev",
        "Ranks",
    )

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
            if not self.is_default(name) and self.mode not in modes:
                raise ValueError(
                    f"{name} is an option of mode {' or '.join(modes)}, but mode is {self.mode!r};"
                    f" give --parallel={modes[0]}, or omit {name}"
                )
        if self.masters == 1 and not self.is_default("master_sync_every"):
            raise ValueError(
                f"master_sync_every is {self.master_sync_every}, but one master exchanges with no other; give"
                " --masters=2 or more, or omit it"
            )
        return self


_OPTIONS = {
    **dict.fromkeys(
        ("ranks", "group", "masters", "sync_every", "master_sync_every", "trace"),
        get_args(UpdateRule),
    ),
    "elastic_force": ("easgd",),
    **dict.fromkeys(
        ("sends", "damping", "synchronous", "master_optimizer", "master_learning_rate"),
        ("downpour",),
    ),
    **dict.fromkeys(("momentum", "kappa"), ("gem",)),
}
"""Keys that only some modes read."""
