"""What staleness does to each update rule, on a problem whose optimum is known: a noisy quadratic.

Loss 0.5 sum(c w^2) in 50 dimensions with curvatures c from 0.02 to 1, gradients with Gaussian noise of
0.3, weights from 3. Workers take steps of equal mean duration; each exchanges after every step. The
table is the mean loss of the centre in the last tenth of 300 steps per worker: the same wall-clock
time for any number of workers.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from cloudgan.parallel.update_rules import make_rule
from cloudgan.reports.table import Table
from cloudgan.schema.parallel import ParallelConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloudgan.core.progress import Progress
    from cloudgan.parallel.update_rules import Floats, UpdateRule

RULES: Final = {
    "downpour, undamped": ParallelConfig(mode="downpour", damping="none"),
    "downpour, 1/staleness": ParallelConfig(mode="downpour"),
    "downpour, 1/workers": ParallelConfig(mode="downpour", damping="mean"),
    "easgd, force 0.9": ParallelConfig(mode="easgd"),
    "gem, momentum 0.9, kappa 2": ParallelConfig(mode="gem"),
}
RATES, WORKERS, SEEDS = (0.1, 0.5), (1, 2, 4, 8, 16), (0, 1)
_DIMENSIONS, _NOISE, _START, _STEPS = 50, 0.3, 3.0, 300
_DIVERGED = 1e3


@dataclass(frozen=True)
class StudyRow:
    """One rule at one learning rate.

    Attributes:
        rule: Name of the rule.
        rate: Learning rate of the workers.
        losses: By number of workers, median over seeds; infinite: it diverged.
    """

    rule: str
    rate: float
    losses: dict[int, float]


def study(
    progress: Progress, *, workers: Sequence[int] = WORKERS, seeds: Sequence[int] = SEEDS
) -> list[StudyRow]:
    """Trains with each rule, learning rate and number of workers; takes about half a minute."""
    rows = []
    progress.start("update rules under staleness")
    for rate in RATES:
        for name, parallel in RULES.items():
            losses = {
                n: median(final_loss(parallel, n, rate, seed=seed) for seed in seeds)
                for n in workers
            }
            rows.append(StudyRow(name, rate, losses))
    return rows


def final_loss(
    parallel: ParallelConfig, workers: int, rate: float, *, seed: int = 0, steps: int = _STEPS
) -> float:
    """Returns the mean loss of the centre in the last tenth of a training; infinite if it diverges.

    Args:
        parallel: Update rule.
        workers: Number of workers.
        rate: Learning rate of their plain gradient descent.
        seed: Of noise and durations.
        steps: Of each worker.
    """
    rng = np.random.default_rng(seed)
    curvature = np.geomspace(0.02, 1, _DIMENSIONS).astype(np.float32)
    centre = np.full(_DIMENSIONS, _START, np.float32)
    team = [_Worker(parallel, workers, rate, centre) for _ in range(workers)]
    master = team[0].new_rule()
    events = [(_duration(rng), number) for number in range(workers)]
    heapq.heapify(events)
    losses = []
    for update in range(steps * workers):
        moment, number = heapq.heappop(events)
        noise = _NOISE * rng.standard_normal(_DIMENSIONS)
        team[number].step(curvature, noise.astype(np.float32))
        team[number].exchange(master, centre, update)
        heapq.heappush(events, (moment + _duration(rng), number))
        if not np.abs(centre).max() < _DIVERGED:
            return math.inf
        if update >= 0.9 * steps * workers:
            losses.append(0.5 * float(curvature @ (centre * centre)))
    return float(np.mean(losses))


class _Worker:
    """Plain gradient descent on its own weights."""

    def __init__(self, parallel: ParallelConfig, workers: int, rate: float, centre: Floats) -> None:
        self._parallel, self._workers, self._rate = parallel, workers, np.float32(rate)
        self._rule = self.new_rule()
        self._rule.begin(centre)
        self._own, self._fetched = centre.copy(), centre.copy()
        self._updates_seen = 0

    def new_rule(self) -> UpdateRule:
        """Makes the rule of this worker, or of the master."""
        return make_rule(
            self._parallel,
            workers=self._workers,
            trainable=_DIMENSIONS,
            learning_rate=float(self._rate),
        )

    def step(self, curvature: Floats, noise: Floats) -> None:
        """Descends along the noisy gradient."""
        self._own -= self._rate * (curvature * self._own + noise)

    def exchange(self, master: UpdateRule, centre: Floats, update: int) -> None:
        """Sends to the master, and continues from its answer; `update` counts those of the centre."""
        before = centre.copy()
        if self._rule.fetches_first:
            self._fetched[:] = before
        sent = self._rule.to_send(self._own, self._fetched)
        master.at_master(centre, sent.copy(), update - self._updates_seen)
        early = self._rule.answers_first or self._rule.fetches_first
        answer = before if early else centre
        self._rule.at_worker(self._own, answer)
        self._fetched[:] = answer
        self._updates_seen = update + 1


def _duration(rng: np.random.Generator) -> float:
    return max(0.1, 1 + 0.05 * float(rng.standard_normal()))


def study_table(rows: Sequence[StudyRow]) -> Table:
    """Returns a row per rule and rate, and a column per number of workers."""
    workers = list(rows[0].losses)
    return Table(
        ("rate", "rule", *(f"n = {n}" for n in workers)),
        tuple((f"{row.rate:g}", row.rule, *map(_loss, row.losses.values())) for row in rows),
        "Loss of the centre after 300 steps of each of n workers, on a noisy quadratic; start 57.6",
        "rl" + "r" * len(workers),
    )


def study_json(rows: Sequence[StudyRow]) -> list[dict[str, Any]]:
    """Returns the rows; None is a training that diverged."""
    return [
        {
            "rule": row.rule,
            "rate": row.rate,
            "losses": {
                str(n): loss if math.isfinite(loss) else None for n, loss in row.losses.items()
            },
        }
        for row in rows
    ]


def _loss(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "diverged"
