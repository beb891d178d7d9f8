"""Lists and watches."""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Any

from emulators.kubernetes.faults import AnswerLost
from emulators.kubernetes.selection import matches
from emulators.kubernetes.status_errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulators.kubernetes.resources import Resource
    from emulators.kubernetes.store import Change, Store

Object = dict[str, Any]
MOST_SECONDS = 1800.0
TOO_OLD = "too old resource version"


class Reading:
    """Answers lists and watches."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cuts = 0

    def cut_watches(self) -> None:
        """Ends all watches as a load balancer does: without a last chunk."""
        with self._store.changed:
            self._cuts += 1
            self._store.changed.notify_all()

    def list(
        self, resource: Resource, namespace: str | None, query: dict[str, str]
    ) -> dict[str, Any]:
        with self._store.changed:
            revision = self._store.revision
            found = [one for one in self._store.select(resource, namespace) if _wanted(query, one)]
        own: dict[str, Any] = {"resourceVersion": str(revision)}
        after, limit = 0, int(query.get("limit") or 0)
        if token := query.get("continue"):
            after, since = json.loads(base64.urlsafe_b64decode(token))
            own["resourceVersion"] = str(since)
            if since < self._store.compacted:
                text = "The provided continue parameter is too old to display a consistent list"
                raise Refusal(410, text)
        if limit and after + limit < len(found):
            token = json.dumps([after + limit, int(own["resourceVersion"])])
            own["continue"] = base64.urlsafe_b64encode(token.encode()).decode()
            own["remainingItemCount"] = len(found) - after - limit
        found = found[after : after + limit] if limit else found[after:]
        return {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": own,
            "items": found,
        }

    def watch(
        self, resource: Resource, namespace: str | None, query: dict[str, str]
    ) -> Iterator[bytes]:
        """Yields the events from a revision on; refuses one that was forgotten."""
        asked = query.get("resourceVersion") or "0"
        since = int(asked)
        if since and since < self._store.compacted:
            gone = Refusal(410, f"{TOO_OLD}: {since} ({self._store.compacted})")
            return iter([_line("ERROR", gone.body)])
        seconds = float(query.get("timeoutSeconds") or MOST_SECONDS)
        return self._events(resource, namespace, query, since, time.monotonic() + seconds)

    def _events(
        self,
        resource: Resource,
        namespace: str | None,
        query: dict[str, str],
        since: int,
        end: float,
    ) -> Iterator[bytes]:
        store = self._store
        with store.changed:
            cuts = self._cuts
            first = store.select(resource, namespace) if not since else []
            since = since or store.revision
        yield from (_line("ADDED", one) for one in first if _wanted(query, one))
        while time.monotonic() < end:
            with store.changed:
                self._wait(since, cuts, end)
                if store.closed or self._cuts != cuts:
                    raise AnswerLost
                if since < store.compacted:
                    yield _line("ERROR", Refusal(410, f"{TOO_OLD}: {since}").body)
                    return
                news = _since(store.changes, since)
                since = store.revision
            for change in news:
                if change.collection == resource.collection:
                    yield from _event(change, namespace, query)

    def _wait(self, since: int, cuts: int, end: float) -> None:
        store = self._store
        store.changed.wait_for(
            lambda: store.revision > since or store.closed or self._cuts != cuts,
            max(0.0, end - time.monotonic()),
        )


def _since(changes: list[Change], revision: int) -> list[Change]:
    news = []
    for change in reversed(changes):
        if change.revision <= revision:
            break
        news.append(change)
    return news[::-1]


def _event(change: Change, namespace: str | None, query: dict[str, str]) -> Iterator[bytes]:
    """An object that comes to fit the selectors is new to the watcher, one that ceases is gone."""
    old, new = change.old, change.new
    outcome = new or old
    if outcome is None or namespace not in {None, outcome["metadata"].get("namespace")}:
        return
    was, fits = old is not None and _wanted(query, old), new is not None and _wanted(query, new)
    if fits and new:
        yield _line("MODIFIED" if was else "ADDED", new)
    elif was and old:
        own = old["metadata"] | {"resourceVersion": str(change.revision)}
        yield _line("DELETED", old | {"metadata": own})


def _wanted(query: dict[str, str], found: Object) -> bool:
    return matches(query.get("labelSelector", ""), query.get("fieldSelector", ""), found)


def _line(kind: str, found: Object) -> bytes:
    return json.dumps({"type": kind, "object": found}).encode() + b"\n"
