"""Units of the cell energies in files of showers, and the flags that say what a file does not."""

from __future__ import annotations

from typing import Any, Literal

from cloudgan.core.flags import flag

EcalUnit = Literal["GeV*50", "GeV", "GeV*100", "MeV"]
"""Units that are detected, and that `--unit` states."""

UNIT: Any = flag(None, "unit of the cells in files that state none; only where several fit", "Data")
BINNING: Any = flag(
    None,
    "cells of the file; a binning XML of CaloChallenge, or a dataset.yaml of `cloudgan init dataset`",
    "Data",
    placeholder="FILE",
)
