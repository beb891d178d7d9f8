"""Writes what was started into launch.json: each attempt, its requests, its times."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from cloudgan.core import launch
from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import CloudganError
from cloudgan.core.launch import Attempt, Launch, Node, SentRequest
from cloudgan.cost.estimate import usd
from cloudgan.launching import node_times

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudgan.core.plan import Plan, Step
    from cloudgan.core.run_state import RunState
    from cloudgan.launching.results import Results
    from cloudgan.run_folder import RunFolder


_MONTH = timedelta(days=365.25 / 12)


class Ledger:
    """The launch.json of one run: here, and in its store for other machines."""

    def __init__(self, folder: RunFolder, plan: Plan, results: Results | None = None) -> None:
        self._path, self._plan, self._results = folder.launch_file, plan, results

    def read(self) -> Launch:
        """Returns all attempts so far."""
        if self._path.exists():
            return launch.read(self._path)
        there = self._results.launches() if self._results else None
        return there or Launch(run=self._plan.run, config_hash=self._plan.config.config_hash())

    def begin(self, sent: Iterable[tuple[str, Step]]) -> None:
        """Adds an attempt with the requests that were sent, each with its time."""
        requests = tuple(
            SentRequest(sent=when, operation=step.operation, body=step.body) for when, step in sent
        )
        self._write(
            self.read().with_attempt(_attempt(self._plan).model_copy(update={"requests": requests}))
        )

    def see(self, state: RunState) -> None:
        """Notes on the newest attempt when its program began and ended, and why.

        An end that the provider does not tell, as of a job that was deleted, is when it was seen
        first, at most the deadline: a budget is rather counted too high than too low.
        """
        before = known = self.read()
        if self._is_unknown(state, known) or (state.nodes and not known.attempts):
            known = known.with_attempt(_attempt(self._plan))
        if not known.attempts:
            return
        last = known.attempts[-1]
        told: dict[str, object] = {"program_up": state.began or last.program_up}
        if state.is_over and not last.ended:
            told["ended"] = f"{state.phase}: {state.why}" if state.why else state.phase
        if state.ended:
            told["program_down"] = _first_end(last, datetime.fromisoformat(state.ended))
        elif state.phase in ("absent", "stopped") and last.program_up and not last.program_down:
            limit = timedelta(seconds=self._plan.limits.deadline_seconds)
            told["program_down"] = max(last.program_up, min(utc_moment(), last.program_up + limit))
        changed = Attempt.model_validate(last.model_dump() | told)
        if self._plan.rental is None:
            changed = _held(changed)
        attempts = (*known.attempts[:-1], changed)
        if self._plan.rental and state.nodes is not None:
            gone_by = state.ended if state.phase == "absent" and not state.nodes else None
            now = datetime.fromisoformat(gone_by) if gone_by else utc_moment()
            attempts = node_times.looked(attempts, state.nodes, now)
        known = known.model_copy(update={"attempts": attempts})
        if known != before:
            self._write(known)

    def see_nodes(self, nodes: Iterable[Node]) -> None:
        """Notes machines that were made for the newest attempt; what is known of them stays."""
        known = self.read()
        earlier = {(node.name, node.up) for a in known.attempts[:-1] for node in a.nodes}
        new = [node for node in nodes if (node.name, node.up) not in earlier]
        if known.attempts:
            self._change(known, node_times.with_new(known.attempts[-1], new, utc_moment()))

    def see_nodes_gone(self) -> None:
        """Notes that all machines of the run are gone now."""
        known = self.read()
        attempts = node_times.gone(known.attempts, utc_moment())
        if attempts != known.attempts:
            self._write(known.model_copy(update={"attempts": attempts}))

    def is_settled(self) -> bool:
        """Whether all is noted that the run is paid for: it ended, and its machines are gone."""
        attempts = self.read().attempts
        if not attempts or node_times.without_end(attempts):
            return False
        return bool(attempts[-1].ended and attempts[-1].stored_gib_months is not None)

    def see_end(self, why: str) -> None:
        """Notes why the newest attempt ended, where nobody noted that; the first reason stays."""
        known = self.read()
        if known.attempts and not known.attempts[-1].ended:
            self._change(known, known.attempts[-1].model_copy(update={"ended": why}))

    def refuse(self, why: str) -> None:
        """Adds an attempt that ended before anything was asked for, as without a quota."""
        self._write(
            self.read().with_attempt(_attempt(self._plan).model_copy(update={"ended": why}))
        )

    def see_beside(self, **beside: object) -> None:
        """Notes what the newest attempt used beside its machines: fields of an attempt."""
        known = self.read()
        if known.attempts:
            told = {name: value for name, value in beside.items() if value is not None}
            last = known.attempts[-1].model_dump() | told
            self._change(known, Attempt.model_validate(last))

    def see_stored(self) -> None:
        """Notes what the run's folder in the store holds, for as long as the newest attempt took."""
        known, gib = self.read(), self._results.gib() if self._results else None
        if gib is None or not known.attempts or self._plan.rental is None:
            return
        last = known.attempts[-1]
        begins = [*(request.sent for request in last.requests), *filter(None, (last.program_up,))]
        if begins:
            months = max(0.0, (utc_moment() - min(begins)) / _MONTH)
            self.see_beside(stored_gib_months=gib * months)

    def _change(self, known: Launch, last: Attempt) -> None:
        if last != known.attempts[-1]:
            self._write(known.model_copy(update={"attempts": (*known.attempts[:-1], last)}))

    @staticmethod
    def _is_unknown(state: RunState, known: Launch) -> bool:
        """Whether a job runs or ran that another machine started, or a launcher that was killed."""
        if state.began is None:
            return False
        if not known.attempts:
            return True
        down = known.attempts[-1].program_down
        return down is not None and datetime.fromisoformat(state.began) > down

    def _write(self, known: Launch) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        launch.write(self._path, known)
        if self._results:
            with suppress(CloudganError):  # the next change brings it there
                self._results.write_launches(known)


def spent_usd(known: Launch | None, now_seconds: float | None = None) -> float:
    """Returns what the attempts cost so far by their prices, in USD: machines, nothing beside them.

    A machine counts from when it was up until it was gone. Where none is known, as in a cluster that
    was there before or in the first seconds, the program's times count for all of them.

    Args:
        known: launch.json; None: nothing was started.
        now_seconds: The moment that counts as the end of an attempt that runs, as a timestamp.
    """
    total = 0.0
    for attempt in known.attempts if known else ():
        if not attempt.price_rows:
            continue
        ran = _seconds(attempt.program_up, attempt.program_down, now_seconds)
        were_up = sum(_seconds(node.up, node.down, now_seconds) for node in attempt.nodes)
        seconds = max(ran * (attempt.node_count or 1), were_up)
        total += usd(seconds, attempt.price_rows[0]) or 0.0
    return total


def _first_end(attempt: Attempt, ended: datetime) -> datetime:
    """An end that is told again later, as when the job is gone, is the same end."""
    ended = min(attempt.program_down, ended) if attempt.program_down else ended
    return max(attempt.program_up, ended) if attempt.program_up else ended


def _seconds(up: datetime | None, down: datetime | None, now_seconds: float | None) -> float:
    """From up to down, or to now where that is not known."""
    if up is None:
        return 0.0
    ends = down.timestamp() if down else now_seconds
    return max(0.0, ends - up.timestamp()) if ends is not None else 0.0


def _held(attempt: Attempt) -> Attempt:
    """Notes the nodes of a cluster that was there before: they count for as long as they were held.

    Nobody rented them for this run, so their own beginning and end are not its cost.
    """
    if not attempt.price_rows or attempt.program_up is None:
        return attempt
    nodes = tuple(
        Node(name=f"node of worker {rank}", up=attempt.program_up, down=attempt.program_down)
        for rank in range(attempt.node_count or 1)
    )
    return attempt.model_copy(update={"nodes": nodes})


def _attempt(plan: Plan) -> Attempt:
    price, workers = plan.price, plan.workers
    if price:
        return Attempt(
            provider=price.provider,
            account=plan.place.describe(),
            region=price.region,
            node_type=price.node_type,
            market=price.market,
            price_rows=(price,),
            node_count=workers.nodes,
        )
    if plan.rental:  # at a price that nobody knows
        return Attempt(
            provider=plan.place.provider,
            account=plan.place.describe(),
            region=plan.place.region,
            node_type=plan.rental.node_type,
            market=plan.rental.market,
            node_count=workers.nodes,
        )
    kind = f"{workers.cpus:g} cores, {workers.memory_gib:g} GiB"
    if workers.accelerators_per_node:
        kind = f"{workers.accelerators_per_node} x {workers.accelerator or 'GPU'}, {kind}"
    return Attempt(
        provider=plan.place.provider,
        account=plan.place.describe(),
        node_type=f"{workers.nodes} x ({kind})",
        node_count=workers.nodes,
    )
