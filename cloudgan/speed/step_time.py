"""Time of a training step by the showers per replica: t0 + t1 * batch.

t0 is what a step takes whatever its batch (start of the kernels, exchange of the gradients), t1 the
work on one shower. Fitted to the paper's five-epoch runs on 32 V100 with prefetching and 16 to 96
showers per replica (`speed/paper_runs.csv`; arXiv:2111.04628, doi 10.1051/epjconf/202125102073): 0.306 s +
0.0269 s per shower, within 0.05 s of each run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from cloudgan.speed.paper_runs import paper_runs

PAPER_BATCH = 96
"""Per V100 in the paper's main runs; a TPU core had 128."""
_ACCELERATOR, _SIZE, _EPOCHS = "V100", 32, 5
_MIN_BATCHES = 3


class StepTime(NamedTuple):
    """A fitted line; times in seconds.

    Attributes:
        constant: t0.
        per_shower: t1.
        error: Largest distance of a fitted run.
        most_constant: Largest t0 of any number of accelerators, with the same t1.
    """

    constant: float
    per_shower: float
    error: float
    most_constant: float

    def seconds(self, batch: float) -> float:
        """Returns the time of a step."""
        return self.constant + self.per_shower * batch


class ConvertedStep(NamedTuple):
    """A step of another batch than the measured one: expected time and bounds, in seconds."""

    seconds: float
    low: float
    high: float


def fit_step_time(points: Iterable[tuple[float, float]]) -> StepTime | None:
    """Fits the line to pairs of batch and seconds by least squares.

    Returns:
        None for fewer than three batches, or if the time does not grow with the batch.
    """
    found = sorted(points)
    if len({batch for batch, _ in found}) < _MIN_BATCHES:
        return None
    batch = math.fsum(b for b, _ in found) / len(found)
    seconds = math.fsum(t for _, t in found) / len(found)
    slope = math.fsum((b - batch) * (t - seconds) for b, t in found)
    slope /= math.fsum((b - batch) ** 2 for b, _ in found)
    constant = max(0.0, seconds - slope * batch)
    if slope <= 0:
        return None
    error = max(abs(t - constant - slope * b) for b, t in found)
    return StepTime(constant, slope, error, constant)


@cache
def paper_step_time() -> StepTime:
    """Returns the line of the paper's V100."""
    runs = [run for run in paper_runs() if run.accelerator == _ACCELERATOR]
    fed = [run for run in runs if run.options == "prefetch" and run.workers == run.nodes]
    line = fit_step_time(
        (run.batch_per_replica, run.step_seconds)
        for run in fed
        if run.accelerators == _SIZE and run.epochs == _EPOCHS and run.nodes == _SIZE // 8
    )
    assert line is not None  # noqa: S101  the shipped runs have six batches
    work = line.per_shower * PAPER_BATCH
    most = max(run.step_seconds - work for run in fed if run.batch_per_replica == PAPER_BATCH)
    return line._replace(most_constant=most)


def convert_step(
    seconds: float, measured: float, batch: float, line: StepTime | None
) -> ConvertedStep:
    """Converts a measured step to another batch.

    Args:
        seconds: Of the measured step.
        measured: Its showers per replica.
        batch: Showers per replica of the step to estimate.
        line: Fitted to this accelerator; None: the shares of t0 and t1 are those of the paper's
            V100, the bounds those of t0 = 0 and of the largest t0 of the paper's V100 runs.
    """
    if batch == measured:
        return ConvertedStep(seconds, seconds, seconds)
    if line is not None:
        work = min(line.per_shower, seconds / measured)
        expected = seconds + work * (batch - measured)
        return ConvertedStep(
            expected, max(work * batch, expected - line.error), expected + line.error
        )
    paper = paper_step_time()
    times = [
        seconds * (constant + paper.per_shower * batch) / (constant + paper.per_shower * measured)
        for constant in (paper.constant, 0.0, paper.most_constant)
    ]
    return ConvertedStep(times[0], min(times), max(times))


def constant_share(seconds: float, batch: float, line: StepTime | None) -> float:
    """Returns the share of t0 in a step of `batch` showers that takes `seconds`; without a line, at most."""
    if line is None:
        paper = paper_step_time()
        return paper.most_constant / (paper.most_constant + paper.per_shower * batch)
    return max(0.0, 1 - line.per_shower * batch / seconds)
