"""What was started for a run, where and when: `launch.json`, a list of attempts.

Times come from the clock of the provider; None: unknown.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Literal, Self

from pydantic import AwareDatetime, Field, JsonValue, model_validator

from cloudgan.core.document import Document
from cloudgan.core.documents import read_json, write_json
from cloudgan.core.ranges import MAX_PROCESSES, MAX_STEP
from cloudgan.schema.price_row import DataMove, Market, PoolFee, PriceRow, Text

FILE_NAME = "launch.json"
LOCAL = "local"
UNBILLED = frozenset({LOCAL, "kubernetes", "slurm"})
"""Providers with existing machines; `deploy --price-as=OFFER` gives them a price."""
THIS_MACHINE = "this machine"


def _check_order(
    what: str, since: dt.datetime | None, until: dt.datetime | None, ended: str, begun: str
) -> None:
    """Refuses an end before its start."""
    if since and until and until < since:
        raise ValueError(f"{what} {ended} at {until}, before {begun}")


class SentRequest(Document):
    """A request as it was sent, without its credentials."""

    sent_at: AwareDatetime
    operation: Text = Field(description="such as POST https://... or CreateNodegroup")
    body: JsonValue = None


class Node(Document):
    """A provisioned node, with the provider's times of start and end."""

    name: Text
    started_at: AwareDatetime | None = None
    last_seen_at: AwareDatetime | None = Field(
        default=None, description="last time it was observed, recorded about once a minute"
    )
    terminated_at: AwareDatetime | None = Field(
        default=None, description="first time it was observed as gone"
    )

    @model_validator(mode="after")
    def _starts_before_it_ends(self) -> Self:
        node, until = f"node {self.name}", self.terminated_at
        _check_order(node, self.started_at, until, "was terminated", "its start")
        if until and not self.started_at:
            raise ValueError(f"{node} was terminated at {until}, but never started")
        return self

    def seconds(self) -> float | None:
        """Returns its run time; None: running, or unknown."""
        return (
            (self.terminated_at - self.started_at).total_seconds()
            if self.started_at and self.terminated_at
            else None
        )

    def unseen_seconds(self) -> float:
        """Returns the unobserved time before its end, by which its run time may be too large."""
        return (
            (self.terminated_at - self.last_seen_at).total_seconds()
            if self.last_seen_at and self.terminated_at
            else 0.0
        )


class Cluster(Document):
    """The cluster around the nodes of an attempt, which is billed too; None: unknown."""

    name: Text
    control_plane: Text | None = Field(
        default=None, description="name in the fee list, such as GKE standard"
    )
    system_node: Text | None = Field(
        default=None, description="type of the nodes that do not train"
    )
    system_nodes: int | None = Field(default=None, ge=0, le=MAX_PROCESSES)
    created_at: AwareDatetime | None = None
    deleted_at: AwareDatetime | None = None
    run_seconds: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="of its time until `deleted_at`, what this run pays: moments that several runs"
        " use are divided equally, idle ones belong to the run before",
    )
    idle_since: AwareDatetime | None = Field(
        default=None,
        description="it waits for another run at the cost of this one; None: it does not",
    )
    idle_until: AwareDatetime | None = Field(
        default=None, description="another run took it, or it was deleted; None: not observed"
    )

    @model_validator(mode="after")
    def _starts_before_it_ends(self) -> Self:
        cluster = f"cluster {self.name}"
        _check_order(cluster, self.created_at, self.deleted_at, "was deleted", "its creation")
        if self.created_at and self.deleted_at and self.run_seconds:
            whole = (self.deleted_at - self.created_at).total_seconds()
            if self.run_seconds > whole * (1 + 1e-9):
                raise ValueError(f"{cluster}: a run pays {self.run_seconds} s of its {whole} s")
        return self


class KeptNodes(Document):
    """Nodes that waited for the next run after the end of this one."""

    nodes: int = Field(ge=1, le=MAX_PROCESSES)
    since: AwareDatetime
    until: AwareDatetime = Field(description="end of the waiting, by --keep-nodes")
    ended_at: AwareDatetime | None = Field(
        default=None, description="use by the next run, or deletion; None: not observed"
    )

    def seconds(self) -> float:
        """Returns how long they waited; without an observed end, the whole time."""
        ended = min(self.ended_at, self.until) if self.ended_at else self.until
        return max(0.0, (ended - self.since).total_seconds())


class Attempt(Document):
    """One attempt at a run: one node type, region and market."""

    provider: Text
    account: str | None = Field(default=None, description="account, project or subscription")
    region: str | None = None
    node_type: Text
    market: Market | None = Field(default=None, description="None: existing machines")
    node_count: int | None = Field(
        default=None, ge=1, le=MAX_PROCESSES, description="None: the length of nodes"
    )
    nodes: tuple[Node, ...] = ()
    price_rows: tuple[PriceRow, ...] = Field(default=(), description="price rows of the selection")
    fees: tuple[PoolFee, ...] | None = Field(
        default=None, description="billed beside the nodes; None: unknown"
    )
    data: DataMove | None = Field(default=None, description="that nodes download; None: unknown")
    image: Text | None = Field(
        default=None,
        description="of the workers, with the digest that a node pulled; None: unknown",
    )
    requests: tuple[SentRequest, ...] = ()
    end_reason: str | None = Field(default=None, description="reason of the end; None: running")
    program_started_at: AwareDatetime | None = Field(
        default=None, description="start of the program, from the provider or cluster"
    )
    program_ended_at: AwareDatetime | None = Field(
        default=None, description="end of the program, from the provider or cluster"
    )
    cluster: Cluster | None = Field(default=None, description="None: unknown")
    kept: KeptNodes | None = Field(default=None, description="None: deleted after the run")
    stored_gib_months: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    uploaded_gib: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="upload of showers, free of charge"
    )
    egress_gib: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="egress to the internet"
    )

    @model_validator(mode="after")
    def _has_region_and_market(self) -> Self:
        if self.is_billed and (self.region is None or self.market is None):
            raise ValueError(f"an attempt on {self.provider} needs a region and a market")
        names = [node.name for node in self.nodes]
        if len(set(names)) < len(names):
            raise ValueError("two nodes of one attempt have one name")
        began, ended = self.program_started_at, self.program_ended_at
        _check_order("the program", began, ended, "ended", "it started")
        return self

    @property
    def is_billed(self) -> bool:
        """Whether a provider bills the attempt."""
        return self.provider not in UNBILLED

    @property
    def is_refused(self) -> bool:
        """Whether it ended before anything was requested, so that it cost nothing."""
        used = (self.nodes, self.requests, self.cluster, self.uploaded_gib, self.program_started_at)
        return self.end_reason is not None and not any(used)

    @property
    def offer(self) -> tuple[str, str, str | None, str | None]:
        """Provider, node type, region and market."""
        return self.provider, self.node_type, self.region, self.market

    @property
    def price(self) -> PriceRow | None:
        """The price of its node type in its region and market; None: unknown."""
        rows = self.price_rows
        return next(
            (
                one
                for one in rows
                if (one.provider, one.node_type, one.region, one.market) == self.offer
            ),
            None,
        )

    def billed_seconds(self) -> float | None:
        """Returns the time from the first start to the last end of a node; None: unknown."""
        ups = [node.started_at for node in self.nodes if node.started_at]
        downs = [node.terminated_at for node in self.nodes if node.terminated_at]
        if not self.nodes or len(downs) < len(self.nodes):
            return None
        return (max(downs) - min(ups)).total_seconds()


class Launch(Document):
    """All attempts at one run, oldest first."""

    schema_version: Literal[1] = 1
    run: Text
    config_hash: str
    attempts: tuple[Attempt, ...] = ()
    changes: int = Field(
        default=0, ge=0, le=MAX_STEP, description="of two copies, the one with more is newer"
    )

    def with_attempts(self, attempts: tuple[Attempt, ...]) -> Launch:
        """Returns a newer copy with these attempts."""
        return self.model_copy(update={"attempts": attempts, "changes": self.changes + 1})

    def billed_seconds(self) -> float | None:
        """Returns the sum over the attempts; None: unknown, as for local runs."""
        seconds = [one.billed_seconds() for one in self.attempts if not one.is_refused]
        known = [each for each in seconds if each is not None]
        return sum(known) if known and len(known) == len(seconds) else None


def local_attempt(hardware: str) -> Attempt:
    """Returns the attempt of a run on this machine, which is not billed."""
    return Attempt(provider=LOCAL, node_type=f"{THIS_MACHINE}: {hardware}")


def read(path: Path) -> Launch:
    """Reads launch.json."""
    return read_json(path, Launch)


def write(path: Path, launch: Launch) -> None:
    """Writes launch.json atomically."""
    write_json(path, launch)
