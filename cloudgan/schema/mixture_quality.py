"""`MixtureQuality`, the schema of mixture_quality.json: what the mixture of a grid is worth."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from cloudgan.core.document import Document
from cloudgan.schema.coevolution import MAX_CELLS
from cloudgan.schema.record_line import Loss

EnsembleMethod = Literal["greedy", "genetic"]


class _Document(Document):
    model_config = ConfigDict(ser_json_inf_nan="strings")


class MeasuredQuality(_Document):
    """Quality of samples by the measure of the task.

    Attributes:
        score: Lower is better.
        details: Other figures by name.
    """

    score: Loss
    details: dict[str, Loss] = Field(default_factory=dict)


class ChosenEnsemble(_Document):
    """Generators of any cells that give equal shares of the samples.

    Attributes:
        method: How they were chosen.
        cells: Their cells.
        quality: Of samples of the ensemble; those that the choice was made with.
        scored: Ensembles that were measured for the choice.
    """

    method: EnsembleMethod
    cells: tuple[int, ...] = Field(min_length=1, max_length=MAX_CELLS)
    quality: MeasuredQuality
    scored: int = Field(ge=1)


class MixtureQuality(_Document):
    """The mixture of the best cell beside its members and beside an ensemble of all cells.

    Attributes:
        iteration: Of the measured states.
        cell: The best cell, whose mixture it is.
        samples: Of each measurement.
        mixture: With the evolved weights.
        best_generator: The best member alone.
        best_generator_cell: Cell of that member.
        uniform: All members with equal weights.
        ensemble: None if none was requested.
    """

    schema_version: Literal[1] = 1
    iteration: int = Field(ge=1)
    cell: int = Field(ge=0)
    samples: int = Field(ge=1)
    mixture: MeasuredQuality
    best_generator: MeasuredQuality
    best_generator_cell: int = Field(ge=0)
    uniform: MeasuredQuality
    ensemble: ChosenEnsemble | None = None
