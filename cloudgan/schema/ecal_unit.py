"""Units of the cell energies in files of showers."""

from __future__ import annotations

from typing import Literal

EcalUnit = Literal["GeV*50", "GeV", "GeV*100", "MeV"]
"""Units that are detected, and that `--unit` states."""
