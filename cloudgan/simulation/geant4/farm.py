"""Geant4 on several cores: one process each, which get one number after the other.

A shower is a function of its number, so who simulates it does not matter, nor how many there are.
"""

from __future__ import annotations

import selectors
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Self

from cloudgan.simulation.geant4.events import Event, from_line
from cloudgan.simulation.geant4.library import check_installed
from cloudgan.simulation.geant4.process import WorkerProcess
from cloudgan.simulation.geant4.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cloudgan.simulation.geant4.primaries import Asked

_AHEAD = 2
"""Numbers that a worker has before it: the next one waits while an answer is read."""


class Installation(NamedTuple):
    """The Geant4 that is here.

    Attributes:
        geant4: Its version.
        package: Version of the package that binds it.
        tables: What it reads.
    """

    geant4: str
    package: str
    tables: Tables


def prepare(folder: Path, data: Path | None) -> Installation:
    """Gets Geant4 ready in a process of its own, which takes a second.

    Args:
        folder: Where tables are written, or what stands for those that nobody reads.
        data: The user's own data files of CERN; None: ours are written.

    Raises:
        ModuleNotFoundError: The package is missing.
        ConfigError: A library of the system is missing, or `data` does not hold what Geant4 needs.
    """
    check_installed()
    task = {"folder": str(folder.resolve()), "data": str(data.resolve()) if data else None}
    with WorkerProcess(task) as worker:
        found = worker.answer()
    return Installation(found["geant4"], found["package"], Tables.from_json(found["tables"]))


class Farm:
    """Used as a context manager: its processes end with it."""

    def __init__(self, asked: Asked, tables: Tables, workers: int) -> None:
        """Prepares so many processes."""
        self._task = {"asked": asked.as_json(), "tables": tables.as_json()}
        self._workers = workers
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Starts them; each builds its detector, which takes a second."""
        with ExitStack() as stack:
            self._all = [
                stack.enter_context(WorkerProcess(self._task)) for _ in range(self._workers)
            ]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends them."""
        self._stack.close()

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The system's numbers of them."""
        return tuple(worker.process_id for worker in self._all)

    def events(self, numbers: Iterable[int]) -> Iterator[Event]:
        """Yields the showers of `numbers` as they are finished, in any order.

        Raises:
            CloudganError: A process died; the message ends with what it said last.
        """
        left = iter(numbers)
        busy = dict.fromkeys(self._all, 0)
        with selectors.DefaultSelector() as selector:
            for worker in self._all:
                selector.register(worker, selectors.EVENT_READ)
                busy[worker] += _give(worker, islice(left, _AHEAD))
            while any(busy.values()):
                for key, _ in selector.select():
                    worker = next(one for one in self._all if one is key.fileobj)
                    lines = worker.read()
                    busy[worker] += _give(worker, islice(left, len(lines))) - len(lines)
                    yield from map(from_line, lines)


def _give(worker: WorkerProcess, numbers: Iterable[int]) -> int:
    count = 0
    for number in numbers:
        worker.send(str(number))
        count += 1
    return count
