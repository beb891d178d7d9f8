"""The options of a grid of cells: keyword arguments and flags, laid over the folder's coevolution.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pydantic import ValidationError

from cloudgan.core.documents import explain
from cloudgan.core.errors import ConfigError
from cloudgan.schema.coevolution import CoevolutionConfig, parse_grid, parse_schedule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class GridOptions(TypedDict, total=False):
    """What is trained and how it evolves; see `cloudgan evolve --help`. None is not set."""

    grid: str | None
    task: Literal["showers", "ring"] | None
    data: str | None
    engine: Literal["one", "ranks"] | None
    asynchronous: bool | None
    iterations: int | None
    batches: int | None
    batch: int | None
    neighbourhood: Literal["von_neumann", "moore", "ring", "all", "none"] | None
    neighbourhood_schedule: str | None
    population: int | None
    tournament: int | None
    replacements: int | None
    fitness: Literal["worst", "mean", "best"] | None
    fitness_samples: int | None
    discriminator_every: int | None
    losses: str | Sequence[str] | None
    learning_rate: float | None
    rate_sigma: float | None
    rate_probability: float | None
    mixture_sigma: float | None
    score_samples: int | None
    data_share: float | None
    save_every: int | None
    silence_seconds: float | None
    threads: int | None
    seed: int | None


def grid_config(options: Mapping[str, Any], there: CoevolutionConfig | None) -> CoevolutionConfig:
    """Lays options over the configuration of the run's folder, or over the defaults.

    Args:
        options: Of `GridOptions`.
        there: Configuration of the folder's run.

    Raises:
        ConfigError: An option is not valid.
    """
    before = there.model_dump() if there else {}
    try:
        return CoevolutionConfig.model_validate(before | _fields(options))
    except ValidationError as error:
        problem = explain(error.errors()[0]).removeprefix("the document: ")
        raise ConfigError(f"the grid is not valid: {problem}") from error


def grid_keys(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns options of `GridOptions` by their dotted keys in run.yaml; what is not set is left out.

    Raises:
        ConfigError: Grid or schedule cannot be read.
    """
    return {f"grid.{name}": value for name, value in _fields(options).items()}


def _fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options that are set, by their fields of `CoevolutionConfig`."""
    given = {name: value for name, value in options.items() if value is not None}
    if "grid" in given:
        given["rows"], given["columns"] = parse_grid(given.pop("grid"))
    if "neighbourhood_schedule" in given:
        given["schedule"] = parse_schedule(given.pop("neighbourhood_schedule"))
    if "batch" in given:
        given["batch_size"] = given.pop("batch")
    return given
