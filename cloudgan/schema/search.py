"""A hyper-parameter search: `SearchConfig`, the schema of search.json, and what its processes share beside the journal.

Below ``searches/NAME/`` of a store are ``search.json``, the objects of the journal, ``blocks/ID/status.json``, which
the block ID writes, and of each trial ``trials/0007/`` with the files of an ordinary run, of a trial with folds
``trials/0007/folds/2/``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import Field, ValidationError, model_validator

from cloudgan.core.document import Document, FiniteDocument
from cloudgan.core.documents import check_booleans, explain, read_yaml
from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.errors import ConfigError, nearest, show
from cloudgan.core.flags import flag
from cloudgan.core.ranges import MAX_PROCESSES
from cloudgan.schema.config import RunConfig, parse_config
from cloudgan.schema.presets import SIZE_KEYS
from cloudgan.schema.stop_criterion import METRIC, METRICS

FILE_NAME = "search.json"
SamplerName = Literal["gp", "evolution", "cmaes", "tpe", "nsgaii", "random", "grid"]
Pruning = Literal["none", "median", "halving"]
Second = Literal["seconds", "usd"]
Direction = Literal["minimize", "maximize"]
_OF_TWO_OBJECTIVES = ("nsgaii", "random")
GENERATOR_LOSS = "generator_loss"
OBJECTIVES = (*METRICS, GENERATOR_LOSS)
"""What ranks trials: the validation numbers, and the generator's total loss on held-out showers."""
FOLD = "data.fold"
MAX_FOLDS = 100
Value = bool | int | float | str
Point = dict[str, Value]
"""Values by dotted key of run.yaml."""
_SECTIONS = ("model", "training")
_INSIDE = 0.382
"""Position in a range; a key of whole numbers refuses its value if the range has fractions."""
_FIXED = {"model.preset", "model.networks"} | {
    f"training.{key}" for key in ("seed", "workers", "engine")
}


class Dimension(FiniteDocument):
    """The values of one key: a range, or choices."""

    low: int | float | None = None
    high: int | float | None = None
    log: bool = Field(False, description="equal steps are equal factors")
    integer: bool | None = Field(None, description="default: low and high are both integers")
    choices: tuple[Value, ...] | None = Field(None, min_length=2, max_length=100)

    @model_validator(mode="after")
    def _range_or_choices(self) -> Self:
        bounds = (self.low, self.high)
        if self.choices is not None:
            if bounds != (None, None) or self.log or self.integer is not None:
                raise ValueError("give choices, or low and high")
            if len(set(map(repr, self.choices))) < len(self.choices):
                raise ValueError("a choice is repeated")
            return self
        if self.low is None or self.high is None:
            raise ValueError("give low and high, or choices")
        if self.low >= self.high:
            raise ValueError(f"low {self.low:g} is not below high {self.high:g}; exchange them")
        if self.log and self.low <= 0:
            raise ValueError(f"log needs a low above 0, and low is {self.low:g}")
        if self.is_integer and not all(
            float(bound).is_integer() for bound in (self.low, self.high)
        ):
            raise ValueError("integer needs a low and a high without fraction")
        return self

    @property
    def is_integer(self) -> bool:
        """Whether only integers are in the range."""
        if self.integer is not None:
            return self.integer
        return isinstance(self.low, int) and isinstance(self.high, int)

    def decode(self, unit: float) -> Value:
        """Returns the value at a position from 0 to 1."""
        unit = min(max(unit, 0.0), 1.0)
        if self.choices is not None:
            return self.choices[min(int(unit * len(self.choices)), len(self.choices) - 1)]
        low, high = self._bounds()
        # An integer owns the interval of half a step around it.
        first, last = (low - 0.5, high + 0.5) if self.is_integer else (low, high)
        if self.log:
            first = max(first, low / 2)
            found = first * math.exp(unit * math.log(last / first))
        else:
            found = first + unit * (last - first)
        if self.is_integer:
            return int(min(max(round(found), low), high))
        return min(max(found, low), high)

    def encode(self, value: Value) -> float:
        """Returns the position of a value, from 0 to 1; of a choice the centre of its interval."""
        if self.choices is not None:
            return (self.choices.index(value) + 0.5) / len(self.choices)
        low, high = self._bounds()
        first, last = (low - 0.5, high + 0.5) if self.is_integer else (low, high)
        number = float(value)
        if self.log:
            first = max(first, low / 2)
            return math.log(number / first) / math.log(last / first)
        return (number - first) / (last - first)

    def _bounds(self) -> tuple[float, float]:
        assert self.low is not None  # noqa: S101 -- the validator
        assert self.high is not None  # noqa: S101
        return float(self.low), float(self.high)


class TrialRun(NamedTuple):
    """A run of a trial: what a block trains at one time.

    Attributes:
        fold: Number of the fold; None: the trial has no folds, and this is its only run.
    """

    trial: int
    fold: int | None = None

    @property
    def path(self) -> str:
        """Its folder below that of the search, on this machine and in the store."""
        folder = f"trials/{self.trial:04d}"
        return folder if self.fold is None else f"{folder}/folds/{self.fold}"

    @property
    def name(self) -> str:
        """Name of the run in its run.yaml."""
        name = f"{self.trial:04d}"
        return name if self.fold is None else f"{name}-fold-{self.fold}"


class SearchConfig(FiniteDocument):
    """A search: the run that all trials share, the space, and how it is searched."""

    schema_version: Literal[1] = 1
    base: RunConfig = Field(description="run.yaml of every trial, before its point is applied")
    space: dict[str, Dimension] = Field(
        min_length=1, max_length=50, description="by dotted key of run.yaml"
    )
    sampler: SamplerName = flag(
        "gp",
        "gp, tpe, cmaes, evolution, nsgaii, random, grid; gp is a Gaussian process with expected improvement",
        "Search",
        screen=True,
        placeholder="NAME",
    )
    trials: int = flag(25, "runs with different parameters", "Search", screen=True, ge=1, le=10_000)
    blocks: int = flag(
        1,
        "trials at the same time; each with its share of the cores or GPUs",
        "Search",
        screen=True,
        ge=1,
        le=MAX_PROCESSES,
    )
    store: str = flag(
        "",
        "nodes elsewhere train, and meet there; a URL or folder: the nodes of `cloudgan deploy -- join NAME` train the trials instead of this machine",
        "Where",
        screen=True,
        placeholder="URL",
    )
    folds: int = flag(
        1,
        "folds of a trial; the mean of their runs ranks it; each holds out one shower of so many",
        "Search",
        screen=True,
        ge=1,
        le=MAX_FOLDS,
    )
    objective: str = flag(
        METRIC,
        "number that ranks trials; a validation number as in --until, or generator_loss, its total on held-out showers."
        " The median of the last three counts",
        "Search",
        screen=True,
        placeholder="NUMBER",
    )
    direction: Direction = flag(
        "minimize", "whether a small or a large objective is good", "Search"
    )
    prune: Pruning = flag(
        "none",
        "stop bad trials early; whose validations are below the median of the others, or by successive halving",
        "Search",
        screen=True,
    )
    second: Second | None = flag(
        None,
        "also the time or price of a trial; a Pareto front. The sampler is nsgaii or random",
        "Search",
        screen=True,
    )
    usd_per_hour: float | None = Field(None, gt=0, description="of this machine")
    priced_as: str = Field("", description="offer whose price that is")

    @model_validator(mode="after")
    def _known_objective(self) -> Self:
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective {show(self.objective)} is none of {', '.join(OBJECTIVES)}")
        if self.objective != GENERATOR_LOSS:
            return self
        weights = [key for key in self.space if key.startswith("model.loss_weights.")]
        if weights:
            raise ConfigError(
                f"--objective={GENERATOR_LOSS} compares no trials with different {', '.join(weights)}: the"
                f" weights are factors of the loss; give another objective, such as {METRIC}"
            )
        if not self.base.training.validation_showers:
            raise ConfigError(
                f"--objective={GENERATOR_LOSS} needs training.validation_showers above 0 in run.yaml"
            )
        return self

    @model_validator(mode="after")
    def _two_objectives_fit(self) -> Self:
        if self.second is None:
            return self
        if self.sampler not in _OF_TWO_OBJECTIVES:
            raise ConfigError(
                f"--second={self.second} makes two objectives, and the sampler {self.sampler} has"
                f" one; give --sampler={' or --sampler='.join(_OF_TWO_OBJECTIVES)}"
            )
        if self.prune != "none":
            raise ConfigError(
                f"--prune={self.prune} compares one objective, and --second={self.second} adds one;"
                " omit one of them"
            )
        if self.second == "usd" and self.usd_per_hour is None:
            raise ConfigError(
                "--second=usd needs the price of this machine: give --price-as=OFFER, such as one of"
                " `cloudgan offers --all`, or --price-file with your own"
            )
        return self

    def usd(self, seconds: float) -> float | None:
        """Returns the price of this machine for `seconds`; None: it has none."""
        per_hour = self.usd_per_hour
        return None if per_hour is None else seconds / HOUR_SECONDS * per_hour

    @property
    def objectives(self) -> tuple[str, ...]:
        """Names of one or two objectives."""
        return (self.objective, self.second) if self.second else (self.objective,)

    @property
    def directions(self) -> tuple[Direction, ...]:
        """Of the objectives."""
        return (self.direction, "minimize") if self.second else (self.direction,)

    @property
    def fold_count(self) -> int:
        """K, inside of trials or as trials of a cross-validation; 1: there are no folds."""
        among = self.space.get(FOLD)
        return len(among.choices) if among and among.choices else self.folds

    def runs_of(self, trial: int) -> tuple[TrialRun, ...]:
        """Returns the runs of a trial: one, or one for each fold."""
        if self.folds == 1:
            return (TrialRun(trial),)
        return tuple(TrialRun(trial, fold) for fold in range(self.folds))

    def run_config(
        self, point: Mapping[str, Value], name: str, fold: int | None = None
    ) -> RunConfig:
        """Returns the configuration of a run of a trial at a point of the space; `fold` None: the trial has one run."""
        document: dict[str, Any] = self.base.model_dump(mode="json") | {"name": name}
        if self.base.checkpoint.url:
            url = f"{self.base.checkpoint.url.rstrip('/')}/{name}"
            document["checkpoint"] = document["checkpoint"] | {"url": url}
        if fold is not None:
            document["data"] = document["data"] | {"fold": fold}
        for dotted, value in point.items():
            part = document
            *path, last = dotted.split(".")
            for key in path:
                part[key] = dict(part[key])
                part = part[key]
            part[last] = value
        return parse_config(document, "the space of the search")

    def check(self) -> None:
        """Checks that every key exists, and each choice or both ends and a value inside of a range."""
        known = sorted(_keys(self.base))
        for dotted, dimension in self.space.items():
            if dotted not in known:
                raise ConfigError(
                    f"{show(dotted)} in the space is no key of model or training in run.yaml that a"
                    f" search can change.{nearest(dotted, known)}"
                )
            for value in dimension.choices or map(dimension.decode, (0, 1, _INSIDE)):
                try:
                    self.run_config({dotted: value}, "trial")
                except ConfigError as error:
                    raise ConfigError(f"space, {dotted} = {show(value)}: {error}") from error


def with_folds(base: RunConfig, folds: int) -> RunConfig:
    """Returns a run of which each of `folds` folds holds out every `folds`-th shower."""
    data = base.data.model_copy(update={"held_out_fraction": 1 / folds, "fold": None})
    return base.model_copy(update={"data": data})


def parse_search(given: Mapping[str, Any]) -> SearchConfig:
    """Returns a search from its parts."""
    try:
        return SearchConfig.model_validate(given)
    except ValidationError as error:
        problem = explain(error.errors()[0]).removeprefix("the document: ")
        raise ConfigError(f"the search is not valid: {problem}") from error


def read_space(path: Path) -> dict[str, Dimension]:
    """Reads the space of a search from a YAML file: a range or choices by dotted key of run.yaml."""
    document = read_yaml(path)
    space = document.get("space", document)
    if not isinstance(space, dict) or not space:
        raise ConfigError(
            f"{path}: expected keys of run.yaml with ranges, such as"
            " `model.learning_rate: {low: 1.0e-4, high: 1.0e-2, log: true}`"
        )
    found = {}
    for key, given in space.items():
        try:
            found[str(key)] = Dimension.model_validate(given)
            check_booleans(given, found[str(key)], f"{path}: {key}")
        except ValidationError as error:
            problem = explain(error.errors()[0]).removeprefix("the document: ")
            raise ConfigError(f"{path}: {show(str(key))}: {problem}") from error
    return found


def _keys(base: RunConfig) -> set[str]:
    document = base.model_dump(mode="json")
    found = {f"model.{key}" for key in SIZE_KEYS}
    for section in _SECTIONS:
        for key, value in document[section].items():
            if isinstance(value, dict):
                found |= {f"{section}.{key}.{inner}" for inner in value}
            elif not isinstance(value, list):
                found.add(f"{section}.{key}")
    return found - _FIXED


BLOCKS: Final = "blocks"
STATUS: Final = "status.json"

BEAT_SECONDS: Final = 5.0
"""How often a block in a pod shows that it is alive."""
LEASE_SECONDS: Final = 60.0
"""A block without a beat for this long is lost. A block that cannot write one for half of it stops."""

Number = Annotated[int, Field(ge=0, le=10**9)]
_SpellSeconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def search_prefix(name: str) -> str:
    """Returns the folder of a search in its store."""
    return f"searches/{name}"


class Spell(Document):
    """Time that a block spent with a trial, or with one of its folds."""

    trial: Number
    seconds: _SpellSeconds


class BlockStatus(Document):
    """What a block does."""

    deployment: str = Field(description="name of its run")
    worker: Number = Field(description="its number in the deployment")
    incarnation: str = Field(
        description="begins with the time of its start, so that later ones sort behind"
    )
    beat: Number = Field(description="grows while the block is alive")
    seconds: _SpellSeconds = Field(description="since its start")
    left: bool = Field(False, description="the block has ended")
    spells: tuple[Spell, ...] = Field((), description="of the trainings that ended")
    trial: Number | None = Field(None, description="the trial that it trains; None: it waits")
    trial_since: _SpellSeconds = Field(0.0, description="`seconds` when that training began")
