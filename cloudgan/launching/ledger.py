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

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudgan.core.plan import Plan, Step
    from cloudgan.core.run_state import RunState
    from cloudgan.launching.results import Results
    from cloudgan.run_folder import RunFolder


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
        if self._is_unknown(state, known):
            known = known.with_attempt(_attempt(self._plan))
        if not known.attempts:
            return
        last = known.attempts[-1]
        told: dict[str, object] = {"program_up": state.began or last.program_up}
        if state.is_over and not last.ended:
            told["ended"] = f"{state.phase}: {state.why}" if state.why else state.phase
        if state.ended:
            told["program_down"] = state.ended
        elif state.phase in ("absent", "stopped") and last.program_up and not last.program_down:
            limit = timedelta(seconds=self._plan.limits.deadline_seconds)
            told["program_down"] = max(last.program_up, min(utc_moment(), last.program_up + limit))
        changed = Attempt.model_validate(last.model_dump() | told)
        if self._plan.rental is None:
            changed = _held(changed)
        known = known.model_copy(update={"attempts": (*known.attempts[:-1], changed)})
        if known != before:
            self._write(known)

    def see_nodes(self, nodes: Iterable[Node]) -> None:
        """Notes machines that were made for the newest attempt; what is known of them stays."""
        known = self.read()
        if not known.attempts:
            return
        last = known.attempts[-1]
        there = {node.name: node for node in last.nodes}
        there |= {node.name: node for node in nodes if node.name not in there}
        self._change(known, last.model_copy(update={"nodes": tuple(there.values())}))

    def see_nodes_gone(self) -> None:
        """Notes that all machines of the newest attempt are gone now."""
        known = self.read()
        if not known.attempts:
            return
        last, now = known.attempts[-1], utc_moment()
        nodes = tuple(
            node if node.down or not node.up else node.model_copy(update={"down": now})
            for node in last.nodes
        )
        self._change(known, last.model_copy(update={"nodes": nodes}))

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
    """Returns what the attempts cost so far by their prices and the program's times, in USD.

    Args:
        known: launch.json; None: nothing was started.
        now_seconds: The moment that counts as the end of an attempt that runs, as a timestamp.
    """
    total = 0.0
    for attempt in known.attempts if known else ():
        if not attempt.price_rows or attempt.program_up is None:
            continue
        up = attempt.program_up.timestamp()
        down = attempt.program_down.timestamp() if attempt.program_down else now_seconds
        seconds = max(0.0, (down or up) - up)
        total += usd(seconds, attempt.price_rows[0], attempt.node_count or 1) or 0.0
    return total


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
