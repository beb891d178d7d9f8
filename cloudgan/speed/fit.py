"""Fits timings of a CSV file and predicts larger sizes: the use case of `cloudgan cost --fit`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.core.errors import ConfigError, DataError, number_text
from cloudgan.reports.charts import Axis, Plot, Point, PointSeries
from cloudgan.reports.page import Bullets, Page, Section
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Table
from cloudgan.speed.scaling import (
    MODEL,
    EpochSteps,
    PredictedTime,
    Prediction,
    Regime,
    RegimeName,
    ScalingModel,
    SizeTimings,
    fit_scaling,
    prediction_line,
    read_timings,
)

_BAND = (
    "9 of 10 runs fall between low and high, if the model holds; healthy low and high leave out slow"
    " runs: of the paper's larger runs, 2 of 3 fell between them"
)
_UNSEEN_LIMITS = (
    "limits that do not bind at the measured sizes, such as the input rate (how fast data can be"
    " read), are not in the prediction"
)
_OTHER_LIMITS = (
    "limits that do not bind at the measured sizes, except the given input rate, are not in the"
    " prediction"
)
_NO_STEPS = (
    "without a column steps, or --showers and --batch, the paper's number of steps is assumed"
)


class FittedSize(SizeTimings):
    """Runs with one number of accelerators, beside the fit."""

    waits_for_input: bool = Field(description="whether the runs are left out of the fit")
    fitted: PredictedTime

    @property
    def source(self) -> str:
        """The runs, in words."""
        waits = ", not fitted: waits for its input" if self.waits_for_input else ""
        if self.runs == 1:
            return f"1 run{waits}"
        slowest = f"the slowest {self.slowest_seconds:.4g} s"
        return f"fastest of {self.runs} runs, {slowest}{waits}"


class FittedRegime(Document):
    """One fit; posterior means."""

    name: RegimeName
    step_seconds: float = Field(gt=0, description="a: a step on the smallest size")
    growth_per_doubling: float = Field(ge=0, description="b: of the step, relative")
    fixed_steps: float = Field(ge=0, description="c: work per epoch that does not shrink, in steps")
    noise: float = Field(gt=0, description="relative spread of healthy runs of one size")
    slow_share: float = Field(gt=0, description="of all runs")
    sizes: tuple[FittedSize, ...]

    def describe(self) -> str:
        """Returns the values in words."""
        return (
            f"{self.name}: a {self.step_seconds:.4g} s, b {self.growth_per_doubling:.2%},"
            f" c {self.fixed_steps:.3g} steps, noise {self.noise:.1%}"
        )


class Fit(Document):
    """The fitted model."""

    model: str = MODEL
    host_size: int | None = Field(description="accelerators of one host")
    steps_known: bool = Field(description="if not, the paper's number of steps is assumed")
    feed_showers_per_second: float | None = Field(description="limit of --feed")
    regimes: tuple[FittedRegime, ...]
    not_in_it: str

    @property
    def sizes(self) -> tuple[FittedSize, ...]:
        """The measured sizes of all regimes."""
        return tuple(size for regime in self.regimes for size in regime.sizes)


class FitReport(Result):
    """The fit and its predictions."""

    file: str = Field(description="name of the CSV file")
    fit: Fit
    predictions: tuple[Prediction, ...]
    warnings: tuple[str, ...] = ()

    def view(self) -> View:
        """Returns the predicted times with their bands; the measured sizes are the basis."""
        rows = tuple(
            (
                one.n,
                one.seconds,
                f"{number_text(one.low_seconds)} to {number_text(one.high_seconds)}",
                one.evidence,
            )
            for one in self.predictions
        )
        sizes = [size.n for size in self.fit.sizes]
        return View(
            line=f"Predicted times, from {len(sizes)} measured sizes of {min(sizes)} to {max(sizes)}",
            table=Table(
                ("accelerators", "epoch (s)", "9 of 10 runs", "evidence"), rows, align="rrll"
            ),
            notes=(self.fit.not_in_it,),
            warnings=self.warnings,
            basis=(self.table(),),
        )

    def table(self) -> Table:
        """Returns the measured and the predicted seconds, a row per size."""
        measured = (
            (size.n, size.seconds, "", "", "", "", "", f"measured, {regime.name}, {size.source}")
            for regime in self.fit.regimes
            for size in regime.sizes
        )
        predicted = (
            (
                one.n,
                one.seconds,
                one.healthy_low_seconds,
                one.healthy_high_seconds,
                one.low_seconds,
                one.high_seconds,
                one.needs_showers_per_second or "",
                one.evidence,
            )
            for one in self.predictions
        )
        healthy = ("healthy low", "healthy high")
        fits = "; ".join(regime.describe() for regime in self.fit.regimes)
        assumed = "" if self.fit.steps_known else f"; {_NO_STEPS}"
        return Table(
            ("n", "seconds", *healthy, "low", "high", "needs showers/s", "source"),
            (*measured, *predicted),
            f"{self.fit.model}. {fits}{assumed}. {_BAND}; {self.fit.not_in_it}.",
            "rrrrrrrl",
        )

    def page(self) -> Page:
        """Returns the page of `--report`; its curve spans the measured and the predicted sizes."""
        measured = tuple(
            PointSeries(
                f"measured, {regime.name}",
                tuple(Point(size.n, size.seconds, f"{size.n}") for size in regime.sizes),
            )
            for regime in self.fit.regimes
        )
        known: dict[int, PredictedTime] = {one.n: one for one in self.predictions}
        known |= {size.n: size.fitted for size in self.fit.sizes}
        plot = Plot(
            "Time against accelerators",
            Axis("accelerators", log=True),
            Axis("seconds", log=True),
            measured,
            (prediction_line(known),),
            band_label="90 % band",
            extrapolated_from=max(size.n for size in self.fit.sizes),
        )
        lead = f"{self.fit.not_in_it[0].upper()}{self.fit.not_in_it[1:]}."
        warnings = (Section("Warnings", (Bullets(self.warnings),)),) if self.warnings else ()
        scaling = Section("Scaling", (plot, self.table()))
        return Page(f"Predicted times from {self.file}", lead, (*warnings, scaling))


def fit_and_predict(
    csv: Path,
    predict: tuple[int, ...],
    *,
    showers: int | None = None,
    batch: int | None = None,
    feed: float | None = None,
) -> FitReport:
    """Fits the timings of a CSV file and predicts the seconds of each size, in the given order.

    Args:
        csv: File with the columns n, seconds and, optionally, nodes and steps.
        showers: Showers of an epoch; with `batch` they give the steps.
        batch: Showers per accelerator and step.
        feed: Showers per second that the input can supply; needs `showers` and `batch`.

    Raises:
        ConfigError: A size is less than 1 or has no whole step; `showers` and `batch` are not given
            together.
        DataError: The file holds no timings, or timings of fewer than three sizes.
    """
    if (showers is None) != (batch is None) or (feed is not None and showers is None):
        raise ConfigError(
            "--showers and --batch (per accelerator) belong together, and --feed needs them:"
            " add, for example, --showers=124987 --batch=96"
        )
    timings = read_timings(csv)
    epoch = None if showers is None or batch is None else EpochSteps(showers, batch)
    try:
        scaling = fit_scaling(timings, epoch, feed)
        fit = Fit(
            host_size=scaling.host_size,
            steps_known=all(regime.steps.known for regime in scaling.regimes),
            feed_showers_per_second=feed,
            not_in_it=_UNSEEN_LIMITS if feed is None else _OTHER_LIMITS,
            regimes=tuple(_fitted(scaling, regime) for regime in scaling.regimes),
        )
        return FitReport(
            file=csv.name,
            fit=fit,
            predictions=tuple(map(scaling.predict, predict)),
            warnings=tuple(_misfits(regime) for regime in scaling.regimes if regime.misfits),
        )
    except DataError as error:
        raise DataError(f"{csv}: {error}") from error


def _fitted(scaling: ScalingModel, regime: Regime) -> FittedRegime:
    sizes = sorted((*regime.sizes, *regime.waiting), key=lambda size: size.n)
    return FittedRegime(
        name=regime.name,
        step_seconds=regime.posterior.step_seconds,
        growth_per_doubling=regime.posterior.growth,
        fixed_steps=regime.posterior.fixed_steps,
        noise=regime.posterior.noise,
        slow_share=regime.slow.share,
        sizes=tuple(
            FittedSize(
                **size.model_dump(),
                waits_for_input=size in regime.waiting,
                fitted=scaling.predict(size.n, size.steps),
            )
            for size in sizes
        ),
    )


def _misfits(regime: Regime) -> str:
    points = ", ".join(
        f"n={one.n} {one.seconds:.4g} s (model {one.fitted_seconds:.4g} s)"
        for one in regime.misfits
    )
    return (
        f"the model does not describe its own points: {points}; the intervals are widened. Check that"
        " the runs differ only in n (same batch per accelerator, no run that waits for its input), or"
        " fit more sizes"
    )
