"""The loss terms of both networks. Add one: a function in `cloudgan/models/losses.py` and an entry here.

The preset's weights, their JSON schema, and the loss columns of record and TensorBoard follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field, create_model

from cloudgan.core.document import Document


class LossTerm(NamedTuple):
    """One term of the losses.

    Attributes:
        function: `module:name` of its function, imported by the training step only.
        weight: Default weight in a preset; 0 leaves the term out of the total.
        description: One line for the JSON schema.
        generator_only: No term of the discriminator's updates; computed only with a weight.
    """

    function: str
    weight: float
    description: str
    generator_only: bool = False


LOSS_TERMS: dict[str, LossTerm] = {
    # The four published terms, arXiv:2111.04628.
    "real_fake": LossTerm(
        "cloudgan.models.losses:real_fake", 3.0, "binary cross-entropy of real against fake"
    ),
    "energy": LossTerm(
        "cloudgan.models.losses:energy", 0.1, "percentage error of the primary energy"
    ),
    "angle": LossTerm(
        "cloudgan.models.losses:angle", 25.0, "absolute error of the measured angle, rad"
    ),
    "ecal_sum": LossTerm(
        "cloudgan.models.losses:ecal_sum", 0.1, "percentage error of the sum over all cells"
    ),
    "longitudinal": LossTerm(
        "cloudgan.models.losses:longitudinal",
        0.0,
        "|batch mean of layer energy / E - training mean|, summed over layers",
        generator_only=True,
    ),
    "shape": LossTerm(
        "cloudgan.models.losses:shape",
        0.0,
        "energy score of shower shapes: layers, columns, rings, hits",
        generator_only=True,
    ),
}


class LossWeightsBase(Document):
    """Weights of the loss terms by name."""

    model_config = ConfigDict(allow_inf_nan=False)

    def __getitem__(self, name: str) -> float:
        return float(getattr(self, name))


def make_loss_weights() -> type[LossWeightsBase]:
    """Returns the model with one field for each entry of `LOSS_TERMS`."""
    fields: dict[str, Any] = {
        name: (float, Field(term.weight, ge=0, le=1e9, description=term.description))
        for name, term in LOSS_TERMS.items()
    }
    return create_model("LossWeights", __base__=LossWeightsBase, **fields)


PASSES = ("discriminator_real", "discriminator_fake", "generator")
"""Passes of a training step, the rows of its losses."""


def loss_columns() -> tuple[str, ...]:
    """Returns the columns of the losses of a training step."""
    return (*LOSS_TERMS, "total")


def loss_table(matrix: Iterable[Iterable[float]]) -> dict[str, dict[str, float]]:
    """Returns a (passes, columns) matrix as a dictionary."""
    return {
        name: {column: _rounded(value) for column, value in zip(loss_columns(), row, strict=True)}
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


def _rounded(value: float) -> float:
    return float(f"{value:.6g}") if math.isfinite(value) else float(value)
