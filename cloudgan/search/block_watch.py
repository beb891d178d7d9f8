"""Which blocks in pods are alive, by the status that each writes to the store of the search."""

from __future__ import annotations

import time
from collections.abc import Collection

from cloudgan.core.documents import parse_model
from cloudgan.schema.search import BLOCKS, LEASE_SECONDS, STATUS, BlockStatus
from cloudgan.storage.store import ObjectMissingError, Store


class BlockWatch:
    """Sees by their status which blocks in pods are alive, by the clock of the process that looks."""

    def __init__(self, store: Store, lease_seconds: float = LEASE_SECONDS) -> None:
        self._store, self._lease_seconds = store, lease_seconds
        self._beats: dict[str, tuple[int | None, float]] = {}

    def names(self, worker: str = "") -> list[str]:
        """Returns the names of all blocks that begin like a worker, of their earlier incarnations too."""
        found = self._store.list(f"{BLOCKS}/{worker}")
        return [name.split("/")[1] for name in found if name.endswith(f"/{STATUS}")]

    def statuses(self) -> list[BlockStatus]:
        """Returns the last status of each block."""
        found = (self._status(name) for name in self.names())
        return [status for status in found if status]

    def why_gone(self, name: str, names: Collection[str] | None = None) -> str:
        """Returns why a block trains nothing any more; empty: it is alive, as far as this process has seen."""
        status = self._status(name)
        if status and status.left:
            return "left"
        # A worker that started again has lost what its earlier incarnation did.
        listed = self.names(_worker(name)) if names is None else names
        if any(_worker(one) == _worker(name) and one > name for one in listed):
            return "was replaced"
        now, beat = time.monotonic(), status.beat if status else None
        before, since = self._beats.get(name, (-1, now))
        if before != beat:
            self._beats[name] = beat, now
            return ""
        return "is lost" if now - since > self._lease_seconds else ""

    def _status(self, name: str) -> BlockStatus | None:
        try:
            content = self._store.read(f"{BLOCKS}/{name}/{STATUS}")
        except ObjectMissingError:
            return None
        return parse_model(content, BlockStatus, STATUS)


def _worker(name: str) -> str:
    """Deployment and number of a worker, without its incarnation, a time of two parts."""
    return name.rsplit("-", 2)[0]
