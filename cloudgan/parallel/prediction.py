"""Speed-up, staleness and load of masters for any number of workers, by discrete-event simulation.

A worker computes, sends its update to its master, waits until the master has served the updates that
came before, and computes again from the answer. A master serves one update at a time; under rank 0 it
exchanges with it after some updates, and serves nothing meanwhile. All times are measured on few
ranks, or given; a prediction is no measurement, and is marked so wherever it is shown.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

_WARM_UP_UPDATES, _COUNTED_UPDATES = 15, 45
"""Of each worker."""
_LEAST = 0.1
"""Shortest step over the mean one, whatever the jitter."""


@dataclass(frozen=True)
class Times:
    """What an exchange consists of, in seconds.

    Seconds: `step` of a worker; `service` of a master for one update, to receive, apply and answer;
    `message` on the way to the master, and as long on the way back; `plain_step` of a training without
    ranks, to which a speed-up compares. `jitter` is the relative standard deviation of a step.
    """

    step: float
    service: float
    message: float = 0.0
    plain_step: float | None = None
    sync_every: int = 1
    jitter: float = 0.05


@dataclass(frozen=True)
class SteadyState:
    """The steady state of a layout.

    `speedup` is steps per second of all workers, over those of the plain training; `staleness` the mean
    number of updates of a master between a worker's fetch and its update. Loads are shares of the time in
    which a master serves workers, and rank 0 masters; `waiting` the share in which a worker does not
    compute.
    """

    workers: int
    masters: int
    speedup: float
    staleness: float
    master_load: float
    top_load: float | None
    waiting: float

    def as_json(self) -> dict[str, Any]:
        """Returns the row of a table."""
        return {
            "kind": "predicted",
            "workers": self.workers,
            "masters": self.masters,
            "speedup": round(self.speedup, 3),
            "per_worker": round(self.speedup / self.workers, 3),
            "staleness": round(self.staleness, 2),
            "master_load": round(self.master_load, 3),
            "top_load": None if self.top_load is None else round(self.top_load, 3),
            "waiting": round(self.waiting, 3),
        }


NNLO: Final = Times(step=2.0, service=0.05, plain_step=1.0)
"""Times, in plain steps, that reproduce the speed-up of NNLO's 3DGAN under EASGD: a distributed worker
takes twice the time of a plain training, and the master a twentieth of it per update. J.-R. Vlimant et
al., EPJ Web Conf. 214 (2019) 06025, doi:10.1051/epjconf/201921406025."""

NNLO_PUBLISHED: Final = {20: 10.0, 100: 20.0}
"""Speed-up by workers, as published: half a worker each up to about 20, and 20 at 100."""


def predict(
    times: Times, workers: int, *, masters: int = 1, master_sync_every: int = 8, seed: int = 0
) -> SteadyState:
    """Simulates a layout until its steady state is known to about one percent."""
    return _Simulation(times, workers, masters, master_sync_every, random.Random(seed)).run()


@dataclass
class _Server:
    """A master: serves one request at a time, in order of arrival."""

    waiting: deque[int] = field(default_factory=deque)
    is_busy: bool = False
    clock: int = 0
    busy_seconds: float = 0.0


class _Simulation:
    """Events in order of time: an update arrives at a master, is served; the same at rank 0."""

    def __init__(
        self, times: Times, workers: int, masters: int, every: int, rng: random.Random
    ) -> None:
        self._times, self._every, self._rng = times, every, rng
        self._masters = [_Server() for _ in range(masters)]
        self._top = _Server()
        self._master_of = [worker * masters // workers for worker in range(workers)]
        self._events: list[tuple[float, int, Callable[[int], None], int]] = []
        self._pushed = 0
        self._seen = [0] * workers
        self._now = self._begin = 0.0
        self._served = self._staleness = 0

    def run(self) -> SteadyState:
        """Serves the updates of the warm-up, then those that are counted."""
        workers = len(self._seen)
        period = self._times.step * self._times.sync_every
        for worker in range(workers):
            self._compute(worker, self._rng.random() * period)
        for updates in (_WARM_UP_UPDATES * workers, _COUNTED_UPDATES * workers):
            self._begin, self._served, self._staleness = self._now, 0, 0
            for server in (*self._masters, self._top):
                server.busy_seconds = 0.0
            while self._served < updates:
                self._now, _, handle, number = heapq.heappop(self._events)
                handle(number)
        return self._result(workers)

    def _result(self, workers: int) -> SteadyState:
        elapsed, times = self._now - self._begin, self._times
        masters = len(self._masters)
        steps = self._served * times.sync_every
        busy = sum(master.busy_seconds for master in self._masters)
        return SteadyState(
            workers,
            masters,
            speedup=steps * (times.plain_step or times.step) / elapsed,
            staleness=self._staleness / self._served,
            master_load=min(1.0, busy / elapsed / masters),
            top_load=min(1.0, self._top.busy_seconds / elapsed) if masters > 1 else None,
            waiting=max(0.0, 1.0 - steps * times.step / elapsed / workers),
        )

    def _push(self, seconds: float, handle: Callable[[int], None], number: int) -> None:
        self._pushed += 1  # orders events of the same time
        heapq.heappush(self._events, (self._now + seconds, self._pushed, handle, number))

    def _compute(self, worker: int, answered_after: float) -> None:
        """Lets a worker compute when its answer is there, and its update arrive."""
        times = self._times
        spread = times.jitter * times.sync_every**0.5
        steps = max(_LEAST * times.sync_every, self._rng.gauss(times.sync_every, spread))
        master = self._masters[self._master_of[worker]]
        arrives = partial(self._arrives, master, self._was_served)
        self._push(answered_after + steps * times.step + times.message, arrives, worker)

    def _arrives(self, server: _Server, then: Callable[[int], None], number: int) -> None:
        server.waiting.append(number)
        self._serve(server, then)

    def _serve(self, server: _Server, then: Callable[[int], None]) -> None:
        """Lets an idle server begin with the update that has waited longest."""
        if server.waiting and not server.is_busy:
            server.is_busy = True
            server.busy_seconds += self._times.service
            self._push(self._times.service, then, server.waiting.popleft())

    def _was_served(self, worker: int) -> None:
        number = self._master_of[worker]
        master = self._masters[number]
        self._served += 1
        self._staleness += master.clock - self._seen[worker]
        master.clock += 1
        self._seen[worker] = master.clock
        self._compute(worker, self._times.message)
        if len(self._masters) > 1 and master.clock % self._every == 0:
            arrives = partial(self._arrives, self._top, self._was_served_at_top)
            self._push(self._times.message, arrives, number)
            return
        self._continues(number)

    def _continues(self, number: int) -> None:
        self._masters[number].is_busy = False
        self._serve(self._masters[number], self._was_served)

    def _was_served_at_top(self, number: int) -> None:
        self._top.is_busy = False
        self._push(self._times.message, self._continues, number)
        self._serve(self._top, self._was_served_at_top)
