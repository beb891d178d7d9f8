"""The status of a search's block in the store, written at every beat and soon after it changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from cloudgan.schema.search_exchange import STATUS, BlockStatus
from cloudgan.storage.store import Store
from cloudgan.worker.store_sync import Upload, Uploader

_LAST_SECONDS = 10.0


class StatusBeat:
    """Writes the status in a thread, so that downloads and uploads do not delay it."""

    def __init__(
        self, store: Store, status: BlockStatus, say: Callable[[str], None], *, every_seconds: float
    ) -> None:
        """Starts it; a failing store is logged once until it works again."""
        self._store = store
        self._status, self._changes, self._lock = status, 0, threading.Lock()
        self._began = self._written = time.monotonic()
        beat = Upload(STATUS, lambda: self._changes, self._put, every_seconds, periodic=True)
        self._uploader = Uploader([beat], say)

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
            self._changes += 1

    def close(self) -> None:
        """Writes that the block has left, and ends the thread."""
        self.change(left=True)
        self._uploader.close([], patience_seconds=_LAST_SECONDS)

    def _put(self) -> None:
        began = time.monotonic()
        with self._lock:
            values = {"beat": self._status.beat + 1, "seconds": began - self._began}
            self._status = self._status.model_copy(update=values)
            content = self._status.model_dump_json().encode()
        self._store.put(STATUS, content)
        self._written = began
