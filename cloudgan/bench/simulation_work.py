"""Showers from the parametric source and from Geant4, in a measuring process; imports no TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.bench.measurement import round_or_latency
from cloudgan.simulation.gflash import simulate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ParametricWork:
    """The parametric source for one window of cells."""

    def __init__(self, cells: Sequence[int], energy_gev: Sequence[float] = (10.0, 100.0)) -> None:
        """Simulates showers of `cells` in x and y, of a range of energies."""
        self._cells = (cells[0], cells[1])
        self._energy_gev = (energy_gev[0], energy_gev[1])

    def answer(self, question: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Answers round and latency, see `round_or_latency`."""
        return round_or_latency(self._simulate, question, given)

    def _simulate(self, count: int, seed: int) -> None:
        for _ in simulate(count, seed=seed, energy_gev=self._energy_gev, cells=self._cells):
            pass


_THETA_DEG = (60.0, 120.0)


class Geant4Work:
    """Geant4 for electrons of one range of energies."""

    def __init__(self, tables: Mapping[str, str], energy_gev: Sequence[float]) -> None:
        """Builds the detector.

        Args:
            tables: From `Tables.as_json`.
            energy_gev: Energy range.
        """
        self._energy_gev = (energy_gev[0], energy_gev[1])
        # Imported here: the parametric source needs no Geant4.
        from cloudgan.simulation.geant4.engine import Engine  # noqa: PLC0415
        from cloudgan.simulation.geant4.events import DEFAULT_CUT_MM  # noqa: PLC0415
        from cloudgan.simulation.geant4.tables import Tables  # noqa: PLC0415

        self._engine = Engine(Tables.from_json(tables), DEFAULT_CUT_MM)

    def answer(self, question: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Answers round and latency, see `round_or_latency`."""
        return round_or_latency(self._simulate, question, given)

    def _simulate(self, count: int, seed: int) -> None:
        from cloudgan.simulation.geant4.events import PrimaryRequest, primary  # noqa: PLC0415

        asked = PrimaryRequest(seed, self._energy_gev, _THETA_DEG)
        for number in range(count):
            self._engine.simulate(primary(asked, number))
