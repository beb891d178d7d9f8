"""Run registry: the desired state of each run, kept in its store before any resource exists.

Each change is a new numbered object, created only if absent, so two launchers cannot both own a run.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Literal

from pydantic import AwareDatetime, Field

from cloudgan.core.clock import utc_moment
from cloudgan.core.document import Document
from cloudgan.core.documents import parse_model
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.launch.backends.run_document import ForeignDocumentError, RunSource
from cloudgan.schema.plan import Plan, Target
from cloudgan.schema.price_row import Text
from cloudgan.schema.run_state import Phase
from cloudgan.storage.store import BucketMissingError, ObjectExistsError, Store

RunStateName = Literal[
    "starting", "started", "stopped", "finished", "failed", "removing", "removed"
]
PHASES: dict[RunStateName, Phase] = {
    "starting": "absent",
    "started": "absent",
    "stopped": "stopped",
    "finished": "finished",
    "failed": "failed",
    "removing": "absent",
    "removed": "absent",
}
"""Phase of a run without a job, by its desired state."""
_LEASE = dt.timedelta(minutes=10)
_FOLDER = "desired-state"
_NAME = re.compile(r"\d{6}\.json")


class DesiredState(Document):
    """One desired state of a run."""

    schema_version: Literal[1] = 1
    number: int = Field(ge=1)
    state: RunStateName
    plan: Plan
    lease_owner: Text = Field(description="user and process that changes the run")
    created_at: AwareDatetime
    lease_until: AwareDatetime | None = Field(
        default=None, description="end of the lease; None: no lease"
    )

    @property
    def is_open(self) -> bool:
        """Whether resources of the run may exist, not only its folder in the store."""
        return self.state != "removed"

    @property
    def uses_nodes(self) -> bool:
        """Whether the run uses its nodes and its cluster, or is about to."""
        return self.state in ("starting", "started")


@dataclass(frozen=True)
class RunRegistry:
    """The desired states of all runs of one store.

    Attributes:
        account: Target in the account of the runs, whose store this is; None: the account is unknown.
    """

    store: Store
    lease_owner: str
    account: Target | None = None

    def read(self, run: str) -> DesiredState | None:
        """Returns the newest desired state of a run; None if there is none.

        Raises:
            ForeignDocumentError: It names another run, store or account.
        """
        names = self._states(run)
        return self._one(run, names[-1]) if names else None

    def history(self, run: str) -> tuple[DesiredState, ...]:
        """Returns all desired states of a run, oldest first."""
        return tuple(self._one(run, name) for name in self._states(run))

    def write(
        self,
        plan: Plan,
        state: RunStateName,
        *,
        leased: bool = False,
        force: bool = False,
        after: DesiredState | None = None,
    ) -> DesiredState:
        """Adds a state.

        Args:
            leased: Whether to hold a lease on the run for 10 minutes.
            force: Whether to ignore the lease of another launcher, as for a deletion.
            after: The newest state as this launcher knows it; None: any.

        Raises:
            ConfigError: Another launcher holds the lease, or has added a state meanwhile.
        """
        before = after or self.read(plan.run)
        now = utc_moment()
        if not force:
            self._refuse_held(before, now)
        after = DesiredState(
            number=before.number + 1 if before else 1,
            state=state,
            plan=plan,
            lease_owner=self.lease_owner,
            created_at=now,
            lease_until=now + _LEASE if leased else None,
        )
        name = f"runs/{plan.run}/{_FOLDER}/{after.number:06d}.json"
        try:
            self.store.put(name, after.model_dump_json().encode(), if_absent=True)
        except ObjectExistsError as error:
            raise ConfigError(
                f"another launcher changes run {plan.run}; check `cloudgan status {plan.run}` and"
                " try again"
            ) from error
        return after

    def list_runs(self) -> tuple[str, ...]:
        """Returns the names of all runs ever registered in this store."""
        names = [name.split("/") for name in self._names("runs/")]
        return tuple(sorted({parts[1] for parts in names if parts[2:3] == [_FOLDER]}))

    def _one(self, run: str, name: str) -> DesiredState:
        place, account = f"{self.store.url}/{name}", self.account
        try:
            found = parse_model(self.store.read(name), DesiredState, place)
        except DataError as error:
            raise ConfigError(
                f"run {run} in {self.store.url} was started by another version of cloudgan; use that"
                " version, or run `cloudgan doctor` to find its resources"
            ) from error
        if found.number != int(name.rpartition("/")[2].partition(".")[0]):
            raise ForeignDocumentError(f"{place}: is the desired state number {found.number}")
        if account is None:
            RunSource(place, run).checked_plan(found.plan)
        else:
            RunSource(place, run, self.store.url, account.provider, account.account).checked_plan(
                found.plan
            )
        return found

    def _states(self, run: str) -> tuple[str, ...]:
        """The objects of a run's desired states; a cloud's console may have made others."""
        found = self._names(f"runs/{run}/{_FOLDER}/")
        return tuple(name for name in found if _NAME.fullmatch(name.rpartition("/")[2]))

    def _names(self, prefix: str) -> tuple[str, ...]:
        try:
            return self.store.list(prefix)
        except BucketMissingError:
            return ()  # created by the first run

    def _refuse_held(self, before: DesiredState | None, now: dt.datetime) -> None:
        if before is None or before.lease_until is None or before.lease_owner == self.lease_owner:
            return
        if before.lease_until > now:
            minutes = (before.lease_until - now).total_seconds() / 60
            raise ConfigError(
                f"run {before.plan.run} ({before.state}) is leased by {before.lease_owner} for at most"
                f" {minutes:.0f} min more; try again then"
            )
