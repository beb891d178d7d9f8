"""Primary particles of simulated showers, and their attribute in files and manifests."""

from __future__ import annotations

from typing import Final, Literal

Particle = Literal["electron", "photon", "positron"]

PARTICLE_ATTRIBUTE: Final = "particle"
"""Attribute of a file of showers; public 3DGAN files, of electrons, have none."""
