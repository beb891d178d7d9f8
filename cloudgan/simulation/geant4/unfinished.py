"""Finished showers of a running or interrupted simulation, in a folder beside the output file.

The first line of the file identifies the simulation, each further line is a shower. A killed process leaves
at most one partial line, which is truncated; the same command resumes.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np

from cloudgan.core.documents import parse_json
from cloudgan.core.errors import CloudganError, ConfigError, DataError
from cloudgan.data.showers import Showers, measured_angle
from cloudgan.data.sparse_showers import SparseCells
from cloudgan.simulation.geant4.events import Event, from_line, primary, to_line

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from cloudgan.simulation.geant4.events import PrimaryRequest

SUFFIX = ".unfinished"
BLOCK = 64
"""Showers made dense at once: 17 MB."""
_MISSING = -1


class PartialOutput:
    """Context manager, for one process at a time; showers are kept until `remove`."""

    def __init__(self, output: Path) -> None:
        """Sets the folder beside `output`."""
        self.folder = output.with_name(output.name + SUFFIX)
        self._lines = self.folder / "showers.jsonl"
        self._offsets: NDArray[np.int64] = np.zeros(0, np.int64)

    def __enter__(self) -> Self:
        """Creates and locks the folder.

        Raises:
            ConfigError: Another process simulates into the same file, or the folder cannot be created.
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
                    f"another process simulates into {self.folder}; wait for it, or use another"
                    " output"
                ) from error
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the file; removes a new folder without showers."""
        if self._is_new and not self.count:
            self.remove()
        self._file.close()

    @property
    def count(self) -> int:
        """Number of requested showers that are finished."""
        return int(np.count_nonzero(self._offsets != _MISSING))

    def begin(self, identity: Mapping[str, Any], events: int, *, discard_other: bool) -> None:
        """Finds the finished showers among the first `events` of a simulation.

        Args:
            identity: Values that determine a shower besides its number.
            events: Number of requested showers.
            discard_other: Discard showers of another simulation.

        Raises:
            ConfigError: The showers belong to another simulation.
        """
        self._offsets = np.full(events, _MISSING, np.int64)
        self._file.seek(0)
        found = _identity(self._file.readline())
        if found and found != identity and not discard_other:
            raise ConfigError(self._another(found, identity))
        if found != identity:
            self._file.truncate(0)
            self._write(json.dumps(identity))
        else:
            self._find_lines()

    def missing(self) -> Iterator[int]:
        """Yields the numbers of missing showers."""
        for first in range(0, len(self._offsets), BLOCK):
            gone = np.flatnonzero(self._offsets[first : first + BLOCK] == _MISSING)
            yield from (gone + first).tolist()

    def keep(self, event: Event) -> None:
        """Appends a finished shower.

        Raises:
            CloudganError: The disk is full; earlier showers are kept.
        """
        self._offsets[event.number] = self._write(to_line(event))

    def showers(self, request: PrimaryRequest, shape: tuple[int, int, int]) -> Iterator[Showers]:
        """Yields all showers in the order of their numbers, in blocks."""
        for first in range(0, len(self._offsets), BLOCK):
            events = [self._read(int(offset)) for offset in self._offsets[first : first + BLOCK]]
            yield dense_showers(events, request, shape)

    def remove(self) -> None:
        """Removes the folder after the output is complete."""
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
        """Appends a line and returns its offset."""
        offset = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(line.encode("ascii") + b"\n")
            self._file.flush()
        except OSError as error:
            raise CloudganError(
                f"{self.folder} cannot be written ({error.strerror}); {self.count} showers are kept"
                " there. Free disk space and rerun the command to resume."
            ) from error
        return offset

    def _another(self, found: Mapping[str, Any], requested: Mapping[str, Any]) -> str:
        names = [name for name in requested if requested[name] != found.get(name)]
        differ = "; ".join(f"{name} ({requested[name]}, {found.get(name)})" for name in names)
        return (
            f"{self.folder} holds showers of another simulation; requested and found values differ:"
            f" {differ}. Finish it with its own command, use another output, or give --overwrite"
            " to discard them"
        )


def _identity(line: bytes) -> dict[str, Any] | None:
    """Parses the first line; None if it is incomplete."""
    try:
        found = parse_json(line, "identity")
    except DataError:
        return None
    return found if isinstance(found, dict) and line.endswith(b"\n") else None


def dense_showers(
    events: list[Event], request: PrimaryRequest, shape: tuple[int, int, int]
) -> Showers:
    """Returns events as dense images with the energies and angles of their primaries."""
    sizes = [len(event.cells.flat_index) for event in events]
    cells = SparseCells(
        np.concatenate([event.cells.flat_index for event in events]),
        np.concatenate([event.cells.energy_gev for event in events]),
        np.concatenate(([0], np.cumsum(sizes))),
        shape,
    )
    ecal = cells.dense()
    primaries = [primary(request, event.number) for event in events]
    energy = np.array([one.energy_gev for one in primaries], np.float32)
    theta = np.array([one.theta_rad for one in primaries], np.float32)
    return Showers(ecal, energy, theta, measured_angle(ecal))
