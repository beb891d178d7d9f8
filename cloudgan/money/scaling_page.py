"""The result of `cloudgan compare --scaling`: tables, and speed-up and efficiency against n beside published ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, get_args

from pydantic import Field

from cloudgan.money.comparison import OfRuns
from cloudgan.money.scaling_curves import (
    Power8,
    ScalingCurve,
    ScalingRun,
    ScalingSize,
    Speed,
)
from cloudgan.reports.charts import Axis, Bar, Chart, Line, Plot, Point, PointSeries, StackedBars
from cloudgan.reports.page import Block, Bullets, Page, Paragraph, Section
from cloudgan.reports.result import View
from cloudgan.reports.table import Cell, Number, Table

Quantity = Literal["speed_up", "efficiency"]
_BOTH = {"training": "training only", "end_to_end": "end to end"}
_KEPT = {
    "strong": "one global batch for all sizes",
    "weak": "one batch per worker for all sizes",
}
_SPEEDS = (
    *("training showers/s", "training speed-up", "training efficiency"),
    *("end-to-end showers/s", "end-to-end speed-up", "end-to-end efficiency"),
)
_HEADS = ("n", "devices", "batch", "runs", *_SPEEDS, "kind")
_PUBLISHED_HEADS = ("source", "n", "over n", *_SPEEDS[1:3], *_SPEEDS[4:], "kind")


class ScalingComparison(OfRuns):
    """Curves of runs, beside published ones.

    Without runs there are published curves only.
    """

    networks: str = Field(description="of the runs; empty: no runs")
    runs: tuple[ScalingRun, ...]
    curves: tuple[ScalingCurve, ...]
    published: tuple[ScalingSize, ...]
    power8: Power8
    notes: tuple[str, ...] = ()

    def view(self) -> View:
        """Returns a row per size with both speed-ups; seconds, qualities and published sizes are the basis."""
        if not self.runs:
            return View("Published scaling", _published_table(self))
        said = (text for curve in self.curves for text in _shares(curve))
        missing = (
            f"n = {one.n}: {one.why_unknown}"
            for curve in self.curves
            for one in curve.sizes
            if one.why_unknown
        )
        return View(
            f"Scaling of {self.networks}: {len(self.runs)} runs",
            _sizes(self.curves),
            notes=(*said, *missing, *self.notes, "-v shows speeds, seconds, quality and cost"),
            warnings=self.left_out_warnings(),
            basis=(*map(_size_table, self.curves), _run_table(self), _published_table(self)),
        )

    def page(self) -> Page:
        """Returns a section per curve, the runs, and the published curves."""
        model = Paragraph(
            "The fitted model is T = a [S (1 + b log2(n/n0)) + c]: the serial share is c over the time of"
            " the smallest size, and b the growth of a step. Predicted sizes were not run."
        )
        sections = []
        for curve in self.curves:
            plots = tuple(self._plot(quantity, curve) for quantity in get_args(Quantity))
            blocks: tuple[Block, ...] = (
                *plots,
                _size_table(curve),
                Bullets(tuple(_shares(curve))),
                model,
            )
            sections.append(Section(f"{curve.kind.capitalize()} scaling", blocks))
        if self.runs:
            what = (*_run_charts(self.runs), _run_table(self))
            sections.append(Section("Parts of the time, quality and cost", what))
        quantities = () if self.runs else get_args(Quantity)
        plots = tuple(self._plot(quantity) for quantity in quantities)
        sections.append(Section("Published", (*plots, _published_table(self))))
        title = f"Scaling of {self.networks}" if self.networks else "Published scaling"
        return Page(title, "; ".join(self.notes), tuple(sections))

    def _plot(self, quantity: Quantity, curve: ScalingCurve | None = None) -> Plot:
        """Returns speed-up or efficiency against n: measured, fitted and published, and the ideal line.

        A speed-up over a smallest size above 1 is multiplied by that size: all have one ideal line.
        """
        is_speed = quantity == "speed_up"
        shown = (*self.published, *((*curve.sizes, *curve.modelled) if curve else ()))
        ticks = _ticks(max(one.n for one in shown))
        ideal = {tick: tick if is_speed else 1.0 for tick in ticks}
        if curve and is_speed:
            devices = curve.base.devices or 1
            ideal |= {
                float(one.n): one.base_n * (one.devices or 1) / devices for one in curve.sizes
            }
        series: list[PointSeries] = []
        lines = [Line("ideal", tuple(sorted(ideal)), tuple(ideal[n] for n in sorted(ideal)))]
        is_fitted = curve is not None and bool(curve.modelled)
        if curve:
            series = [
                PointSeries(f"{label}, measured", _points(curve.sizes, name, quantity))
                for name, label in _BOTH.items()
            ]
            lines += [_fitted(curve, name, quantity) for name in _BOTH if is_fitted]
        power8 = [one for one in self.published if one.base_n == 1]
        paper = [one for one in self.published if one.base_n > 1]
        points = zip(*(_points(power8, name, quantity) for name in _BOTH), strict=True)
        series.append(PointSeries("POWER8", tuple(point for both in points for point in both)))
        series += [
            PointSeries(f"arXiv:2111.04628, {label}", _points(paper, name, quantity))
            for name, label in _BOTH.items()
        ]
        return Plot(
            "Speed-up against workers" if is_speed else "Efficiency against workers",
            Axis("n", log=True, ticks=ticks),
            Axis("speed-up, times n of the smallest size", log=True)
            if is_speed
            else Axis("efficiency", from_zero=True),
            tuple(series),
            tuple(lines),
            band_label="90 % band",
            extrapolated_from=float(curve.sizes[-1].n) if curve and is_fitted else None,
            caption="Dashed: predicted by the model, not run." if is_fitted else "",
        )


def _points(sizes: Iterable[ScalingSize], name: str, quantity: Quantity) -> tuple[Point, ...]:
    """Returns what is known of speed-up or efficiency, training only or end to end."""
    found = []
    for one in sizes:
        speed: Speed | None = getattr(one, name)
        if speed is None:
            continue
        value = getattr(speed, quantity) * (one.base_n if quantity == "speed_up" else 1)
        if one.kind == "measured":
            found.append(Point(one.n, value, ", ".join(one.runs)))
        else:
            found.append(Point(one.n, value, f"{', '.join(one.runs)}, {_BOTH[name]}", one.kind))
    return tuple(found)


def _fitted(curve: ScalingCurve, name: str, quantity: Quantity) -> Line:
    speeds: list[Speed] = [getattr(one, name) for one in curve.modelled]
    points = _points(curve.modelled, name, quantity)
    low, high = (
        tuple(
            point.y * (getattr(speed, edge) or 0.0) / speed.speed_up
            for point, speed in zip(points, speeds, strict=True)
        )
        for edge in ("low", "high")
    )
    sizes, values = tuple(float(point.x) for point in points), tuple(point.y for point in points)
    return Line(f"{_BOTH[name]}, model", sizes, values, low, high)


def _ticks(most: float) -> tuple[float, ...]:
    """Returns the powers of two up to the first that is not below `most`."""
    return tuple(2.0**power for power in range(11) if 2.0**power < 2 * most)


def _sizes(curves: tuple[ScalingCurve, ...]) -> Table:
    """Returns a row per measured size, then one per predicted size, for a terminal."""
    rows = tuple(
        (curve.kind, one.n, _blank(one.devices), *_speed_ups(one), one.kind)
        for curve in curves
        for one in (*curve.sizes, *curve.predicted)
    )
    heads = ("scaling", "n", "devices", "training", "eff.", "end to end", "eff.", "kind")
    return Table(heads, rows, "Speed-up and efficiency.", "lrrrrrrl", priority="10603020")


def _size_table(curve: ScalingCurve) -> Table:
    """Returns a row per measured size, then one per predicted size."""
    rows = tuple(
        (
            *(one.n, _blank(one.devices), _blank(one.global_batch_size), len(one.runs) or ""),
            *(*_speed(one.training), *_speed(one.end_to_end)),
            f"{one.kind}; {one.why_unknown}" if one.why_unknown else one.kind,
        )
        for one in (*curve.sizes, *curve.predicted)
    )
    caption = (
        f"{curve.kind.capitalize()} scaling, {_KEPT[curve.kind]}, over n = {curve.base.n}. Training: without"
        " first calls. End to end: over the program time, with start-up, validation and checkpoints."
        " Efficiency: speed-up over the ratio of devices (accelerators, or threads of a CPU)."
    )
    return Table(_HEADS, rows, caption, "r" * 10 + "l", priority="04352012010")


def _speed(one: Speed | None) -> tuple[Cell, ...]:
    """Returns showers per second, speed-up and efficiency."""
    if one is None:
        return (None, None, None)
    speed_up: Cell = one.speed_up
    if one.low is not None:
        text = f"{one.speed_up:.3g} ({one.low:.3g} to {one.high:.3g})"
        speed_up = Number(one.speed_up, text)
    return (_blank(one.showers_per_second), speed_up, one.efficiency)


def _speed_ups(one: ScalingSize) -> tuple[Cell, ...]:
    return (*_speed(one.training)[1:], *_speed(one.end_to_end)[1:])


def _blank(value: float | None) -> Cell:
    """Returns a value, or nothing where it does not apply."""
    return "" if value is None else value


def _run_table(found: ScalingComparison) -> Table:
    """Returns a row per run: its seconds by activity, its quality and its cost."""
    activities = _activities(found.runs)
    rows = tuple(
        (
            *(run.run, run.n),
            *(run.seconds.get(part, 0.0) for part in activities),
            "not validated" if run.quality is None else run.quality,
            run.cost,
        )
        for run in found.runs
    )
    caption = (
        "Program time in seconds by activity; quality of the best validation; cost of the run."
    )
    return Table(
        ("run", "n", *activities, _quality_name(found.runs), "cost"),
        rows,
        caption,
        "lr" + "r" * (len(activities) + 1) + "l",
    )


def _published_table(found: ScalingComparison) -> Table:
    """Returns a row per published size, and POWER8's with a shared validation."""
    known = found.power8
    rows = tuple(
        (*one.runs, one.n, one.base_n, *_speed_ups(one), one.kind) for one in found.published
    )
    caption = (
        f"POWER8 ({known.source}): {_hours(known.one_gpu_minutes)} on one GPU,"
        f" {_hours(known.all_gpus_minutes)} on {known.gpus}, of which {known.serial_minutes:.1f} min did"
        f" not shrink, a serial share of {known.serial_share:.1%}. Shared by all GPUs the whole would take"
        f" {known.shared_minutes:.0f} min: {known.shared_speed_up:.1f} times instead of"
        f" {known.speed_up:.2f}. arXiv:2111.04628: epochs after the first, per shower, end to end with"
        " the test."
    )
    return Table(_PUBLISHED_HEADS, rows, caption, "lrrrrrrl")


def _hours(minutes: float) -> str:
    hours, rest = divmod(round(minutes), 60)
    return f"{hours} h {rest} min"


def _shares(curve: ScalingCurve) -> Iterator[str]:
    if curve.why_not_fitted:
        yield f"Amdahl's serial share, {curve.kind} scaling: unknown: {curve.why_not_fitted}"
        return
    for what, share in (
        ("training only", curve.training_share),
        ("end to end", curve.end_to_end_share),
    ):
        if share:
            yield (
                f"Amdahl's serial share, {curve.kind} scaling, {what}: {share.share:.2%}"
                f" ({share.low:.2%} to {share.high:.2%}, 90 % interval); beside it a step grows by"
                f" {share.growth_per_doubling:.2%} per doubling"
            )
    if curve.misfits:
        yield (
            f"The model does not describe the speed at n = {', '.join(map(str, curve.misfits))}, so the"
            " intervals are wide and the shares uncertain; compare runs of more sizes"
        )


def _activities(runs: Sequence[ScalingRun]) -> tuple[str, ...]:
    """Returns the activities in which any run spent time, in the order of a run."""
    names = dict.fromkeys(name for run in runs for name in run.seconds)
    return tuple(name for name in names if any(run.seconds.get(name, 0.0) != 0 for run in runs))


def _quality_name(runs: Sequence[ScalingRun]) -> str:
    return " or ".join(sorted({run.quality_name for run in runs} - {""})) or "quality"


def _run_charts(runs: Sequence[ScalingRun]) -> Iterator[Chart]:
    """Yields the program time by activity; quality and cost against n, where any is known."""
    names = _activities(runs)
    bars = (
        Bar(f"n = {run.n}: {run.run}", tuple(run.seconds.get(name, 0.0) for name in names))
        for run in runs
    )
    yield StackedBars("Parts of the program time", Axis("seconds"), names, tuple(bars))
    quality = f"{_quality_name(runs)} of the best validation"
    for title, label, values in (
        ("Quality against workers", quality, [run.quality for run in runs]),
        ("Cost against workers", "cost (USD)", [run.usd for run in runs]),
    ):
        points = tuple(
            Point(run.n, value, run.run, run.cost)
            for run, value in zip(runs, values, strict=True)
            if value is not None
        )
        if points:
            n = Axis("n", log=True, ticks=_ticks(max(point.x for point in points)))
            y = Axis(label, from_zero=True)
            yield Plot(title, n, y, (PointSeries("runs", points),))
