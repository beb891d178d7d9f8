"""How a cell that is a rank gets its neighbours' populations: in step, or as they arrive.

A population is one flat message of fixed size: the individuals' float32 states one behind
the other, then their headers as JSON, padded with blanks, so that a receiver needs no second message
that says how long the first is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudgan.coevolution.cell import CellState, Population
from cloudgan.coevolution.grid import Grid
from cloudgan.coevolution.task import KINDS, Kind
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import CloudganError
from cloudgan.ranks.flat import FlatLayout
from cloudgan.ranks.mpi import World, poll_until
from cloudgan.schema.coevolution import CoevolutionConfig

Message = NDArray[np.uint8]

TAG = 1
_HEADER_BYTES = 512
"""Of an individual; its longest header has about 200."""


class Arrived(NamedTuple):
    """What a neighbour sent."""

    iteration: int
    population: Population


class MessageLayout:
    """Layout of the messages of a run."""

    def __init__(self, layouts: Mapping[Kind, FlatLayout], population: int) -> None:
        sizes = [layouts[kind].size for kind in KINDS for _ in range(population)]
        self._ends = np.cumsum(sizes)
        self._states = 4 * int(self._ends[-1])
        self.bytes = self._states + _HEADER_BYTES * (2 * population + 1)

    def empty(self) -> Message:
        """Returns room for a message."""
        return np.empty(self.bytes, np.uint8)

    def pack(self, state: CellState, into: Message) -> None:
        """Writes a cell's population into a message."""
        np.concatenate(state.population.states(), out=into[: self._states].view(np.float32))
        headers = {"iteration": state.iteration, **state.population.headers()}
        text = json.dumps(headers).encode().ljust(self.bytes - self._states)
        into[self._states :] = np.frombuffer(text, np.uint8)

    def unpack(self, message: Message, source: int) -> Arrived:
        """Returns the population in a message of the cell `source`, without copies of its states."""
        headers = parse_json(
            message[self._states :].tobytes(), f"a message of cell {source}", CloudganError
        )
        states = np.split(message[: self._states].view(np.float32), self._ends[:-1])
        return Arrived(headers["iteration"], Population.from_headers(headers, states))


class Exchange:
    """All cells exchange the populations of the same iteration; each waits for its neighbours.

    The numbers of the ranks are those of the cells.
    """

    def __init__(
        self,
        ranks: World,
        grid: Grid,
        config: CoevolutionConfig,
        layouts: Mapping[Kind, FlatLayout],
    ) -> None:
        self._ranks, self._config = ranks, config
        self._layout = MessageLayout(layouts, config.population)
        self._readers = partial(grid.readers, ranks.rank)
        self._outgoing = self._layout.empty()
        self._incoming: dict[int, Message] = {}

    def begin(self, state: CellState) -> None:
        """Sends what other cells wait for before their first iteration: in step, nothing."""

    def gather(self, state: CellState, neighbours: Sequence[int]) -> dict[int, Arrived]:
        """Exchanges; what it returns is valid until the next call."""
        self._layout.pack(state, self._outgoing)
        incoming = {
            cell: self._incoming.setdefault(cell, self._layout.empty()) for cell in neighbours
        }
        readers = self._readers(self._config.neighbourhood_at(state.iteration))
        self._ranks.exchange(dict.fromkeys(readers, self._outgoing), incoming, TAG)
        return {cell: self._layout.unpack(each, cell) for cell, each in incoming.items()}

    def finish(self) -> None:
        """Receives what is still on its way; all ranks call it after their last `gather`."""


class AsTheyArrive(Exchange):
    """A cell sends its newest population and uses the newest that has arrived; it never waits.

    Only for the first population of a neighbour it waits, which every cell therefore sends before its first
    iteration to all that will read it: after a restart it may have no iteration left, or none with that
    neighbour in its neighbourhood. While a reader has not taken the message before, it is sent no other
    one, so that messages to a slow cell do not fill the memory.
    """

    def __init__(
        self,
        ranks: World,
        grid: Grid,
        config: CoevolutionConfig,
        layouts: Mapping[Kind, FlatLayout],
        *,
        meanwhile: Callable[[], None],
    ) -> None:
        """Exchanges between `ranks`; calls `meanwhile`, which may raise, while it waits."""
        super().__init__(ranks, grid, config, layouts)
        self._meanwhile = meanwhile
        self._sending: dict[int, Callable[[], bool]] = {}
        self._receiving: dict[int, tuple[Message, Callable[[], bool]]] = {}
        self._newest: dict[int, Arrived] = {}
        self._sent, self._received = [0] * ranks.size, [0] * ranks.size

    def begin(self, state: CellState) -> None:
        """Sends the population to all cells that will read one."""
        kinds = self._config.neighbourhoods
        self._send(state, sorted({cell for kind in kinds for cell in self._readers(kind)}))

    def gather(self, state: CellState, neighbours: Sequence[int]) -> dict[int, Arrived]:
        """Sends, and returns the newest that has arrived."""
        self._send(state, self._readers(self._config.neighbourhood_at(state.iteration)))
        for cell in neighbours:
            self._take(cell)
            if cell not in self._newest:
                poll_until(partial(self._take, cell), self._meanwhile)
        return {cell: self._newest[cell] for cell in neighbours}

    def finish(self) -> None:
        """Receives the messages that the other ranks sent until their ends."""
        expected = [sent[self._ranks.rank] for sent in self._ranks.gather(self._sent)]
        for cell, count in enumerate(expected):
            while self._received[cell] < count:
                poll_until(partial(self._take, cell))
        for is_done in self._sending.values():
            poll_until(is_done)

    def _send(self, state: CellState, readers: Sequence[int]) -> None:
        """Sends to the readers that have taken the message before."""
        ready = [cell for cell in readers if cell not in self._sending or self._sending[cell]()]
        if not ready:
            return
        message = self._layout.empty()
        self._layout.pack(state, message)
        for cell in ready:
            self._sending[cell] = self._ranks.start_send(message, cell, TAG)
            self._sent[cell] += 1

    def _take(self, cell: int) -> bool:
        """Takes all messages of a cell that have arrived; returns whether there were some."""
        before = self._received[cell]
        while True:
            if cell not in self._receiving:
                if not self._ranks.poll(cell, TAG):
                    break
                message = self._layout.empty()
                self._receiving[cell] = message, self._ranks.start_receive(message, cell, TAG)
            message, has_arrived = self._receiving[cell]
            if not has_arrived():
                break
            del self._receiving[cell]
            self._newest[cell] = self._layout.unpack(message, cell)
            self._received[cell] += 1
        return self._received[cell] > before
