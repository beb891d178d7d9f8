"""Fits timings of a CSV file and predicts larger sizes: the use case of `cloudgan cost --fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.ranges import Range, parse_whole
from cloudgan.cost.estimation.scaling import MODEL, UNSEEN_LIMITS, fit_scaling
from cloudgan.cost.estimation.timings import MAX_SIZE, read_timings

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.cost.estimation.scaling import Regime, ScalingModel
    from cloudgan.reports.page import Page
    from cloudgan.reports.table import Table

_BAND = "A single run falls between low and high in 9 of 10 cases, if the model holds"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FittedSize(_Part):
    """Runs with one number of accelerators."""

    n: int
    seconds: float = Field(description="of the fastest run, which is fitted")
    slowest_seconds: float
    runs: int


class FittedRegime(_Part):
    """One fitted curve."""

    name: Literal["all sizes", "within one host", "across hosts"]
    a_seconds: float = Field(ge=0)
    c_seconds: float = Field(ge=0)
    b_seconds: float = Field(ge=0)
    relative_spread: float = Field(gt=0, description="of one run about the curve")
    degrees_of_freedom: int = Field(ge=1)
    sizes: tuple[FittedSize, ...]


class Fit(_Part):
    """The fitted model."""

    model: str = MODEL
    host_size: int | None = Field(description="accelerators of one host")
    regimes: tuple[FittedRegime, ...]
    not_in_it: str = UNSEEN_LIMITS


class PredictedSize(_Part):
    """A prediction with its 90 % band."""

    n: int
    seconds: float = Field(ge=0)
    low_seconds: float = Field(ge=0)
    high_seconds: float = Field(ge=0)
    extrapolation: str


class FitReport(_Part):
    """The fit and its predictions."""

    fit: Fit
    predictions: tuple[PredictedSize, ...]


def sizes_to_predict(text: str) -> tuple[int, ...]:
    """Parses numbers of accelerators such as ``32,64,128``.

    Raises:
        ConfigError: A word is not a whole number of at least 1.
    """
    sizes = []
    for word in text.split(","):
        if not word.strip().isdecimal():
            raise ConfigError(
                f"--predict takes numbers of accelerators such as 32,64,128; got {word.strip()!r}"
            )
        sizes.append(parse_whole("--predict", word, Range(1, MAX_SIZE)))
    return tuple(sizes)


def fit_and_predict(csv: Path, predict: tuple[int, ...]) -> FitReport:
    """Fits the timings of a CSV file and predicts the seconds of each size, in the given order.

    Raises:
        ConfigError: A size is less than 1.
        DataError: The file holds no timings, or timings of fewer than three sizes.
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
    """Returns the measured and the predicted seconds, a row per size."""
    from cloudgan.reports.table import Table

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
        ("n", "seconds", "low seconds", "high seconds", "source"),
        (*measured, *predicted),
        _caption(report),
        "rrrrl",
    )


def fit_page(csv: Path, report: FitReport) -> Page:
    """Returns the fit as a page; its curve spans the measured and the predicted sizes."""
    from cloudgan.reports.page import Page, Section
    from cloudgan.reports.plot_frame import Axis
    from cloudgan.reports.scatter import BandLine, BandPlot, Point, PointSeries

    measured = tuple(
        PointSeries(
            f"measured, {regime.name}",
            tuple(Point(size.n, size.seconds, f"{size.n}") for size in regime.sizes),
        )
        for regime in report.fit.regimes
    )
    sizes = {size.n for regime in report.fit.regimes for size in regime.sizes}
    sizes |= {one.n for one in report.predictions}
    order = fit_and_predict(csv, tuple(sorted(sizes))).predictions
    line = BandLine(
        "A/n + C + B log2 n",
        tuple(float(one.n) for one in order),
        tuple(one.seconds for one in order),
        tuple(one.low_seconds for one in order),
        tuple(one.high_seconds for one in order),
    )
    plot = BandPlot(
        "Time against accelerators",
        Axis("accelerators", log=True),
        Axis("seconds", log=True),
        measured,
        (line,),
        band_label="90 % band",
        extrapolated_from=max(size.n for regime in report.fit.regimes for size in regime.sizes),
    )
    title = f"Predicted times from {csv.name}"
    lead = f"{report.fit.not_in_it[0].upper()}{report.fit.not_in_it[1:]}."
    return Page(title, lead, (Section("Scaling", (plot, fit_table(report))),))


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


def _fit(scaling: ScalingModel) -> Fit:
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
