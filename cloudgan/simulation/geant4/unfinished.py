"""What a simulation keeps beside its file until that is whole: the showers that are finished.

A folder with one line per shower, behind a first line that says which simulation it is. Whoever is
killed leaves at most half a line, which is cut off; the same command goes on from there.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np

from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.data.showers import Showers, measured_angle
from cloudgan.data.sparse_showers import SparseCells
from cloudgan.simulation.geant4.events import Event, from_line, to_line
from cloudgan.simulation.geant4.primaries import primary

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from cloudgan.simulation.geant4.primaries import Asked

SUFFIX = ".unfinished"
BLOCK = 64
"""Showers that are made dense at a time: 17 MB."""
_NOT_THERE = -1


class Unfinished:
    """Used as a context manager, by one process at a time; what it kept stays until `remove`."""

    def __init__(self, output: Path) -> None:
        """Prepares the folder beside `output`."""
        self.folder = output.with_name(output.name + SUFFIX)
        self._lines = self.folder / "showers.jsonl"
        self._offsets: NDArray[np.int64] = np.zeros(0, np.int64)

    def __enter__(self) -> Self:
        """Makes the folder, and keeps other processes away.

        Raises:
            ConfigError: Another process simulates into the same file, or the folder cannot be made.
        """
        try:
            self._is_new = not self.folder.exists()
            self.folder.mkdir(exist_ok=True)
            self._file: BinaryIO = self._lines.open("a+b")
        except OSError as error:
            raise ConfigError(f"{self.folder} cannot be written ({error.strerror})") from error
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                self._file.close()
                raise ConfigError(
                    f"another process simulates into {self.folder}; wait for it, or name another"
                    " output"
                ) from error
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it; a folder that we made goes where nothing is in it."""
        if self._is_new and not self.count:
            self.remove()
        self._file.close()

    @property
    def count(self) -> int:
        """Showers that are kept, of those that are asked for."""
        return int(np.count_nonzero(self._offsets != _NOT_THERE))

    def begin(self, identity: Mapping[str, Any], events: int, *, forget: bool) -> None:
        """Finds what is there of a simulation, and how many of its first `events` showers.

        Args:
            identity: All that decides a shower beside its number.
            events: How many are asked for.
            forget: Whether those of another simulation may go.

        Raises:
            ConfigError: They belong to another simulation.
        """
        self._offsets = np.full(events, _NOT_THERE, np.int64)
        self._file.seek(0)
        there = _identity(self._file.readline())
        if there and there != identity and not forget:
            raise ConfigError(self._another(there, identity))
        if there != identity:
            self._file.truncate(0)
            self._write(json.dumps(identity))
        else:
            self._find_lines()

    def missing(self) -> Iterator[int]:
        """Yields the numbers of showers that are not there."""
        for first in range(0, len(self._offsets), BLOCK):
            gone = np.flatnonzero(self._offsets[first : first + BLOCK] == _NOT_THERE)
            yield from (gone + first).tolist()

    def keep(self, event: Event) -> None:
        """Adds a finished shower.

        Raises:
            CloudganError: The disk is full; those before are kept.
        """
        self._offsets[event.number] = self._write(to_line(event))

    def showers(self, asked: Asked, shape: tuple[int, int, int]) -> Iterator[Showers]:
        """Yields all showers in the order of their numbers, some at a time."""
        for first in range(0, len(self._offsets), BLOCK):
            events = [self._read(int(offset)) for offset in self._offsets[first : first + BLOCK]]
            yield _dense(events, asked, shape)

    def remove(self) -> None:
        """Removes the folder: the output is whole."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _find_lines(self) -> None:
        whole = self._file.tell()
        for line in self._file:
            try:
                number = from_line(line).number
            except ValueError:
                break
            if not line.endswith(b"\n"):
                break
            if number < len(self._offsets):
                self._offsets[number] = whole
            whole += len(line)
        self._file.truncate(whole)

    def _read(self, offset: int) -> Event:
        self._file.seek(offset)
        return from_line(self._file.readline())

    def _write(self, line: str) -> int:
        """Appends a line and returns where it begins."""
        offset = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(line.encode("ascii") + b"\n")
            self._file.flush()
        except OSError as error:
            raise CloudganError(
                f"{self.folder} cannot be written ({error.strerror}); {self.count} showers are kept"
                " there. Make room and run the same command again: it goes on with them."
            ) from error
        return offset

    def _another(self, there: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
        names = [name for name in asked if asked[name] != there.get(name)]
        differ = "; ".join(f"{name} ({asked[name]}, {there.get(name)})" for name in names)
        return (
            f"{self.folder} holds showers of another simulation; asked and found there differ in"
            f" {differ}. Finish it with its own command, name another output, or say --overwrite"
            " to drop them"
        )


def _identity(line: bytes) -> dict[str, Any] | None:
    """What a first line says; None where nobody finished to write it."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and line.endswith(b"\n") else None


def _dense(events: list[Event], asked: Asked, shape: tuple[int, int, int]) -> Showers:
    sizes = [len(event.cells.place) for event in events]
    cells = SparseCells(
        np.concatenate([event.cells.place for event in events]),
        np.concatenate([event.cells.energy_gev for event in events]),
        np.concatenate(([0], np.cumsum(sizes))),
        shape,
    )
    ecal = cells.dense()
    primaries = [primary(asked, event.number) for event in events]
    energy = np.array([one.energy_gev for one in primaries], np.float32)
    theta = np.array([one.theta_rad for one in primaries], np.float32)
    return Showers(ecal, energy, theta, measured_angle(ecal))
