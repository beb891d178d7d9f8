"""Documents that the coordinator of a search and its blocks in pods exchange through a store.

Each document has one writer. Below ``searches/NAME/`` of the store: the coordinator writes
``coordinator.json``, ``states.json`` and ``blocks/ID/assignment.json``, a block ``blocks/ID/status.json``
and, of the trial that it trains, ``trials/0007/`` with the files of an ordinary run; of a trial with
folds ``trials/0007/folds/2/``.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.schema.config import RunConfig

COORDINATOR: Final = "coordinator.json"
STATES: Final = "states.json"
BLOCKS: Final = "blocks"
STATUS: Final = "status.json"
ASSIGNMENT: Final = "assignment.json"

BEAT_SECONDS: Final = 5.0
"""How often coordinator and blocks show that they are alive."""
LEASE_SECONDS: Final = 60.0
"""A block without a beat for this long is lost. A block that cannot write one for half of it stops."""

Number = Annotated[int, Field(ge=0, le=10**9)]
_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def search_prefix(name: str) -> str:
    """Returns the folder of a search in its store."""
    return f"searches/{name}"


class TrialRun(NamedTuple):
    """A run of a trial: what a block trains at one time.

    Attributes:
        trial: Number of the trial.
        fold: Number of the fold; None: the trial has no folds, and this is its only run.
    """

    trial: int
    fold: int | None = None

    @property
    def path(self) -> str:
        """Its folder below that of the search, on this machine and in the store."""
        folder = f"trials/{self.trial:04d}"
        return folder if self.fold is None else f"{folder}/folds/{self.fold}"

    @property
    def name(self) -> str:
        """Name of the run in its run.yaml."""
        name = f"{self.trial:04d}"
        return name if self.fold is None else f"{name}-fold-{self.fold}"


class Assignment(Document):
    """The run of a trial that a block trains."""

    number: int = Field(ge=1, description="of this block's assignments")
    trial: Number
    fold: Number | None = Field(None, description="of the trial; None: the trial has no folds")
    config: RunConfig = Field(
        description="run.yaml of the trial, with the path of the data in the store"
    )
    stop: bool = Field(False, description="the block saves a checkpoint and stops")
    lost: bool = Field(False, description="the block was taken for lost and uploads nothing more")

    @property
    def run(self) -> TrialRun:
        """The run that is trained."""
        return TrialRun(self.trial, self.fold)


class Spell(Document):
    """Time that a block spent with a trial, or with one of its folds."""

    trial: Number
    seconds: _Seconds


class BlockStatus(Document):
    """What a block does."""

    deployment: str = Field(description="name of its run")
    worker: Number = Field(description="its number in the deployment")
    incarnation: str = Field(
        description="begins with the time of its start, so that later ones sort behind"
    )
    beat: Number = Field(description="grows while the block is alive")
    seconds: _Seconds = Field(description="since its start")
    assignment: Number = Field(0, description="the newest one that it took; 0: none")
    code: int | None = Field(
        None, description="exit code of its training; None: it trains, or had none"
    )
    tail: tuple[str, ...] = Field((), description="last lines of the log of a training that ended")
    record_bytes: Number = Field(0, description="size of the trial's record in the store")
    left: bool = Field(False, description="the block has ended")
    spells: tuple[Spell, ...] = Field((), description="of the trainings that ended")
    trial: Number | None = Field(None, description="the trial that it trains; None: it waits")
    trial_since: _Seconds = Field(0.0, description="`seconds` when that training began")


class CoordinatorStatus(Document):
    """Whether a coordinator is alive."""

    study: str = Field(description="identity of the search")
    incarnation: str
    beat: Number
    phase: Literal["running", "paused", "finished"]


class TrialStates(Document):
    """States of all trials, for the cost of a deployment."""

    states: dict[Number, Literal["complete", "pruned", "failed", "running"]]
    best: Number | None = Field(
        None, description="trial with the best objective; None: none is complete"
    )
