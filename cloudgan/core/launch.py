"""What was started for a run, where and when: `launch.json`, one attempt after the other.

Times are the provider's own, from one clock; what no provider said is None, which is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, model_validator

from cloudgan.core.json_file import read_json, write_json
from cloudgan.core.price_row import Market, PriceRow, Text

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAME = "launch.json"
LOCAL = "local"
UNBILLED = frozenset({LOCAL, "kubernetes", "slurm"})
"""Machines that somebody has already; `deploy --as=OFFER` says what they are rented as."""
THIS_MACHINE = "this machine"


class SentRequest(BaseModel):
    """A request as it was sent, without its credentials."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sent: AwareDatetime
    operation: Text = Field(description="such as POST https://... or CreateNodegroup")
    body: JsonValue = None


class Node(BaseModel):
    """A rented machine, from when the provider says it was up until it was gone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Text
    up: AwareDatetime | None = None
    seen: AwareDatetime | None = Field(
        default=None, description="last look at which it was there; noted about once a minute"
    )
    down: AwareDatetime | None = Field(default=None, description="first look at which it was gone")

    @model_validator(mode="after")
    def _is_up_before_down(self) -> Self:
        if self.up and self.down and self.down < self.up:
            raise ValueError(f"node {self.name} was gone at {self.down}, before it was up")
        if self.down and not self.up:
            raise ValueError(f"node {self.name} was gone at {self.down}, but never up")
        return self

    def seconds(self) -> float | None:
        """How long it was up; None while it is, or where that is unknown."""
        return (self.down - self.up).total_seconds() if self.up and self.down else None

    def unseen_seconds(self) -> float:
        """For how long before it was gone nobody looked: as much of its time may be too much."""
        return (self.down - self.seen).total_seconds() if self.seen and self.down else 0.0


class Cluster(BaseModel):
    """What runs around the nodes of an attempt and is paid for as well; None is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Text
    control_plane: Text | None = Field(default=None, description="as sold, such as GKE standard")
    system_node: Text | None = Field(
        default=None, description="type of its nodes that do not train"
    )
    system_nodes: int | None = Field(default=None, ge=0)
    up: AwareDatetime | None = None
    down: AwareDatetime | None = None
    own_run_seconds: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="that this run used it"
    )
    all_runs_seconds: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="that all runs used it, added up"
    )

    @model_validator(mode="after")
    def _is_up_before_down(self) -> Self:
        if self.up and self.down and self.down < self.up:
            raise ValueError(f"cluster {self.name} was gone at {self.down}, before it was up")
        if (self.own_run_seconds or 0) > (self.all_runs_seconds or float("inf")):
            raise ValueError(f"cluster {self.name}: one run used it longer than all runs together")
        return self

    def share_seconds(self) -> float | None:
        """This run's share of its time: split between runs by how long each used it."""
        if None in (self.up, self.down, self.own_run_seconds, self.all_runs_seconds):
            return None
        if not (self.up and self.down and self.all_runs_seconds):
            return None
        share = (self.own_run_seconds or 0.0) / self.all_runs_seconds
        return (self.down - self.up).total_seconds() * share


class Attempt(BaseModel):
    """One try to run: on machines of one kind, in one place, of one market."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: Text
    account: str | None = Field(default=None, description="account, project or subscription")
    region: str | None = None
    node_type: Text
    market: Market | None = Field(default=None, description="None: not rented")
    node_count: int | None = Field(default=None, ge=1, description="None: as many as nodes")
    nodes: tuple[Node, ...] = ()
    price_rows: tuple[PriceRow, ...] = Field(default=(), description="those it was chosen by")
    requests: tuple[SentRequest, ...] = ()
    ended: str | None = Field(default=None, description="why; None while it runs")
    program_up: AwareDatetime | None = Field(
        default=None, description="when the provider or its cluster says the program began"
    )
    program_down: AwareDatetime | None = Field(
        default=None, description="when the provider or its cluster says the program ended"
    )
    cluster: Cluster | None = Field(default=None, description="None: unknown")
    stored_gib_months: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    uploaded_gib: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="of showers, which costs nothing"
    )
    egress_gib: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="that left the cloud to the internet"
    )

    @model_validator(mode="after")
    def _knows_what_it_rents(self) -> Self:
        if self.is_rented and (self.region is None or self.market is None):
            raise ValueError(f"an attempt on {self.provider} needs a region and a market")
        names = [node.name for node in self.nodes]
        if len(set(names)) < len(names):
            raise ValueError("two nodes of one attempt have one name")
        if self.program_up and self.program_down and self.program_down < self.program_up:
            raise ValueError(f"the program ended at {self.program_down}, before it began")
        return self

    @property
    def is_rented(self) -> bool:
        """Whether somebody bills it."""
        return self.provider not in UNBILLED

    def billed_seconds(self) -> float | None:
        """From the first node up to the last one gone; None while or where it is unknown."""
        ups = [node.up for node in self.nodes if node.up]
        downs = [node.down for node in self.nodes if node.down]
        if not self.nodes or len(downs) < len(self.nodes):
            return None
        return (max(downs) - min(ups)).total_seconds()

    def node_seconds(self) -> float | None:
        """Sum over the nodes of the time each was up, which is what is paid for."""
        seconds = [node.seconds() for node in self.nodes]
        known = [each for each in seconds if each is not None]
        return sum(known) if known and len(known) == len(seconds) else None


class Launch(BaseModel):
    """All attempts at one run, oldest first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    run: Text
    config_hash: str
    attempts: tuple[Attempt, ...] = ()

    def with_attempt(self, attempt: Attempt) -> Launch:
        """Returns this launch and one attempt more."""
        return self.model_copy(update={"attempts": (*self.attempts, attempt)})

    def billed_seconds(self) -> float | None:
        """Sum over the attempts; None where one is unknown, as every local one is."""
        seconds = [attempt.billed_seconds() for attempt in self.attempts]
        known = [each for each in seconds if each is not None]
        return sum(known) if known and len(known) == len(seconds) else None


def local_attempt(hardware: str) -> Attempt:
    """Returns the attempt of a run on this machine: nobody bills it, so no time is billed.

    Args:
        hardware: What the machine is, as `Hardware.describe` says it.
    """
    return Attempt(provider=LOCAL, node_type=f"{THIS_MACHINE}: {hardware}")


def read(path: Path) -> Launch:
    """Reads launch.json.

    Raises:
        DataError: It is missing or holds something else.
    """
    return read_json(path, Launch)


def write(path: Path, launch: Launch) -> None:
    """Writes launch.json, whole or not at all.

    Raises:
        DataError: It cannot be written; the old one is as it was.
    """
    write_json(path, launch)
