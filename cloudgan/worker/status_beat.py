"""The status of a search's block in the store, written at every beat and at once when it changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from cloudgan.schema.search_exchange import STATUS, BlockStatus
from cloudgan.storage.store import Store, StoreError

_LAST_SECONDS = 10.0


class StatusBeat:
    """Writes the status in a thread, so that downloads and uploads do not delay it."""

    def __init__(
        self, store: Store, status: BlockStatus, say: Callable[[str], None], *, every_seconds: float
    ) -> None:
        self._store, self._say, self._every_seconds = store, say, every_seconds
        self._status, self._lock = status, threading.Lock()
        self._began = self._written = time.monotonic()
        self._changed, self._closing = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="beat", daemon=True)
        self._thread.start()

    @property
    def status(self) -> BlockStatus:
        """The present status."""
        return self._status

    @property
    def seconds(self) -> float:
        """Time since the start of the block."""
        return time.monotonic() - self._began

    @property
    def silent_seconds(self) -> float:
        """Time since the last beat that reached the store."""
        return time.monotonic() - self._written

    def change(self, **values: Any) -> None:
        """Changes the status and writes it soon."""
        with self._lock:
            self._status = self._status.model_copy(update=values)
        self._changed.set()

    def close(self) -> None:
        """Writes that the block has left, and ends the thread."""
        self._closing = True
        self.change(left=True)
        self._thread.join(_LAST_SECONDS)

    def _run(self) -> None:
        while True:
            self._changed.clear()
            is_last = self._closing
            began = time.monotonic()
            try:
                self._put(began)
            except StoreError as error:
                self._say(f"{error}; retrying")
                is_last = is_last and self.silent_seconds > _LAST_SECONDS
            else:
                self._written = began
            if is_last:
                return
            self._changed.wait(self._every_seconds)

    def _put(self, now: float) -> None:
        with self._lock:
            values = {"beat": self._status.beat + 1, "seconds": now - self._began}
            self._status = self._status.model_copy(update=values)
            content = self._status.model_dump_json().encode()
        self._store.put(STATUS, content)
