"""Brings what a worker writes to the store while it runs, and the rest of it at the end."""

from __future__ import annotations

import gzip
import threading
import time
from typing import TYPE_CHECKING

from cloudgan.core.errors import CloudganError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cloudgan.stores import Store

_LOOK_SECONDS = 0.2
_RETRY_SECONDS = 1.0


class Shipment:
    """One object in the store that is replaced when what it holds has changed."""

    def __init__(
        self,
        name: str,
        key: Callable[[], object],
        put: Callable[[], None],
        *,
        every_seconds: float,
        beats: bool = False,
    ) -> None:
        """Says what is shipped, and when.

        Args:
            name: What it is called in messages.
            key: Returns something that differs when the content does; None where there is none.
            put: Puts the content there.
            every_seconds: Not more often than that.
            beats: Put it every so often in any case, and at once when the key changes.
        """
        self.name = name
        self._key, self._put = key, put
        self._every_seconds, self._beats = every_seconds, beats
        self._shipped: object = None
        self._tried_seconds = float("-inf")

    def is_pending(self) -> bool:
        """Whether the store has not what is here."""
        key = self._key()
        return key is not None and key != self._shipped

    def is_due(self, now_seconds: float) -> bool:
        """Whether it is time to put it there."""
        waited = now_seconds - self._tried_seconds
        if self._beats:
            return waited >= self._every_seconds or (waited >= _RETRY_SECONDS and self.is_pending())
        return waited >= self._every_seconds and self.is_pending()

    def ship(self, now_seconds: float) -> None:
        """Puts it there.

        Raises:
            CloudganError: The store failed.
        """
        self._tried_seconds = now_seconds
        key = self._key()
        self._put()
        self._shipped = key


def file_shipment(
    store: Store, name: str, path: Path, *, every_seconds: float, packed: bool = False
) -> Shipment:
    """Returns the shipment of a file, perhaps packed with gzip."""

    def key() -> object:
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_size, found.st_mtime_ns

    def put() -> None:
        content = path.read_bytes()
        store.put(name, gzip.compress(content) if packed else content)

    return Shipment(name, key, put, every_seconds=every_seconds)


class Shipper:
    """Ships in a thread of its own, so that a slow store stops nobody."""

    def __init__(self, shipments: Sequence[Shipment], say: Callable[[str], None]) -> None:
        """Begins at once; what fails is told once until it works again."""
        self._shipments, self._say = shipments, say
        self._failing: set[str] = set()
        self._problem = ""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ship", daemon=True)
        self._thread.start()

    def close(self, last: Sequence[Shipment], *, patience_seconds: float) -> tuple[str, ...]:
        """Ships all that is not there yet, then `last`, and ends.

        Returns:
            What is not in the store after that time, each with the reason where one is known.
        """
        deadline = time.monotonic() + patience_seconds
        self._closing.set()
        everything = (*self._shipments, *last)
        final = threading.Thread(target=self._finish, args=(everything, deadline), daemon=True)
        final.start()
        final.join(max(0.0, deadline - time.monotonic()))
        why = f" ({self._problem})" if self._problem else ""
        return tuple(f"{each.name}{why}" for each in everything if each.is_pending())

    def _run(self) -> None:
        while not self._closing.wait(_LOOK_SECONDS):
            for each in self._shipments:
                if not self._closing.is_set() and each.is_due(time.monotonic()):
                    self._try(each)

    def _finish(self, everything: Sequence[Shipment], deadline: float) -> None:
        self._thread.join(max(0.0, deadline - time.monotonic()))
        while time.monotonic() < deadline:
            for each in everything:
                if each.is_pending():
                    self._try(each)
            if not any(each.is_pending() for each in everything):
                return
            time.sleep(_LOOK_SECONDS)

    def _try(self, shipment: Shipment) -> None:
        try:
            shipment.ship(time.monotonic())
        except (CloudganError, OSError) as error:
            self._problem = str(error)
            if shipment.name not in self._failing:
                self._failing.add(shipment.name)
                self._say(f"{shipment.name} is not in the store: {error}; tried again, silently")
        else:
            self._failing.discard(shipment.name)
