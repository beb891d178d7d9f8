"""Whether somebody still needs a thing: decided from labels, intents and Jobs, and from nothing else.

What might belong to a run that is alive is never left behind, it is at worst unknown.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from cloudgan.core.labels import EXPIRES, moment_of
from cloudgan.providers.clouds import region_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cloudgan.launching.cloud import Thing
    from cloudgan.launching.intents import Intent

State = Literal["expected", "left", "leaving", "unknown"]
"""expected: a run, or all of them, need it; left: nobody does; leaving: it is being deleted."""

STARTING: Final = dt.timedelta(hours=2)
"""A run that began to be made so recently may have no Job yet: cluster, nodes, drivers."""
_CLUSTER, _LEFTOVER = "cluster", "leftover"


class Standing(NamedTuple):
    """The answer, and why."""

    state: State
    why: str


@dataclass(frozen=True)
class RunView:
    """What is known of one run.

    Attributes:
        run: Its name.
        intent: The newest; None: in no store that was looked at.
        is_alive: Whether its Job runs or waits to; None: nobody could say.
        why: Such as its phase, or why nobody could say.
    """

    run: str
    intent: Intent | None
    is_alive: bool | None
    why: str = ""


@dataclass(frozen=True)
class Judge:
    """Tells what is needed.

    Attributes:
        runs: All runs of the account that are known by an intent or a label.
        now: In UTC.
    """

    runs: Mapping[str, RunView]
    now: dt.datetime

    def judge(self, things: Iterable[Thing]) -> list[tuple[Thing, Standing]]:
        """Returns each thing with how it stands."""
        things = tuple(things)
        own = {thing.name: self._of_run(thing) for thing in things if thing.run}
        for thing in things:
            if thing.run is None and thing.shared == _CLUSTER:
                users = [one.name for one in things if one.parent == thing.name and one.run]
                own[thing.name] = self._of_cluster(thing, [own[name] for name in users])
        return [(thing, self._of_any(thing, own)) for thing in things]

    @staticmethod
    def _of_any(thing: Thing, own: Mapping[str, Standing]) -> Standing:
        if thing.state == "leaving":
            return Standing("leaving", "it is being deleted")
        if thing.shared == _LEFTOVER:
            return Standing("left", "what it was a part of is gone")
        # A part of a cluster that no run owns goes with it.
        found = own.get(thing.name) or own.get(thing.parent)
        return found or Standing("expected", "made once for all runs of the account")

    def _of_run(self, thing: Thing) -> Standing:
        assert thing.run is not None  # noqa: S101  the caller looked
        view = self.runs[thing.run]
        if view.is_alive:
            return Standing("expected", f"run {view.run} is {view.why or 'alive'}")
        expires = moment_of(thing.labels.get(EXPIRES))
        if expires and expires < self.now:  # days after the deadline of any job of it
            return Standing("left", f"it expired on {expires:%Y-%m-%d}")
        if view.is_alive is None:
            return Standing(
                "unknown", f"nobody can say whether run {view.run} is alive: {view.why}"
            )
        if view.intent is None:
            return self._unmeant(thing)
        if view.intent.state == "starting" and self.now - view.intent.at < STARTING:
            return Standing("expected", f"run {view.run} is being started by {view.intent.holder}")
        return Standing("left", _over(view.intent, view.why))

    def _unmeant(self, thing: Thing) -> Standing:
        why = "no store that was looked at knows its run"
        made = _moment(thing.made)
        if made is None or self.now - made < STARTING:
            age = "nobody says since when it is there" if made is None else f"made {made:%H:%M} UTC"
            return Standing(
                "unknown",
                f"{why}, and it may be starting ({age}); --store=URL names one more store",
            )
        return Standing("left", f"{why}, and no Job of it is there")

    def _of_cluster(self, thing: Thing, users: Iterable[Standing]) -> Standing:
        users = tuple(users)
        if any(user.state in ("expected", "unknown") for user in users):
            return Standing("expected", "runs use it")
        for view in self.runs.values():
            if view.intent is None or not _is_in(thing, view.intent):
                continue
            young = self.now - view.intent.at < STARTING
            if view.is_alive or (view.intent.state == "starting" and young):
                return Standing("expected", f"run {view.run} uses it")
            if view.intent.plan.rental and view.intent.plan.rental.keep_cluster:
                return Standing("expected", f"kept by --keep_cluster of run {view.run}")
        made = _moment(thing.made)
        if not users and made and self.now - made < STARTING:
            return Standing(
                "unknown", f"no run is known that uses it, and it is new ({made:%H:%M})"
            )
        return Standing("left", "no run uses it")


def _is_in(cluster: Thing, intent: Intent) -> bool:
    place = intent.plan.place
    return (
        cluster.name.rpartition("/")[2] == place.cluster
        and region_of(place.provider, cluster.region) == place.region
    )


def _over(intent: Intent, phase: str) -> str:
    run, day = intent.plan.run, f"{intent.at:%Y-%m-%d %H:%M} UTC"
    if intent.state == "removed":
        return f"run {run} was removed on {day}, and this came or stayed after it"
    if intent.state == "removing":
        return f"the removal of run {run} was broken off on {day}"
    if intent.state in ("finished", "failed", "stopped"):
        return f"run {run} is {intent.state} since {day}"
    if intent.state == "starting":
        return f"the start of run {run} was broken off after {day}"
    return f"run {run} has no Job any more ({phase or 'absent'})"


def _moment(text: str | None) -> dt.datetime | None:
    if text is None:
        return None
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def is_finding(standing: Standing) -> bool:
    """Whether somebody should look: nobody needs it, and it is there."""
    return standing.state in ("left", "leaving")
