"""The `simulation` section of run.yaml, and what a file of showers states of them or flags say."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from cloudgan.core.document import FiniteDocument
from cloudgan.core.flags import RANGE, flag
from cloudgan.core.ranges import MAX_SHOWERS

Particle = Literal["electron", "photon", "positron"]

PDG_NAMES: Final = {11: "electron", -11: "positron", 22: "photon"}
"""Names by number of the Particle Data Group."""

PARTICLE_ATTRIBUTE: Final = "particle"
"""Attribute of a file of showers; public 3DGAN files, of electrons, have none."""

EcalUnit = Literal["GeV*50", "GeV", "GeV*100", "MeV"]
"""Units that are detected, and that `--unit` states."""

UNIT: Any = flag(None, "unit of the cells in files that state none; only where several fit", "Data")
BINNING: Any = flag(
    None,
    "cells of the file; a binning XML of CaloChallenge, or a dataset.yaml of `cloudgan init dataset`",
    "Data",
    placeholder="FILE",
)

Task = Literal["train", "simulate"]
"""Program of the workers of a run."""

SHARD_INFO: Final = "shard-info"
"""Folder of a run in its store with a JSON document per finished shard."""
SHOWERS: Final = "showers"
"""Folder of a run in its store with the simulated shards and their manifest."""

_Gev = Annotated[float, Field(ge=1, le=1000)]
_Degrees = Annotated[float, Field(ge=45, le=135)]


class SimulationConfig(FiniteDocument):
    """Showers of Geant4, flat in energy and angle; with the seed of the run they determine the data set."""

    engine: Literal["geant4"] = "geant4"
    showers: int = flag(1000, "showers of all workers together", "Showers", ge=1, le=MAX_SHOWERS)
    energy_gev: Annotated[tuple[_Gev, _Gev], RANGE] = flag(
        (10.0, 100.0), "primary energy in GeV; flat between both", "Showers", name="energy"
    )
    theta_deg: Annotated[tuple[_Degrees, _Degrees], RANGE] = flag(
        (60.0, 120.0), "polar angle in degrees; flat between both", "Showers", name="theta"
    )
    particle: Particle = flag("electron", "primary particle", "Showers")
    cut_mm: float = flag(0.7, "production cut of Geant4 in mm", "Showers", ge=0.01, le=10)
    showers_per_shard: int = flag(
        256,
        "showers of a file; a killed worker may lose so many",
        "Showers",
        name="records-per-shard",
        ge=1,
        le=10**6,
    )

    @model_validator(mode="after")
    def _lower_bounds_first(self) -> Self:
        for name, (low, high) in (("energy_gev", self.energy_gev), ("theta_deg", self.theta_deg)):
            if low > high:
                raise ValueError(f"{name} is {low:g} to {high:g}; give the lower bound first")
        return self

    @property
    def shards(self) -> int:
        """Number of shards."""
        return -(-self.showers // self.showers_per_shard)

    def events(self, shard: int) -> range:
        """Returns the numbers of the showers of a shard."""
        first = shard * self.showers_per_shard
        return range(first, min(first + self.showers_per_shard, self.showers))

    def shards_of(self, worker: int, workers: int) -> range:
        """Returns the shards of a worker: every n-th, so that a stopped run has the first ones of all."""
        return range(worker, self.shards, workers)

    def finished(self, shards: int) -> int:
        """Returns the showers of a number of finished shards, at most all."""
        return min(shards * self.showers_per_shard, self.showers)
