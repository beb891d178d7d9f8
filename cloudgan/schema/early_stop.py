"""Early stop: training ends when the smoothed quality of the validations no longer improves."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cloudgan.schema.stop_criterion import StopCriterion


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
