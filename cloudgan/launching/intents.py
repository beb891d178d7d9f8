"""What is meant to be with runs that rent machines: kept in their store, from before the first one.

A state is never overwritten: each change is an object with the next number, created only if nobody
else created it. So two launchers cannot both believe that they own a run, on any store.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import ConfigError
from cloudgan.core.plan import Plan
from cloudgan.core.price_row import Text
from cloudgan.stores import BucketMissingError, ObjectExistsError

if TYPE_CHECKING:
    from cloudgan.stores import Store

IntentState = Literal["starting", "started", "stopped", "finished", "failed", "removing", "removed"]
CLOSED: frozenset[IntentState] = frozenset({"removed"})
"""Nothing of the run is meant to exist beside its folder in the store."""

_LEASE = dt.timedelta(minutes=10)
_FOLDER = "intent"


class Intent(BaseModel):
    """One state of a run that somebody means it to have."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    number: int = Field(ge=1)
    state: IntentState
    plan: Plan
    holder: Text = Field(description="who acts on it, such as a user and a process")
    at: AwareDatetime
    lease_until: AwareDatetime | None = Field(
        default=None, description="until when nobody else should act; None: anybody may"
    )

    @property
    def is_open(self) -> bool:
        """Whether something of the run may exist."""
        return self.state not in CLOSED


@dataclass(frozen=True)
class Intents:
    """The intents of all runs of one store.

    Attributes:
        store: Of the runs.
        holder: Who writes.
    """

    store: Store
    holder: str

    def read(self, run: str) -> Intent | None:
        """Returns the newest intent of a run; None where none was ever written.

        Raises:
            ConfigError: Another version of cloudgan wrote it.
        """
        names = self._names(f"runs/{run}/{_FOLDER}/")
        return self._one(run, names[-1]) if names else None

    def history(self, run: str) -> tuple[Intent, ...]:
        """Returns all intents of a run, oldest first.

        Raises:
            ConfigError: Another version of cloudgan wrote one.
        """
        return tuple(self._one(run, name) for name in self._names(f"runs/{run}/{_FOLDER}/"))

    def write(
        self, plan: Plan, state: IntentState, *, leased: bool = False, force: bool = False
    ) -> Intent:
        """Adds a state.

        Args:
            plan: What is meant.
            state: That it is in from now on.
            leased: Whether nobody else should act on the run for some minutes.
            force: Whether somebody else's lease does not count, as for a removal.

        Raises:
            ConfigError: Somebody else acts on this run just now.
        """
        before = self.read(plan.run)
        now = utc_moment()
        if not force:
            self._refuse_held(before, now)
        after = Intent(
            number=before.number + 1 if before else 1,
            state=state,
            plan=plan,
            holder=self.holder,
            at=now,
            lease_until=now + _LEASE if leased else None,
        )
        name = f"runs/{plan.run}/{_FOLDER}/{after.number:06d}.json"
        try:
            self.store.put(name, after.model_dump_json().encode(), if_absent=True)
        except ObjectExistsError as error:
            raise ConfigError(
                f"somebody else acts on run {plan.run} at this very moment; look with `cloudgan"
                f" status {plan.run}` and try again"
            ) from error
        return after

    def runs(self) -> tuple[str, ...]:
        """Returns the names of all runs that ever were in this store."""
        names = [name.split("/") for name in self._names("runs/")]
        return tuple(sorted({parts[1] for parts in names if parts[2:3] == [_FOLDER]}))

    def _one(self, run: str, name: str) -> Intent:
        try:
            return Intent.model_validate_json(self.store.read(name))
        except ValidationError as error:
            raise ConfigError(
                f"run {run} in {self.store.url} was started by another version of cloudgan; use"
                " that one, or look with `cloudgan doctor` for what it left"
            ) from error

    def _names(self, prefix: str) -> tuple[str, ...]:
        try:
            return self.store.list(prefix)
        except BucketMissingError:
            return ()  # made by the first run

    def _refuse_held(self, before: Intent | None, now: dt.datetime) -> None:
        if before is None or before.lease_until is None or before.holder == self.holder:
            return
        if before.lease_until > now:
            minutes = (before.lease_until - now).total_seconds() / 60
            raise ConfigError(
                f"run {before.plan.run} is being {before.state} by {before.holder}; its lease ends"
                f" in {minutes:.0f} min, unless it is done before"
            )
