"""What accelerators can do at best, and what that says about one that nobody measured."""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.core.errors import DataError
from cloudgan.core.price_row import Positive, Text
from cloudgan.cost.table import read_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


class Peak(BaseModel):
    """A line of `accelerators/peaks.csv`; of a TPU, one chip."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    accelerator: Text
    float32_tflops: Positive = Field(description="as TensorFlow computes float32 by default")
    memory_gb_per_second: Positive
    source: Text
    date: Text
    checked: Literal["yes", "no"]
    note: str = ""


def load_peaks(path: Path | None = None) -> Mapping[str, Peak]:
    """Reads the peaks by accelerator; without a path those in the package.

    Raises:
        DataError: A row is wrong or stands twice; the message names file and line.
    """
    place = path or resources.files("cloudgan.cost") / "accelerators" / "peaks.csv"
    peaks: dict[str, Peak] = {}
    for line, peak in read_table(place, Peak):
        if peak.accelerator in peaks:
            raise DataError(f"{place}:{line}: {peak.accelerator} stands there twice")
        peaks[peak.accelerator] = peak
    return peaks


def speed_bounds(measured: Peak, other: Peak) -> tuple[float, float]:
    """Returns between how many times as fast as the measured one the other should be.

    A program held back by arithmetic in places and by memory in others gains something between the
    two ratios (roofline model: Williams, Waterman, Patterson, doi 10.1145/1498765.1498785). What
    holds it back beside these two, such as small batches or slow input, is not in the bounds.
    """
    ratios = (
        other.float32_tflops / measured.float32_tflops,
        other.memory_gb_per_second / measured.memory_gb_per_second,
    )
    return min(ratios), max(ratios)


def name_of_device(device: str, known: Iterable[str]) -> str | None:
    """Returns which of the `known` accelerators a driver means, such as ``Tesla V100-SXM2-16GB``.

    The longest name all of whose words stand in the driver's; None where there is none, and for a
    part of a GPU (MIG).
    """
    words = _words(device)
    fitting = [name for name in known if _words(name) <= words]
    return None if "mig" in words else max(fitting, key=len, default=None)


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", name.casefold()))
