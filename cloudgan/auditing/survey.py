"""Everything of cloudgan that exists in one account, and who needs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cloudgan.auditing.standing import Judge, RunView, Standing
from cloudgan.auditing.stranger import plan_of_stranger
from cloudgan.core.errors import CloudganError
from cloudgan.core.labels import checked_name
from cloudgan.launching.intents import Intent, Intents
from cloudgan.providers.clouds import region_of, rules
from cloudgan.providers.kubernetes.provider import KubernetesProvider

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterable

    from cloudgan.core.plan import Place, Plan
    from cloudgan.launching.cloud import Cloud, Thing
    from cloudgan.launching.provider import Provider
    from cloudgan.stores import Store

NAMESPACE = "cloudgan"
_OVER = frozenset({"finished", "removed"})


@dataclass(frozen=True)
class Folder:
    """What a run keeps in a store.

    Attributes:
        run: Its name.
        store: URL.
        region: Of the store; empty: it is not one of the account's own.
        size_bytes: None: could not be asked.
        state: Of the run's newest intent.
    """

    run: str
    store: str
    region: str
    size_bytes: int | None
    state: str


@dataclass(frozen=True)
class Survey:
    """The answer for one account.

    Attributes:
        place: Of the account.
        things: All there are, each with how it stands.
        folders: Of all runs, in all stores that could be read.
        runs: By name.
        notes: What could not be looked at.
    """

    place: Place
    things: tuple[tuple[Thing, Standing], ...]
    folders: tuple[Folder, ...]
    runs: dict[str, RunView]
    notes: tuple[str, ...]


@dataclass
class Surveyor:
    """Looks through one account.

    Attributes:
        cloud: Somebody is logged in to it.
        place: Of the account, with its name.
        opened: Opens the provider of a run's place, with its store.
        open_store: Opens a store by its URL.
        stores: URLs of more stores than the account's own.
    """

    cloud: Cloud
    place: Place
    opened: Callable[[Place, str], Provider]
    open_store: Callable[[str], Store]
    stores: Iterable[str] = ()
    _notes: list[str] = field(default_factory=list, init=False)

    def survey(self, now: dt.datetime) -> Survey:
        """Returns what exists and who needs it.

        Raises:
            CloudganError: The cloud cannot be asked.
        """
        self._notes.clear()
        things = self.cloud.things()
        intents, folders = self._intents(things)
        names = sorted({*intents, *(thing.run for thing in things if thing.run)})
        runs = {run: self._view(run, intents.get(run), things) for run in names}
        judged = Judge(runs, now).judge(things)
        ordered = sorted(judged, key=lambda one: (one[0].run or "~", one[0].rank, one[0].name))
        return Survey(self.place, tuple(ordered), tuple(folders), runs, tuple(self._notes))

    def is_alive(self, run: str, survey: Survey) -> bool:
        """Whether a run may be alive by now; asked once more before something of it is deleted."""
        things = [thing for thing, _ in survey.things]
        return self._view(run, survey.runs[run].intent, things).is_alive is not False

    def _intents(self, things: Iterable[Thing]) -> tuple[dict[str, Intent], list[Folder]]:
        own = {self._own_store(region): region for region in self._regions(things)}
        made = {
            region_of(self.place.provider, one.region) for one in things if one.shared == "bucket"
        }
        found: dict[str, Intent] = {}
        folders: list[Folder] = []
        for url in dict.fromkeys((*own, *self.stores)):
            store = self.open_store(url)
            intents = Intents(store, "doctor")
            try:
                runs = intents.runs()
            except CloudganError as error:
                if url not in own or own[url] in made:
                    self._notes.append(f"store {url} could not be read: {error}")
                continue
            for run in runs:
                intent = self._read(intents, run)
                folders.append(self._folder(store, run, own.get(url, ""), intent))
                before = found.get(run)
                if intent and (before is None or before.at < intent.at):
                    found[run] = intent
        return found, folders

    def _read(self, intents: Intents, run: str) -> Intent | None:
        try:
            checked_name(run)
            return intents.read(run)
        except CloudganError as error:
            self._notes.append(str(error))
            return None

    def _folder(self, store: Store, run: str, region: str, intent: Intent | None) -> Folder:
        try:
            size: int | None = store.size_bytes(f"runs/{run}/")
        except CloudganError as error:
            self._notes.append(f"size of runs/{run} in {store.url}: {error}")
            size = None
        return Folder(run, store.url, region, size, intent.state if intent else "unknown")

    def _regions(self, things: Iterable[Thing]) -> list[str]:
        there = {region_of(self.place.provider, one.region) for one in things if one.region}
        return sorted({*there, self.place.region or ""})

    def _own_store(self, region: str) -> str:
        return rules(self.place.provider).store(self.place.model_copy(update={"region": region}))

    def _view(self, run: str, intent: Intent | None, things: Iterable[Thing]) -> RunView:
        mine = [thing for thing in things if thing.run == run]
        if intent is None:
            return self._stranger(run, mine, things)
        if intent.state in _OVER and not mine:
            return RunView(run, intent, is_alive=False, why=intent.state)
        try:
            here = intent.plan.place.model_copy(update={"profile": self.place.profile})
            state = self.opened(here, intent.plan.store).state(run)
        except CloudganError as error:
            return RunView(run, intent, is_alive=None, why=str(error))
        return RunView(run, intent, is_alive=not state.is_over, why=state.phase)

    def _stranger(self, run: str, things: list[Thing], all_things: Iterable[Thing]) -> RunView:
        """Of a run without intent only its cluster can tell whether its Job is there."""
        inside = [thing for thing in things if thing.parent]
        if not inside:
            return RunView(run, None, is_alive=False if not any(t.nodes for t in things) else None)
        first = inside[0]
        where = next((one.region for one in all_things if one.name == first.parent), first.region)
        plan = plan_of_stranger(first, self.place, where)
        try:
            api = self.cloud.cluster(plan)
            state = KubernetesProvider(api, _namespace(plan)).state(run) if api else None
        except CloudganError as error:
            return RunView(run, None, is_alive=None, why=str(error))
        return RunView(
            run, None, is_alive=bool(state and not state.is_over), why=state.phase if state else ""
        )


def _namespace(plan: Plan) -> str:
    return plan.place.namespace or NAMESPACE
