"""Populations between ranks: one flat message of fixed size each, in step or as they arrive.

A message has the individuals' float32 states one behind the other, then their headers as JSON, padded
with blanks: so a receiver needs no second message that says how long the first is.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from cloudgan.coevolution.cell import Population
from cloudgan.coevolution.individual import Individual
from cloudgan.coevolution.task import KINDS
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import CloudganError
from cloudgan.parallel.communicator import exchange, poll_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from cloudgan.coevolution.cell import CellState
    from cloudgan.coevolution.individual import StateLayout
    from cloudgan.coevolution.task import Kind
    from cloudgan.parallel.communicator import Communicator

    Message = NDArray[np.uint8]

TAG = 1
_HEADER_BYTES = 512
"""Of an individual; its longest header has about 200."""


class Arrived(NamedTuple):
    """What a neighbour sent.

    Attributes:
        iteration: Iterations that it had done.
        population: Of that iteration; its states are views of the message.
    """

    iteration: int
    population: Population


class MessageLayout:
    """Layout of the messages of a run."""

    def __init__(self, layouts: Mapping[Kind, StateLayout], population: int) -> None:
        """Computes sizes from those of the networks."""
        self._sizes = {kind: layouts[kind].size for kind in KINDS}
        self._population = population
        self._states = 4 * population * sum(self._sizes.values())
        self.bytes = self._states + _HEADER_BYTES * (2 * population + 1)

    def empty(self) -> Message:
        """Returns room for a message."""
        return np.empty(self.bytes, np.uint8)

    def pack(self, state: CellState, into: Message) -> None:
        """Writes a cell's population into a message."""
        values, first = into[: self._states].view(np.float32), 0
        headers: dict[str, Any] = {"iteration": state.iteration}
        for kind in KINDS:
            individuals = state.population.of(kind)
            headers[kind] = [one.header() for one in individuals]
            for one in individuals:
                values[first : first + one.state.size] = one.state
                first += one.state.size
        text = json.dumps(headers).encode().ljust(self.bytes - self._states)
        into[self._states :] = np.frombuffer(text, np.uint8)

    def unpack(self, message: Message, source: int) -> Arrived:
        """Returns the population in a message of the cell `source`, without copies of its states.

        Raises:
            CloudganError: It is no population.
        """
        values, first = message[: self._states].view(np.float32), 0
        headers = parse_json(
            message[self._states :].tobytes(), f"a message of cell {source}", CloudganError
        )
        found: dict[Kind, tuple[Individual, ...]] = {}
        for kind in KINDS:
            size, individuals = self._sizes[kind], []
            for header in headers[kind]:
                individuals.append(Individual.from_header(header, values[first : first + size]))
                first += size
            found[kind] = tuple(individuals)
        return Arrived(headers["iteration"], Population(*(found[kind] for kind in KINDS)))


class Exchange(Protocol):
    """How a cell gets its neighbours' populations."""

    def gather(
        self, state: CellState, neighbours: Sequence[int], readers: Sequence[int]
    ) -> dict[int, Arrived]:
        """Sends a cell's population to its readers; returns those of its neighbours, by cell."""

    def finish(self) -> None:
        """Receives what is still on its way; all ranks call it after their last `gather`."""


class InStep:
    """All cells exchange the populations of the same iteration; each waits for its neighbours."""

    def __init__(self, ranks: Communicator, layout: MessageLayout) -> None:
        """Exchanges between `ranks`, whose numbers are those of the cells."""
        self._ranks, self._layout = ranks, layout
        self._outgoing = layout.empty()
        self._incoming: dict[int, Message] = {}

    def gather(
        self, state: CellState, neighbours: Sequence[int], readers: Sequence[int]
    ) -> dict[int, Arrived]:
        """Exchanges; what it returns is valid until the next call."""
        self._layout.pack(state, self._outgoing)
        for cell in neighbours:
            if cell not in self._incoming:
                self._incoming[cell] = self._layout.empty()
        incoming = {cell: self._incoming[cell] for cell in neighbours}
        exchange(self._ranks, dict.fromkeys(readers, self._outgoing), incoming, TAG)
        return {cell: self._layout.unpack(each, cell) for cell, each in incoming.items()}

    def finish(self) -> None:
        """Does nothing: every exchange is complete."""


class AsTheyArrive:
    """A cell sends its newest population and uses the newest that has arrived; it never waits.

    Only for the first population of a neighbour it waits, which every cell therefore sends before its first
    iteration to all that will read it. While a reader has not taken the message
    before, it is sent no other one, so that messages to a slow cell do not fill the memory.
    """

    def __init__(
        self, ranks: Communicator, layout: MessageLayout, *, meanwhile: Callable[[], None]
    ) -> None:
        """Exchanges between `ranks`, whose numbers are those of the cells.

        Args:
            ranks: The cells.
            layout: Of the messages.
            meanwhile: Called while it waits for first populations; may raise.
        """
        self._ranks, self._layout, self._meanwhile = ranks, layout, meanwhile
        self._sending: dict[int, Callable[[], bool]] = {}
        self._receiving: dict[int, tuple[Message, Callable[[], bool]]] = {}
        self._newest: dict[int, Arrived] = {}
        self._sent, self._received = [0] * ranks.size, [0] * ranks.size

    def gather(
        self, state: CellState, neighbours: Sequence[int], readers: Sequence[int]
    ) -> dict[int, Arrived]:
        """Sends, and returns the newest that has arrived."""
        ready = [cell for cell in readers if self._is_free(cell)]
        if ready:
            message = self._layout.empty()
            self._layout.pack(state, message)
            for cell in ready:
                self._sending[cell] = self._ranks.start_send(message, cell, TAG)
                self._sent[cell] += 1
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

    def _is_free(self, cell: int) -> bool:
        """Whether a reader has taken the message before."""
        is_done = self._sending.get(cell)
        return is_done is None or is_done()

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
