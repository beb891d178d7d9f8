"""What the processes of a search share beside its journal: names of runs, and the status of each block in a pod.

Below ``searches/NAME/`` of a store are ``search.json``, the objects of the journal, ``blocks/ID/status.json``, which
the block ID writes, and of each trial ``trials/0007/`` with the files of an ordinary run, of a trial with folds
``trials/0007/folds/2/``.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from pydantic import Field

from cloudgan.core.document import Document

BLOCKS: Final = "blocks"
STATUS: Final = "status.json"

BEAT_SECONDS: Final = 5.0
"""How often a block in a pod shows that it is alive."""
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
    left: bool = Field(False, description="the block has ended")
    spells: tuple[Spell, ...] = Field((), description="of the trainings that ended")
    trial: Number | None = Field(None, description="the trial that it trains; None: it waits")
    trial_since: _Seconds = Field(0.0, description="`seconds` when that training began")
