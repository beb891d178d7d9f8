"""Showers from Geant4, in a measuring process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.bench.clocks import timed
from cloudgan.simulation.geant4.engine import Engine
from cloudgan.simulation.geant4.primaries import DEFAULT_CUT_MM, Asked, primary
from cloudgan.simulation.geant4.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_THETA_DEG = (60.0, 120.0)


class Geant4Work:
    """Geant4 for electrons of one range of energies."""

    def __init__(self, tables: Mapping[str, str], energy_gev: Sequence[float]) -> None:
        """Builds the detector.

        Args:
            tables: As `Tables.as_json` gives them.
            energy_gev: The range.
        """
        self._energy_gev = (energy_gev[0], energy_gev[1])
        self._engine = Engine(Tables.from_json(tables), DEFAULT_CUT_MM)

    def answer(self, question: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Answers round: simulates `count` showers with `seed`."""
        del question
        return timed(lambda: self._simulate(given["count"], given["seed"]), given["count"])

    def _simulate(self, count: int, seed: int) -> None:
        asked = Asked(seed, self._energy_gev, _THETA_DEG)
        for number in range(count):
            self._engine.shower(primary(asked, number))
