"""Launch log: records each attempt of a run, its requests, its times and its nodes in launch.json."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta

from cloudgan.core.clock import parse_time, utc_moment
from cloudgan.core.errors import CloudganError
from cloudgan.core.file_lock import awaited_target
from cloudgan.launch.backends.run_document import read_launch
from cloudgan.launch.lifecycle.run_results import RunResults
from cloudgan.money.billing import (
    data_move,
    fees_beside,
    launch_ledger,
    notices_of,
)
from cloudgan.money.ledger import Ledger
from cloudgan.schema import launch
from cloudgan.schema.cost_report import Totals
from cloudgan.schema.launch import Attempt, KeptNodes, Launch, Node, SentRequest
from cloudgan.schema.plan import Plan, Step
from cloudgan.schema.price_row import PoolFee
from cloudgan.schema.record import read_if_whole
from cloudgan.schema.run_folder import RUNS, RunFolder
from cloudgan.schema.run_state import RunState
from cloudgan.storage.store import ObjectExistsError

_MONTH = timedelta(days=365.25 / 12)
_NOTED_EVERY = timedelta(minutes=1)
_AGAIN = " #"
_TRIES, _PAUSE_SECONDS = 20, 0.2
_LOCK_SECONDS = 600.0
"""How long a process waits for another one of this machine, which waits for a store."""
Attempts = tuple[Attempt, ...]


class LaunchLog:
    """The launch.json of one run, in its store and local.

    Each change is made to the newer of the two copies, so that no machine replaces what another one recorded.

    Attributes:
        results: Of the run in its store; None: only pods can read it.
    """

    def __init__(self, folder: RunFolder, plan: Plan, results: RunResults | None = None) -> None:
        self.folder, self.plan, self.results = folder, plan, results

    @classmethod
    def of(cls, plan: Plan) -> LaunchLog:
        """Returns that of a run in runs/ here and in its store."""
        return cls(RunFolder(RUNS / plan.run), plan, RunResults.from_plan(plan))

    def fetch(self, say: Callable[[str], None]) -> tuple[str, ...]:
        """Fetches the results of the run from its store; returns the new files."""
        return tuple(self.results.fetch_if_reachable(self.folder, say)) if self.results else ()

    def read(self) -> Launch:
        """Returns all recorded attempts, as this machine knows them; those of the store if it knows none.

        Raises:
            ForeignDocumentError: The file is of another run.
        """
        if self.folder.launch_file.exists():
            return read_launch(self.folder.launch_file, self.plan.run)
        there = self.results.read_launch() if self.results else None
        return there or Launch(run=self.plan.run, config_hash=self.plan.config.config_hash())

    def refresh(self) -> None:
        """Takes over what another machine recorded in the store."""
        self._change(lambda known: known)

    def record_attempt(self, sent: Iterable[tuple[str, Step]]) -> None:
        """Adds an attempt with its requests and their times."""
        requests = tuple(
            SentRequest(sent_at=when, operation=step.operation, body=step.body)
            for when, step in sent
        )
        attempt = _attempt(self.plan).model_copy(update={"requests": requests})
        self._change(lambda known: (*known, attempt))

    def record_rejected(self, why: str) -> None:
        """Adds an attempt that ended before any request, such as for missing quota."""
        attempt = _attempt(self.plan).model_copy(update={"end_reason": why})
        self._change(lambda known: (*known, attempt))

    def record_state(self, state: RunState) -> None:
        """Records start, end and end reason of the program in the newest attempt.

        If the backend reports no end, as for a deleted job, the end is the time of this observation,
        at most the deadline: an upper bound of the cost.
        """
        self._change(lambda known: self._with_state(known, state))

    def _with_state(self, known: Attempts, state: RunState) -> Attempts:
        if self._is_unknown(state, known) or (state.nodes and not known):
            known = (*known, _attempt(self.plan))
        if not known:
            return known
        *before, last = known
        if state.started_at:
            last = last.model_copy(update={"program_started_at": parse_time(state.started_at)})
        fields: dict[str, object] = {}
        if state.image and not last.image:
            fields["image"] = state.image
        if state.is_over and not last.end_reason:
            fields["end_reason"] = f"{state.phase}: {state.reason}" if state.reason else state.phase
        if state.ended_at:
            began, end = last.program_started_at, parse_time(state.ended_at)
            # A second report, as of a deleted job, does not move an earlier end.
            end = min(last.program_ended_at, end) if last.program_ended_at else end
            fields["program_ended_at"] = max(began, end) if began else end
        elif (
            state.phase in ("absent", "stopped")
            and last.program_started_at
            and not last.program_ended_at
        ):
            began, now = last.program_started_at, utc_moment()
            limit = timedelta(seconds=self.plan.limits.deadline_seconds)
            fields["program_ended_at"] = min(now, began + limit) if began < now else began
        changed = Attempt.model_validate(last.model_dump() | fields)
        if self.plan.node_pool is None:
            changed = _held(changed)
        attempts = (*before, changed)
        if self.plan.node_pool and state.nodes is not None:
            gone_by = state.ended_at if state.phase == "absent" and not state.nodes else None
            now = parse_time(gone_by) if gone_by else utc_moment()
            attempts = observe_nodes(attempts, state.nodes, now)
        return attempts

    def record_nodes(self, nodes: Iterable[Node]) -> None:
        """Adds nodes to the newest attempt; known nodes keep their times."""
        there = tuple(nodes)

        def with_nodes(known: Attempts) -> Attempts:
            if not known:
                return known
            *before, last = known
            earlier = {(node.name, node.started_at) for one in before for node in one.nodes}
            new = [node for node in there if (node.name, node.started_at) not in earlier]
            return (*before, add_nodes(last, new, utc_moment()))

        self._change(with_nodes)

    def record_nodes_terminated(self) -> None:
        """Records that all nodes of the run are terminated."""
        self._change(lambda known: terminate_nodes(known, utc_moment()))

    def record_kept(self) -> None:
        """Records that the running nodes wait for another run from now on."""
        pool = self.plan.node_pool

        def kept(last: Attempt) -> dict[str, object]:
            up = sum(bool(node.started_at and not node.terminated_at) for node in last.nodes)
            if pool is None or not up:
                return {}
            now = utc_moment()
            until = now + timedelta(seconds=pool.keep_seconds)
            return {"kept": KeptNodes(nodes=up, since=now, until=until)}

        self._change_last(kept)

    def record_kept_end(self, when: datetime) -> None:
        """Records that kept nodes are used by another run or deleted; the first end is kept."""

        def ended(last: Attempt) -> dict[str, object]:
            kept = last.kept
            if kept is None or kept.ended_at:
                return {}
            end = max(min(when, kept.until), kept.since)
            return {"kept": kept.model_copy(update={"ended_at": end})}

        self._change_last(ended)

    def record_cluster_end(self, when: datetime) -> None:
        """Records that the cluster that this run kept is used by another run or deleted."""

        def ended(last: Attempt) -> dict[str, object]:
            cluster = last.cluster
            if cluster is None or cluster.idle_since is None or cluster.idle_until:
                return {}
            end = max(when, cluster.idle_since)
            return {"cluster": cluster.model_copy(update={"idle_until": end})}

        self._change_last(ended)

    def record_end(self, why: str) -> None:
        """Records why the newest attempt ended; the first reason is kept."""
        self._change_last(lambda last: {} if last.end_reason else {"end_reason": why})

    def record_storage(self) -> None:
        """Records the storage of the run's folder, in GiB months of the newest attempt."""
        gib = self.results.gib() if self.results else None
        if gib is None or self.plan.node_pool is None:
            return

        def stored(last: Attempt) -> dict[str, object]:
            begins = [request.sent_at for request in last.requests]
            begins += [last.program_started_at] if last.program_started_at else []
            if not begins:
                return {}
            months = max(0.0, (utc_moment() - min(begins)) / _MONTH)
            return {"stored_gib_months": gib * months}

        self._change_last(stored)

    def record_usage(self, **fields: object) -> None:
        """Records fields of the newest attempt, if there is one; None leaves a field as it is."""
        given = {name: value for name, value in fields.items() if value is not None}
        self._change_last(lambda _: given)

    def is_complete(self) -> bool:
        """Whether the usage record is final: the run ended and its nodes are terminated."""
        attempts = self.read().attempts
        if not attempts or has_running_nodes(attempts):
            return False
        return bool(attempts[-1].end_reason and attempts[-1].stored_gib_months is not None)

    def ledger(self) -> Ledger | None:
        """Returns the usage of all attempts; None: the nodes have no price.

        A spot node that its cloud took early may be free: the notices are in the record, where it was fetched.
        """
        if self.plan.price is None:
            return None
        notices = notices_of(read_if_whole(self.folder.record_file))
        return launch_ledger(self.read(), None, notices)

    def spent(self) -> Totals | None:
        """Returns the cost until now; None: the nodes have no price."""
        ledger = self.ledger()
        return ledger.until(utc_moment()).total() if ledger else None

    @staticmethod
    def _is_unknown(state: RunState, known: Attempts) -> bool:
        """Whether the job belongs to an attempt that this log does not contain."""
        if state.started_at is None:
            return False
        if not known:
            return True
        down = known[-1].program_ended_at
        return down is not None and parse_time(state.started_at) > down

    def _change_last(self, fields_of: Callable[[Attempt], Mapping[str, object]]) -> None:
        """Changes fields of the newest attempt, if there is one."""

        def change(known: Attempts) -> Attempts:
            if not known:
                return known
            *before, last = known
            return (*before, Attempt.model_validate(last.model_dump() | dict(fields_of(last))))

        self._change(change)

    def _change(self, change: Callable[[Attempts], Attempts]) -> None:
        """Writes what `change` makes of the newer copy; another process, such as `status`, changes it before or after.

        The folder has the change first, since a store may hang until Ctrl-C. The store takes it only if its copy is
        still the one that was read; else both get what `change` makes of that one.
        """
        there, version = self._stored(known := self.read())
        after = _changed(known, there, change)
        if after == known and not _is_behind(there, after, known):
            return
        with awaited_target(self.folder.launch_file, _LOCK_SECONDS):
            known = written = self.read()
            for _ in range(_TRIES):
                after = _changed(known, there, change)
                if after != written:
                    launch.write(self.folder.launch_file, written := after)
                if not self.results or version is None or not _is_behind(there, after, known):
                    break
                try:
                    self.results.write_launch(after, version)
                    break
                except ObjectExistsError:
                    time.sleep(random.uniform(0, _PAUSE_SECONDS))
                    there, version = self._stored(known)
                except CloudganError:  # the next change writes it again
                    break

    def _stored(self, known: Launch) -> tuple[Launch | None, str | None]:
        """Returns the copy in the store and its version; no version: a namesake's, or the store does not answer."""
        if self.results is None:
            return None, None
        with suppress(CloudganError):
            there, version = self.results.stored_launch()
            if there is None or there.changes <= known.changes or self.results.is_own():
                return there, version
        return None, None


def _changed(here: Launch, there: Launch | None, change: Callable[[Attempts], Attempts]) -> Launch:
    """Returns what `change` makes of the newer of two copies."""
    newest = there if there and there.changes > here.changes else here
    attempts = change(newest.attempts)
    return newest if attempts == newest.attempts else newest.with_attempts(attempts)


def _is_behind(there: Launch | None, after: Launch, known: Launch) -> bool:
    """Whether the store is to have this copy; None: it has none, or one that does not count."""
    return after.changes > there.changes if there else after != known


def _held(attempt: Attempt) -> Attempt:
    """Adds the nodes of an existing cluster: they count while the program runs."""
    if not attempt.price_rows or attempt.program_started_at is None:
        return attempt
    nodes = tuple(
        Node(
            name=f"node of worker {rank}",
            started_at=attempt.program_started_at,
            terminated_at=attempt.program_ended_at,
        )
        for rank in range(attempt.node_count or 1)
    )
    return attempt.model_copy(update={"nodes": nodes})


def _attempt(plan: Plan) -> Attempt:
    """Returns a new attempt; of nodes that existed before, without a price, no region and market is known."""
    price, pool, workers = plan.price, plan.node_pool, plan.workers
    sold = price or pool
    fees: tuple[PoolFee, ...] = ()
    if pool:
        in_cluster = pool.engine == "cluster"
        fees = fees_beside(plan.target.provider, pool.fees, on_cluster=in_cluster)
    return Attempt(
        provider=price.provider if price else plan.target.provider,
        account=plan.target.describe(),
        region=price.region if price else plan.target.region if pool else None,
        node_type=sold.node_type if sold else f"{workers.nodes} x ({workers.each})",
        market=sold.market if sold else None,
        node_count=workers.nodes,
        price_rows=(price,) if price else (),
        fees=fees if sold else None,
        data=data_move(plan.showers) if sold else None,
    )


def observe_nodes(
    attempts: tuple[Attempt, ...], there: Iterable[Node], now: datetime
) -> tuple[Attempt, ...]:
    """Returns the attempts (at least one) with observed nodes: new nodes are added, missing nodes terminated.

    A node belongs to the attempt in which it started, so no time counts twice. A replacement node
    may reuse a name; the start time distinguishes the two.
    """
    found = {_key(node): node for node in there}
    known = {_key(node) for attempt in attempts for node in attempt.nodes}
    changed = [
        _with(attempt, [_after(n, found, now) for n in attempt.nodes]) for attempt in attempts
    ]
    new = [node for key, node in found.items() if key not in known]
    return (*changed[:-1], add_nodes(changed[-1], new, now))


def add_nodes(attempt: Attempt, nodes: Iterable[Node], now: datetime) -> Attempt:
    """Returns an attempt with new nodes added."""
    held = list(attempt.nodes)
    keys = {_key(node) for node in held}
    for node in nodes:
        if _key(node) not in keys:
            names, name, number = {other.name for other in held}, node.name, 1
            while name in names:
                number += 1
                name = f"{node.name}{_AGAIN}{number}"
            held.append(node.model_copy(update={"name": name, "last_seen_at": now}))
    return _with(attempt, held)


def terminate_nodes(attempts: tuple[Attempt, ...], now: datetime) -> tuple[Attempt, ...]:
    """Returns the attempts with all nodes terminated."""
    return observe_nodes(attempts, (), now) if attempts else attempts


def has_running_nodes(attempts: Iterable[Attempt]) -> bool:
    """Whether a node has no termination time."""
    return any(
        node.started_at and not node.terminated_at for attempt in attempts for node in attempt.nodes
    )


def _after(node: Node, there: dict[tuple[str, object], Node], now: datetime) -> Node:
    if node.terminated_at or not node.started_at:
        return node
    if _key(node) not in there:
        return node.model_copy(update={"terminated_at": max(now, node.started_at)})
    if node.last_seen_at and now - node.last_seen_at < _NOTED_EVERY:
        return node
    return node.model_copy(update={"last_seen_at": now})


def _with(attempt: Attempt, nodes: Iterable[Node]) -> Attempt:
    return attempt.model_copy(update={"nodes": tuple(nodes)})


def _key(node: Node) -> tuple[str, object]:
    return node.name.partition(_AGAIN)[0], node.started_at
