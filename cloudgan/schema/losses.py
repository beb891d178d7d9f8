"""The loss terms of both networks. Add one: a weight here, and its function in `FUNCTIONS` of `cloudgan/gan/losses.py`.

The weights' JSON schema, and the loss columns of record and TensorBoard follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field

from cloudgan.core.document import FiniteDocument


def _weight(default: float, description: str) -> Any:
    return Field(default, ge=0, le=1e9, description=description)


class LossWeights(FiniteDocument):
    """Weights of the loss terms by name; 0 leaves a term out of the total."""

    # The four published terms, arXiv:2111.04628.
    real_fake: float = _weight(3.0, "binary cross-entropy of real against fake")
    energy: float = _weight(0.1, "percentage error of the primary energy")
    angle: float = _weight(25.0, "absolute error of the measured angle, rad")
    ecal_sum: float = _weight(0.1, "percentage error of the sum over all cells")
    longitudinal: float = _weight(
        0.0, "|batch mean of layer energy / E - training mean|, summed over layers"
    )
    shape: float = _weight(0.0, "energy score of shower shapes: layers, columns, rings, hits")

    def __getitem__(self, name: str) -> float:
        return float(getattr(self, name))


LOSS_TERMS = tuple(LossWeights.model_fields)
GENERATOR_TERMS = frozenset({"longitudinal", "shape"})
"""No terms of the discriminator's updates; computed only with a weight."""

PASSES = ("discriminator_real", "discriminator_fake", "generator")
"""Passes of a training step, the rows of its losses."""


def loss_columns() -> tuple[str, ...]:
    """Returns the columns of the losses of a training step."""
    return (*LOSS_TERMS, "total")


def loss_table(matrix: Iterable[Iterable[float]]) -> dict[str, dict[str, float]]:
    """Returns a (passes, columns) matrix as a dictionary."""
    return {
        name: {
            column: float(f"{value:.6g}") if math.isfinite(value) else float(value)
            for column, value in zip(loss_columns(), row, strict=True)
        }
        for name, row in zip(PASSES, matrix, strict=True)
    }


def loss_note(matrix: Iterable[Iterable[float]]) -> str:
    """Returns the totals of both networks, such as ``G 65.2  D 23.9``; see `totals`."""
    generator, discriminator = totals(loss_table(matrix))
    return f"G {generator:.3g}  D {discriminator:.3g}"


def totals(losses: Mapping[str, Mapping[str, float]]) -> tuple[float, float]:
    """Returns the loss of the generator and that of the discriminator, its mean over real and fake.

    NaN is unknown: a record can come from another version.
    """
    real, fake, generator = (losses.get(name, {}).get("total", math.nan) for name in PASSES)
    return generator, (real + fake) / 2
