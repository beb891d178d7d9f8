"""The journal of a search, Optuna's list of operations: a file here, numbered objects in a store across machines."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from optuna.storages.journal import (
    BaseJournalBackend,
    JournalFileBackend,
    JournalFileSymlinkLock,
)

from cloudgan.core.documents import parse_json
from cloudgan.core.file_lock import cut_last_line
from cloudgan.storage.store import ObjectExistsError, ObjectMissingError, Store

ENTRIES, SNAPSHOTS = "journal", "journal-snapshots"
SNAPSHOT_ENTRIES = 100
_LOCK_SECONDS = 3
"""A write takes milliseconds: an older lock is that of a killed process."""


class _Lock(JournalFileSymlinkLock):
    """Optuna's lock of the journal; its holder first removes the line that a killed process left half."""

    def __init__(self, file: Path) -> None:
        # Absolute, because the lock is a link to the file, whose time tells how old the lock is.
        super().__init__(str(file.absolute()), grace_period=_LOCK_SECONDS)
        self._file = file

    def acquire(self) -> bool:
        """Waits for the lock; one that a killed process left is removed after `_LOCK_SECONDS`."""
        super().acquire()
        cut_last_line(self._file)
        return True


def file_journal(file: Path) -> BaseJournalBackend:
    """Opens the journal in a file, which is created."""
    return JournalFileBackend(str(file), _Lock(file))


class StoreJournal(BaseJournalBackend):
    """A journal in a store: an object per entry, created only if absent, so that each number has one writer.

    Each full hundred of entries is one object more, a snapshot, which the first reader of that hundred writes: a
    process that joins late reads an object per hundred, and no folder is listed.
    """

    def __init__(self, store: Store) -> None:
        """Takes the store of the search; sends no request."""
        self.store = store
        self.entries: list[dict[str, Any]] = []
        """All that was read."""

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Reads new entries; returns those from a number on."""
        with contextlib.suppress(ObjectMissingError):
            while True:
                self._read_next()
        yield from self.entries[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Appends entries behind those of all other processes."""
        number = len(self.entries)
        for log in logs:
            content = json.dumps(log).encode()
            while True:
                number += 1
                with contextlib.suppress(ObjectExistsError):
                    self.store.put(_name(ENTRIES, number - 1), content, if_absent=True)
                    break

    def _read_next(self) -> None:
        """Reads the next entry, or the next hundred of a snapshot."""
        number = len(self.entries)
        if number % SNAPSHOT_ENTRIES == 0:
            with contextlib.suppress(ObjectMissingError):
                self.entries += self._read(_name(SNAPSHOTS, number))
                return
        self.entries.append(self._read(_name(ENTRIES, number)))
        if len(self.entries) % SNAPSHOT_ENTRIES == 0:
            content = json.dumps(self.entries[-SNAPSHOT_ENTRIES:]).encode()
            first = len(self.entries) - SNAPSHOT_ENTRIES
            with contextlib.suppress(ObjectExistsError):
                self.store.put(_name(SNAPSHOTS, first), content, if_absent=True)

    def _read(self, name: str) -> Any:
        return parse_json(self.store.read(name), name)


def _name(folder: str, number: int) -> str:
    return f"{folder}/{number:08d}.json"
