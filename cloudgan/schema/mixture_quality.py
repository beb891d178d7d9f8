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


class SampleQuality(_Document):
    """Quality of samples by the measure of the task; mixture weights minimise the score."""

    score: Loss
    details: dict[str, Loss] = Field({}, description="other figures by name")


class ChosenEnsemble(_Document):
    """Generators of any cells that give equal shares of the samples."""

    method: EnsembleMethod
    cells: tuple[int, ...] = Field(min_length=1, max_length=MAX_CELLS)
    quality: SampleQuality = Field(description="of the samples that the choice was made with")
    scored: int = Field(ge=1, description="ensembles that were measured for the choice")


class MixtureQuality(_Document):
    """The mixture of the best cell beside its members and beside an ensemble of all cells."""

    schema_version: Literal[1] = 1
    iteration: int = Field(ge=1, description="of the measured states")
    cell: int = Field(ge=0, description="the best one, whose mixture it is")
    samples: int = Field(ge=1, description="of each measurement")
    mixture: SampleQuality = Field(description="with the evolved weights")
    best_generator: SampleQuality = Field(description="the best member alone")
    best_generator_cell: int = Field(ge=0)
    uniform: SampleQuality = Field(description="all members with equal weights")
    ensemble: ChosenEnsemble | None = Field(None, description="null: none was requested")
