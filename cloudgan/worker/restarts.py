"""How often a run began again without a newer checkpoint: `restarts.json` in its store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cloudgan.core.errors import NoProgress
from cloudgan.stores import ObjectMissingError

if TYPE_CHECKING:
    from cloudgan.stores import Store

FILE_NAME = "restarts.json"


class Count(BaseModel):
    """The newest checkpoint when the workers last began, and how often they began from it again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    checkpoint_step: int | None = Field(description="None: there was none")
    restarts: int = Field(ge=0)


class Restarts:
    """Counts; only the chief does."""

    def __init__(self, store: Store, most: int) -> None:
        """Keeps the count in `store`, the run's own; gives up after `most`."""
        self._store, self._most = store, most

    def begin(self, newest_step: int | None) -> int:
        """Notes that the workers begin, and returns how often they did so from here before.

        Raises:
            NoProgress: Too often. The count then begins anew, for whoever starts the run again.
        """
        before = self._read()
        same = before is not None and before.checkpoint_step == newest_step
        restarts = before.restarts + 1 if before and same else 0
        if restarts > self._most:
            self.reset()
            where = (
                "no checkpoint" if newest_step is None else f"the checkpoint of step {newest_step}"
            )
            raise NoProgress(
                f"began {self._most} times again from {where} and never came to a newer one; the"
                " log says why each of them ended. If the trainer was killed for memory, take a"
                " smaller --batch or a larger node; if nodes are lost sooner than a checkpoint is"
                " due, lower checkpoint.every_seconds"
            )
        self._write(Count(checkpoint_step=newest_step, restarts=restarts))
        return restarts

    def reset(self) -> None:
        """Forgets."""
        self._store.delete(FILE_NAME)

    def _read(self) -> Count | None:
        try:
            return Count.model_validate_json(self._store.read(FILE_NAME))
        except (ObjectMissingError, ValidationError):
            return None

    def _write(self, count: Count) -> None:
        self._store.put(FILE_NAME, count.model_dump_json().encode())
