"""The stop criterion of training, such as ``metric<0.15``, and the best checkpoint by its metric."""

from __future__ import annotations

import math
import operator
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field

from cloudgan.core.document import Document
from cloudgan.core.errors import ConfigError, UnknownNameError

METRIC = "metric"
METRICS = (METRIC, "response", "profile_z", "hits", "angle", "separation")
"""What is measured after an epoch; `cloudgan.validation.assess` says what each of them is."""

_SIGNS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONDITION = re.compile(r"\s*(?P<name>[^\s<>=!]*)\s*(?P<sign>[<>=!]+)\s*(?P<bound>\S*)\s*")


class StopCriterion(NamedTuple):
    """A quality metric and its limit."""

    name: str
    sign: str
    bound: float

    def __str__(self) -> str:
        return f"{self.name}{self.sign}{self.bound:g}"

    def holds(self, metrics: Mapping[str, float]) -> bool:
        """Whether `metrics` meet the criterion; False for a missing metric and NaN."""
        return bool(_SIGNS[self.sign](metrics.get(self.name, math.nan), self.bound))

    def is_better(self, one: float, other: float) -> bool:
        """Whether `one` is better than `other`; NaN never is."""
        if math.isnan(one) or math.isnan(other):
            return math.isnan(other) and not math.isnan(one)
        return one < other if self.sign.startswith("<") else one > other


DEFAULT_RANKING = StopCriterion(METRIC, "<", 0.0)
"""Ranking of generators without a stop criterion: the smallest metric is best."""


class BestCheckpoint(Document):
    """The best validated checkpoint, with all its metrics so that another one can rank it later."""

    model_config = ConfigDict(ser_json_inf_nan="strings")

    step: int = Field(ge=0)
    epoch: int = Field(ge=0)
    metrics: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        """Returns it as JSON; NaN becomes null."""
        metrics = {name: v if math.isfinite(v) else None for name, v in self.metrics.items()}
        return {"step": self.step, "epoch": self.epoch, "metrics": metrics}

    def value(self, ranking: StopCriterion) -> float:
        """Returns the ranking metric; NaN if it was not measured."""
        return self.metrics.get(ranking.name, math.nan)

    def is_better_than(self, other: BestCheckpoint | None, ranking: StopCriterion) -> bool:
        """Whether it ranks above `other`; on a tie the earlier one stays."""
        value = self.value(ranking)
        if other is None or math.isnan(value):
            return not math.isnan(value)
        return ranking.is_better(value, other.value(ranking))


def parse_stop_criterion(text: str) -> StopCriterion:
    """Parses a stop criterion.

    Raises:
        ConfigError: Not of the form NAME SIGN NUMBER.
        UnknownNameError: No such metric.
    """
    found = _CONDITION.fullmatch(text)
    if found is None or found["sign"] not in _SIGNS or not found["bound"]:
        raise ConfigError(
            f"--until={text!r}: expected a name, one of {' '.join(_SIGNS)}, and a number, such as"
            f' --until="{METRIC}<0.15". Names: {", ".join(METRICS)}'
        )
    if found["name"] not in METRICS:
        raise UnknownNameError("metric in --until", found["name"], METRICS)
    try:
        bound = float(found["bound"])
    except ValueError:
        bound = math.nan
    if not math.isfinite(bound):
        raise ConfigError(f"--until={text!r}: {found['bound']!r} is not a finite number")
    return StopCriterion(found["name"], found["sign"], bound)


class EarlyStop(NamedTuple):
    """When to stop (Prechelt 1998, doi:10.1007/3-540-49430-8_3, with smoothed numbers).

    Attributes:
        patience: Validations without an improvement after which training ends.
        smooth: Numbers whose median is compared.
    """

    patience: int
    smooth: int

    @property
    def first_stop(self) -> int:
        """Number of validations before it can stop; no decision needs earlier ones."""
        return self.patience + self.smooth

    def smoothed(
        self, validations: Sequence[Mapping[str, float]], ranking: StopCriterion
    ) -> list[float]:
        """Returns the medians of each `smooth` successive numbers; NaN counts as the worst.

        Args:
            validations: Metrics by name, oldest first.
            ranking: Selects the metric and its direction.
        """
        worst = math.inf if ranking.is_better(0.0, 1.0) else -math.inf
        values = [each.get(ranking.name, math.nan) for each in validations]
        ordered = [worst if math.isnan(value) else value for value in values]
        count = len(ordered) - self.smooth + 1
        return [statistics.median(ordered[k : k + self.smooth]) for k in range(count)]

    def is_over(self, validations: Sequence[Mapping[str, float]], ranking: StopCriterion) -> bool:
        """Whether none of the newest `patience` medians is better than the one before them.

        Asked after each validation, this holds first when the best median of all is `patience`
        validations old: an earlier and better one would have ended the training before.
        """
        medians = self.smoothed(validations, ranking)[-self.patience - 1 :]
        if len(medians) <= self.patience:
            return False
        return not any(ranking.is_better(each, medians[0]) for each in medians[1:])
