"""Peak performance of accelerators, and bounds for accelerators that were not measured."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.core.errors import DataError
from cloudgan.core.table import read_table
from cloudgan.schema.price_row import Positive, Text


class AcceleratorSpec(Document):
    """A row of `accelerator_specs.csv`: one GPU, or one TPU chip."""

    accelerator: Text
    float32_tflops: Positive = Field(description="as TensorFlow computes float32 by default")
    memory_gb_per_second: Positive
    source: Text
    date: Text
    checked: Literal["yes", "no"]
    note: str = ""


@functools.cache
def load_accelerator_specs(path: Path | None = None) -> Mapping[str, AcceleratorSpec]:
    """Reads the specs by accelerator; without a path those of the package.

    Raises:
        DataError: A row is invalid or duplicated; the message names file and line.
    """
    place = path or resources.files("cloudgan.speed") / "accelerator_specs.csv"
    specs: dict[str, AcceleratorSpec] = {}
    for line, spec in read_table(place, AcceleratorSpec):
        if spec.accelerator in specs:
            raise DataError(f"{place}:{line}: duplicate row of {spec.accelerator}")
        specs[spec.accelerator] = spec
    return specs


def speed_bounds(measured: AcceleratorSpec, other: AcceleratorSpec) -> tuple[float, float]:
    """Returns lower and upper bound of the speed-up from the measured to the other accelerator.

    A program bound partly by arithmetic and partly by memory gains between the two ratios (roofline
    model: Williams, Waterman, Patterson, doi 10.1145/1498765.1498785). Other limits, such as small
    batches or slow input, are not in the bounds.
    """
    ratios = (
        other.float32_tflops / measured.float32_tflops,
        other.memory_gb_per_second / measured.memory_gb_per_second,
    )
    return min(ratios), max(ratios)


def name_of_device(device: str, known: Iterable[str]) -> str | None:
    """Returns the `known` accelerator of a driver's device name, such as ``Tesla V100-SXM2-16GB``.

    It is the longest name all of whose words are in the device name; None without one, and for a
    part of a GPU (MIG).
    """
    words = _words(device)
    fitting = [name for name in known if _words(name) <= words]
    return None if "mig" in words else max(fitting, key=len, default=None)


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", name.casefold()))
