"""Showers from the parametric source, in a measuring process; it needs no TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.bench.clocks import timed
from cloudgan.simulation.gflash import simulate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class SimulateWork:
    """The parametric source for one window of cells."""

    def __init__(self, cells: Sequence[int], energy_gev: Sequence[float] = (10.0, 100.0)) -> None:
        """Simulates showers of `cells` in x and y, of a range of energies."""
        self._cells = (cells[0], cells[1])
        self._energy_gev = (energy_gev[0], energy_gev[1])

    def answer(self, question: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Answers round: simulates `count` showers with `seed`."""
        del question
        return timed(lambda: self._simulate(given["count"], given["seed"]), given["count"])

    def _simulate(self, count: int, seed: int) -> None:
        for _ in simulate(count, seed=seed, energy_gev=self._energy_gev, cells=self._cells):
            pass
