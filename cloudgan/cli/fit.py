"""Predicting the time on more accelerators from a CSV of timings: `cloudgan cost --fit=CSV`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.cost.scaling import MODEL, NOT_FELT_YET, fit_scaling
from cloudgan.cost.timings import read_timings

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.cost.scaling import Regime, Scaling
    from cloudgan.reports.page import Table

_BAND = "A single run falls between low and high 9 times of 10, if the model holds"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FittedSize(_Part):
    """All runs with one number of accelerators."""

    n: int
    seconds: float = Field(description="of the fastest run, which is fitted")
    slowest_seconds: float
    runs: int


class FittedRegime(_Part):
    """One curve."""

    name: Literal["all sizes", "within one host", "across hosts"]
    a_seconds: float = Field(ge=0)
    c_seconds: float = Field(ge=0)
    b_seconds: float = Field(ge=0)
    relative_spread: float = Field(gt=0, description="of one run about the curve")
    degrees_of_freedom: int = Field(ge=1)
    sizes: tuple[FittedSize, ...]


class Fit(_Part):
    """What was fitted."""

    model: str = MODEL
    host_size: int | None = Field(description="accelerators up to which a host is enough")
    regimes: tuple[FittedRegime, ...]
    not_in_it: str = NOT_FELT_YET


class PredictedSize(_Part):
    """One prediction and its 90 % band."""

    n: int
    seconds: float = Field(ge=0)
    low_seconds: float = Field(ge=0)
    high_seconds: float = Field(ge=0)
    extrapolation: str


class FitReport(_Part):
    """The fit, and what follows from it."""

    fit: Fit
    predictions: tuple[PredictedSize, ...]


def sizes_to_predict(text: str) -> tuple[int, ...]:
    """Reads such as ``32,64,128``.

    Raises:
        ConfigError: One is no whole number of at least 1, or none is there.
    """
    sizes = []
    for word in text.split(","):
        if not (word.strip().isdecimal() and int(word) > 0):
            raise ConfigError(
                f"--predict takes numbers of accelerators such as 32,64,128; got {word.strip()!r}"
            )
        sizes.append(int(word))
    return tuple(sizes)


def fit_and_predict(csv: Path, predict: tuple[int, ...]) -> FitReport:
    """Fits the timings of a CSV file and predicts each of the sizes asked for, in their order.

    Raises:
        ConfigError: A size is less than 1.
        DataError: The file holds no timings, or of fewer than three sizes.
    """
    timings = read_timings(csv)
    try:
        scaling = fit_scaling(timings)
    except DataError as error:
        raise DataError(f"{csv}: {error}") from error
    found = (scaling.predict(n) for n in predict)
    return FitReport(
        fit=_fit(scaling),
        predictions=tuple(
            PredictedSize(
                n=one.n,
                seconds=one.seconds,
                low_seconds=one.low_seconds,
                high_seconds=one.high_seconds,
                extrapolation=one.extrapolation,
            )
            for one in found
        ),
    )


def fit_table(report: FitReport) -> Table:
    """For people: what was measured and what is predicted, size by size."""
    from cloudgan.reports.page import Table

    measured = [
        (size.n, size.seconds, "", "", f"measured, {regime.name}, {_runs(size)}")
        for regime in report.fit.regimes
        for size in regime.sizes
    ]
    predicted = [
        (one.n, one.seconds, one.low_seconds, one.high_seconds, one.extrapolation)
        for one in report.predictions
    ]
    return Table(
        ("n", "seconds", "low seconds", "high seconds", "how"),
        (*measured, *predicted),
        _caption(report),
        "rrrrl",
    )


def _caption(report: FitReport) -> str:
    curves = "; ".join(
        f"{one.name}: A {one.a_seconds:.4g} s, C {one.c_seconds:.4g} s, B {one.b_seconds:.4g} s"
        for one in report.fit.regimes
    )
    return f"{report.fit.model}. {curves}. {_BAND}; {report.fit.not_in_it}."


def _runs(size: FittedSize) -> str:
    if size.runs == 1:
        return "1 run"
    return f"fastest of {size.runs} runs, the slowest {size.slowest_seconds:.4g} s"


def _fit(scaling: Scaling) -> Fit:
    return Fit(host_size=scaling.host_size, regimes=tuple(map(_regime, scaling.regimes)))


def _regime(regime: Regime) -> FittedRegime:
    return FittedRegime(
        name=regime.name,
        a_seconds=regime.curve.a_seconds,
        c_seconds=regime.curve.c_seconds,
        b_seconds=regime.curve.b_seconds,
        relative_spread=regime.band.spread,
        degrees_of_freedom=regime.band.degrees,
        sizes=tuple(
            FittedSize(
                n=size.n,
                seconds=size.seconds,
                slowest_seconds=size.slowest_seconds,
                runs=size.runs,
            )
            for size in regime.sizes
        ),
    )
