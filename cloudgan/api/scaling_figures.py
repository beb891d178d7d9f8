"""Figures of scaling: speed-up and efficiency against n beside published ones, parts, quality and cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.cost.estimation.run_scaling import (
    ModelledSpeed,
    ScalingCurve,
    ScalingRun,
    Speed,
)
from cloudgan.reports.plot_frame import Axis
from cloudgan.reports.scatter import BandLine, BandPlot, Point, PointSeries, Scatter
from cloudgan.reports.stacked_bars import Bar, StackedBars

Quantity = Literal["speed_up", "efficiency"]
_TICKS = tuple(2.0**power for power in range(11))
_BOTH = {"training": "training only", "end_to_end": "end to end"}


class PublishedScaling(Document):
    """A published or computed size of other programs; efficiencies are over `base_n`."""

    source: str
    n: int = Field(ge=1)
    base_n: int = Field(ge=1)
    training_efficiency: float
    end_to_end_efficiency: float
    kind: str

    def speed_up(self, efficiency: float) -> float:
        """Returns the speed-up over the smallest size."""
        return efficiency * self.n / self.base_n


def scaling_figures(
    curve: ScalingCurve | None, published: Sequence[PublishedScaling]
) -> tuple[BandPlot, BandPlot]:
    """Returns speed-up and efficiency against the number of workers, each with the ideal line.

    A speed-up over a smallest size above 1 is multiplied by that size: all have one ideal line.

    Args:
        curve: Measured and predicted sizes; None: published ones only.
        published: Of other programs.
    """
    return (
        _figure(
            "speed_up",
            "Speed-up against workers",
            Axis("speed-up, times n of the smallest size", log=True),
            curve,
            published,
        ),
        _figure(
            "efficiency",
            "Efficiency against workers",
            Axis("efficiency", from_zero=True),
            curve,
            published,
        ),
    )


def _figure(
    quantity: Quantity,
    title: str,
    y: Axis,
    curve: ScalingCurve | None,
    published: Sequence[PublishedScaling],
) -> BandPlot:
    ends = [one.n for one in published]
    if curve:
        ends += [*(one.n for one in curve.sizes), *(one.n for one in curve.modelled)]
    ticks = tuple(tick for tick in _TICKS if tick < 2 * max(ends))
    ideal = {tick: tick if quantity == "speed_up" else 1.0 for tick in ticks}
    own: tuple[PointSeries, ...] = ()
    fitted: tuple[BandLine, ...] = ()
    extrapolated = None
    if curve:
        own = tuple(_measured(curve, name, quantity) for name in _BOTH)
        fitted = tuple(_fitted(curve, name, quantity) for name in _BOTH if curve.modelled)
        extrapolated = float(curve.sizes[-1].n) if curve.modelled else None
        if quantity == "speed_up":
            base = curve.base
            ideal |= {float(one.n): base.n * one.devices / base.devices for one in curve.sizes}
    return BandPlot(
        title,
        Axis("n", log=True, ticks=ticks),
        y,
        (*own, *_beside(published, quantity)),
        (BandLine("ideal", tuple(sorted(ideal)), tuple(ideal[n] for n in sorted(ideal))), *fitted),
        band_label="90 % band",
        extrapolated_from=extrapolated,
        caption="Dashed: predicted by the model, not run." if extrapolated else "",
    )


def _measured(curve: ScalingCurve, name: str, quantity: Quantity) -> PointSeries:
    speeds = ((one, getattr(one, name)) for one in curve.sizes)
    points = (
        Point(one.n, _value(speed, quantity, curve.base.n), ", ".join(one.runs))
        for one, speed in speeds
        if speed
    )
    return PointSeries(f"{_BOTH[name]}, measured", tuple(points))


def _fitted(curve: ScalingCurve, name: str, quantity: Quantity) -> BandLine:
    found: list[ModelledSpeed] = [getattr(one, name) for one in curve.modelled]
    values = [_value(one, quantity, curve.base.n) for one in found]
    return BandLine(
        f"{_BOTH[name]}, model",
        tuple(float(one.n) for one in curve.modelled),
        tuple(values),
        tuple(y * one.low / one.speed_up for y, one in zip(values, found, strict=True)),
        tuple(y * one.high / one.speed_up for y, one in zip(values, found, strict=True)),
    )


def _value(speed: Speed | ModelledSpeed, quantity: Quantity, base: int) -> float:
    return speed.speed_up * base if quantity == "speed_up" else speed.efficiency


def _beside(
    published: Sequence[PublishedScaling], quantity: Quantity
) -> tuple[PointSeries, PointSeries, PointSeries]:
    """Returns POWER8 (base 1), then the cloud paper's two speeds."""

    def point(one: PublishedScaling, name: str) -> Point:
        efficiency: float = getattr(one, f"{name}_efficiency")
        value = efficiency * one.n if quantity == "speed_up" else efficiency
        return Point(one.n, value, f"{one.source}, {_BOTH[name]}", one.kind)

    power8 = [one for one in published if one.base_n == 1]
    paper = [one for one in published if one.base_n > 1]
    return (
        PointSeries("POWER8", tuple(point(one, name) for one in power8 for name in _BOTH)),
        PointSeries(
            "arXiv:2111.04628, training only", tuple(point(one, "training") for one in paper)
        ),
        PointSeries(
            "arXiv:2111.04628, end to end", tuple(point(one, "end_to_end") for one in paper)
        ),
    )


def parts(runs: Sequence[ScalingRun]) -> tuple[str, ...]:
    """Returns the activities in which any run spent time, in the order of a run."""
    names = dict.fromkeys(name for run in runs for name in run.seconds)
    return tuple(name for name in names if any(run.seconds.get(name, 0.0) != 0 for run in runs))


def parts_figure(runs: Sequence[ScalingRun]) -> StackedBars:
    """Returns the program time of each run by activity."""
    names = parts(runs)
    bars = (
        Bar(f"n = {run.n}: {run.run}", tuple(run.seconds.get(name, 0.0) for name in names))
        for run in runs
    )
    return StackedBars("Parts of the program time", Axis("seconds"), names, tuple(bars))


def quality_name(runs: Sequence[ScalingRun]) -> str:
    """Returns the name of the number that ranks validations."""
    return " or ".join(sorted({run.quality_name for run in runs} - {""})) or "quality"


def quality_figure(runs: Sequence[ScalingRun]) -> Scatter | None:
    """Returns the quality of the best validation against n; None if no run was validated."""
    return _against(
        "Quality against workers",
        f"{quality_name(runs)} of the best validation",
        [(run, run.quality) for run in runs],
    )


def cost_figure(runs: Sequence[ScalingRun]) -> Scatter | None:
    """Returns the cost against n; None if no cost is known."""
    return _against("Cost against workers", "cost (USD)", [(run, run.usd) for run in runs])


def _against(
    title: str, label: str, values: Sequence[tuple[ScalingRun, float | None]]
) -> Scatter | None:
    points = tuple(
        Point(run.n, value, run.run, run.cost) for run, value in values if value is not None
    )
    if not points:
        return None
    ticks = tuple(tick for tick in _TICKS if tick < 2 * max(point.x for point in points))
    return Scatter(
        title,
        Axis("n", log=True, ticks=ticks),
        Axis(label, from_zero=True),
        (PointSeries("runs", points),),
    )
