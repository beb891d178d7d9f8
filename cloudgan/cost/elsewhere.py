"""How fast a network trains where it was not run: measured runs first, else bounds.

Three grades, never mixed up: a size that was measured on this accelerator; the curve through the
measured sizes; bounds from another accelerator's runs by the ratio of peaks, which is no
measurement and says so. Without any run of the same network there is no figure at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from cloudgan.core.errors import DataError
from cloudgan.cost.peaks import load_peaks, speed_bounds
from cloudgan.cost.scaling import LEAST_SIZES, fit_scaling
from cloudgan.cost.timings import Timing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cloudgan.cost.peaks import Peak
    from cloudgan.cost.scaling import Scaling

NOT_MEASURED: Final = "not measured"
Grade = Literal["measured", "curve of measured runs", "not measured"]


class Measured(NamedTuple):
    """A run on known accelerators; times in seconds.

    Attributes:
        accelerator: Name in the price catalogue.
        accelerators: GPUs, or TPU chips.
        showers: It trained on; what a last batch dropped counts, as in the paper's epochs.
        epoch_seconds: Steady epoch, training only.
        between_seconds: Validation, checkpoints and gaps, for each epoch.
        first_more_seconds: How much longer the first epoch trained than a steady one.
        name: Of the run, for people.
    """

    accelerator: str
    accelerators: int
    showers: int
    epoch_seconds: float
    between_seconds: float
    first_more_seconds: float
    name: str


class EpochTime(NamedTuple):
    """What is known of an epoch somewhere, in seconds.

    Attributes:
        seconds: What is expected; None where nothing was measured there.
        low_seconds: Not faster than this.
        high_seconds: Not slower than this; what is ranked by.
        grade: How it is known.
        basis: In words.
        between_seconds: As measured on the runs it comes from.
        first_more_seconds: As measured on the runs it comes from.
    """

    seconds: float | None
    low_seconds: float
    high_seconds: float
    grade: Grade
    basis: str
    between_seconds: float
    first_more_seconds: float

    def job_seconds(self, epochs: int) -> tuple[float, float]:
        """Both edges of a whole job: its epochs, what is between them, and the longer first one."""
        beside = self.first_more_seconds + epochs * self.between_seconds
        return beside + epochs * self.low_seconds, beside + epochs * self.high_seconds


@dataclass(frozen=True)
class _Own:
    """The runs on one accelerator."""

    runs: tuple[Measured, ...]
    showers: int
    scaling: Scaling | None

    def time(self, n: int) -> EpochTime:
        near = min(self.runs, key=lambda run: (abs(math.log(run.accelerators / n)), _epoch(run)))
        scale = self.showers / near.showers
        extra = (near.between_seconds * scale, near.first_more_seconds)
        if near.accelerators == n:
            seconds = near.epoch_seconds * scale
            return EpochTime(seconds, seconds, seconds, "measured", near.name, *extra)
        if self.scaling is not None:
            found = self.scaling.predict(n)
            sizes = ", ".join(str(size.n) for size in self.scaling.regime(n).sizes)
            basis = f"curve through {sizes} x {near.accelerator}, {found.extrapolation}"
            times = (found.seconds, found.low_seconds, found.high_seconds)
            return EpochTime(*times, "curve of measured runs", basis, *extra)
        return EpochTime(None, *self._between(n), NOT_MEASURED, self._gains(), *extra)

    def _between(self, n: int) -> tuple[float, float]:
        """From each run to `n`: at best in proportion, at worst no gain; where all of them agree."""
        ends = []
        for run in self.runs:
            same = run.epoch_seconds * self.showers / run.showers
            ends.append(sorted((same, same * run.accelerators / n)))
        low, high = sorted((max(low for low, _ in ends), min(high for _, high in ends)))
        return low, high

    def _gains(self) -> str:
        sizes = ", ".join(str(run.accelerators) for run in self.runs)
        return (
            f"this number was not measured: between no gain and gain in proportion from {sizes} x"
            f" {self.runs[0].accelerator}"
        )

    def fixed_share(self, n: int) -> float:
        """Of an epoch's time, what faster accelerators may not shorten."""
        if self.scaling is None:
            return 0.0
        curve = self.scaling.regime(n).curve
        return curve.rest_seconds(n) / curve.seconds(n)


@dataclass(frozen=True)
class Speeds:
    """Times of one network's epochs by accelerator and number of them.

    Attributes:
        network: Such as ``paper``; only its own runs are in here.
        showers: Of the epoch that is asked about.
    """

    network: str
    showers: int
    _own: Mapping[str, _Own]
    _peaks: Mapping[str, Peak]
    _found: dict[tuple[str, int], EpochTime | None] = field(default_factory=dict)

    def epoch(self, accelerator: str, n: int) -> EpochTime | None:
        """Returns the time on `n` accelerators; None where nothing is known, see `why_unknown`."""
        key = (accelerator, n)
        if key not in self._found:
            own = self._own.get(accelerator)
            self._found[key] = own.time(n) if own else self._bounds(accelerator, n)
        return self._found[key]

    def why_unknown(self, accelerator: str) -> str:
        """Returns why `epoch` is None, in words."""
        if not self._own:
            return f"no run of the network {self.network!r} was measured on any accelerator"
        return f"nobody measured {accelerator}, and its peaks are not in the table"

    @property
    def measured(self) -> tuple[Measured, ...]:
        """All runs that this rests on."""
        return tuple(run for own in self._own.values() for run in own.runs)

    def _bounds(self, accelerator: str, n: int) -> EpochTime | None:
        """Returns what follows from the nearest measured accelerator.

        A GPU is compared with GPUs and a TPU with TPUs where there is one: different compilers
        reach different shares of the peaks. Nearest is the one whose bounds are narrowest.
        """
        peak = self._peaks.get(accelerator)
        bases = sorted(name for name in self._own if name in self._peaks)
        if peak is None or not bases:
            return None
        bases = [base for base in bases if _is_tpu(base) == _is_tpu(accelerator)] or bases
        ratios = {base: speed_bounds(self._peaks[base], peak) for base in bases}
        nearest = min(bases, key=lambda base: ratios[base][1] / ratios[base][0])
        return self._bound(nearest, ratios[nearest], n)

    def _bound(self, base: str, ratios: tuple[float, float], n: int) -> EpochTime:
        there, fixed = self._own[base].time(n), self._own[base].fixed_share(n)
        slow, fast = ratios
        basis = (
            f"{slow:.3g} to {fast:.3g} times {base} by memory bandwidth and"
            f" arithmetic peak; {there.basis}"
        )
        return EpochTime(
            None,
            there.low_seconds * min((1 - fixed) / fast + fixed, 1 / fast),
            there.high_seconds * max((1 - fixed) / slow + fixed, 1 / slow),
            NOT_MEASURED,
            basis,
            there.between_seconds,
            there.first_more_seconds,
        )


def speeds(
    network: str,
    showers: int,
    runs: Iterable[Measured],
    peaks: Mapping[str, Peak] | None = None,
) -> Speeds:
    """Makes ready what can be said about one network.

    Args:
        network: Whose runs these are; runs of another network say nothing about it.
        showers: Of the epoch that is asked about; times are in proportion.
        runs: Measured ones.
        peaks: By accelerator; else those of the package.
    """
    by_accelerator: dict[str, list[Measured]] = {}
    for run in runs:
        by_accelerator.setdefault(run.accelerator, []).append(run)
    own = {
        name: _Own(tuple(its), showers, _scaling(its, showers))
        for name, its in by_accelerator.items()
    }
    return Speeds(network, showers, own, load_peaks() if peaks is None else peaks)


def _scaling(runs: list[Measured], showers: int) -> Scaling | None:
    sizes = {run.accelerators for run in runs}
    if len(sizes) < LEAST_SIZES:
        return None
    timings = [Timing(run.accelerators, _epoch(run) * showers) for run in runs]
    try:
        return fit_scaling(timings)
    except DataError:
        return None  # bounds are left


def _is_tpu(accelerator: str) -> bool:
    return accelerator.startswith("TPU")


def _epoch(run: Measured) -> float:
    """Seconds per shower, so that runs of other epochs compare."""
    return run.epoch_seconds / run.showers
