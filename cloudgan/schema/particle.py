"""Primary particles of simulated showers, and their attribute in files and manifests."""

from __future__ import annotations

from typing import Final, Literal

Particle = Literal["electron", "photon", "positron"]

PDG_NAMES: Final = {11: "electron", -11: "positron", 22: "photon"}
"""Names by number of the Particle Data Group."""

PARTICLE_ATTRIBUTE: Final = "particle"
"""Attribute of a file of showers; public 3DGAN files, of electrons, have none."""
