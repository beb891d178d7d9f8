"""The result of `cloudgan compare --scaling`: tables, and speed-up and efficiency against n beside published ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.money.scaling_curves import (
    ModelledSpeed,
    Power8,
    ScalingCurve,
    ScalingRun,
    SerialShare,
    Speed,
)
from cloudgan.reports.charts import Axis, Bar, Chart, Line, Plot, Point, PointSeries, StackedBars
from cloudgan.reports.page import Block, Bullets, Page, Paragraph, Section
from cloudgan.reports.result import Result, View
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


class ScalingComparison(Result):
    """Curves of runs, beside published ones.

    Without runs there are published curves only.
    """

    networks: str = Field(description="of the runs; empty: no runs")
    runs: tuple[ScalingRun, ...]
    curves: tuple[ScalingCurve, ...]
    published: tuple[PublishedScaling, ...]
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
        sizes = [one.n for one in self.published]
        sizes += [one.n for one in curve.sizes] + [one.n for one in curve.modelled] if curve else []
        ticks = _ticks(max(sizes))
        ideal = {tick: tick if is_speed else 1.0 for tick in ticks}
        if curve and is_speed:
            n, devices = curve.base.n, curve.base.devices
            ideal |= {float(one.n): n * one.devices / devices for one in curve.sizes}
        series = [_measured(curve, name, quantity) for name in _BOTH] if curve else []
        lines = [Line("ideal", tuple(sorted(ideal)), tuple(ideal[n] for n in sorted(ideal)))]
        is_fitted = curve is not None and bool(curve.modelled)
        if curve and is_fitted:
            lines += [_fitted(curve, name, quantity) for name in _BOTH]
        beside = {"POWER8": list(_BOTH)}
        beside |= {f"arXiv:2111.04628, {label}": [name] for name, label in _BOTH.items()}
        for title, names in beside.items():
            points = (
                Point(
                    one.n,
                    getattr(one, f"{name}_efficiency") * (one.n if is_speed else 1),
                    f"{one.source}, {_BOTH[name]}",
                    one.kind,
                )
                for one in self.published
                if (one.base_n == 1) == (title == "POWER8")
                for name in names
            )
            series.append(PointSeries(title, tuple(points)))
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


def _measured(curve: ScalingCurve, name: str, quantity: Quantity) -> PointSeries:
    base = curve.base.n if quantity == "speed_up" else 1
    speeds = ((one, getattr(one, name)) for one in curve.sizes)
    points = (
        Point(one.n, base * getattr(speed, quantity), ", ".join(one.runs))
        for one, speed in speeds
        if speed
    )
    return PointSeries(f"{_BOTH[name]}, measured", tuple(points))


def _fitted(curve: ScalingCurve, name: str, quantity: Quantity) -> Line:
    base = curve.base.n if quantity == "speed_up" else 1
    found: list[ModelledSpeed] = [getattr(one, name) for one in curve.modelled]
    values: list[float] = [base * getattr(one, quantity) for one in found]
    low = (y * one.low / one.speed_up for y, one in zip(values, found, strict=True))
    high = (y * one.high / one.speed_up for y, one in zip(values, found, strict=True))
    sizes = tuple(float(one.n) for one in curve.modelled)
    return Line(f"{_BOTH[name]}, model", sizes, tuple(values), tuple(low), tuple(high))


def _ticks(most: float) -> tuple[float, ...]:
    """Returns the powers of two up to the first that is not below `most`."""
    return tuple(2.0**power for power in range(11) if 2.0**power < 2 * most)


def _sizes(curves: tuple[ScalingCurve, ...]) -> Table:
    """Returns a row per measured size, then one per predicted size, for a terminal."""
    rows: list[tuple[Cell, ...]] = []
    for curve in curves:
        for one in curve.sizes:
            both = (*_speed(one.training)[1:], *_speed(one.end_to_end)[1:])
            rows.append((curve.kind, one.n, one.devices, *both, "measured"))
        for ahead in curve.modelled:
            if ahead.predicted:
                both = (*_modelled(ahead.training)[1:], *_modelled(ahead.end_to_end)[1:])
                rows.append((curve.kind, ahead.n, "", *both, "predicted"))
    heads = ("scaling", "n", "devices", "training", "eff.", "end to end", "eff.", "kind")
    return Table(heads, tuple(rows), "Speed-up and efficiency.", "lrrrrrrl", priority="10603020")


def _size_table(curve: ScalingCurve) -> Table:
    """Returns a row per measured size, then one per predicted size."""
    measured = tuple(
        (
            *(one.n, one.devices, one.global_batch_size, len(one.runs)),
            *(*_speed(one.training), *_speed(one.end_to_end)),
            f"measured; {one.why_unknown}" if one.why_unknown else "measured",
        )
        for one in curve.sizes
    )
    predicted = tuple(
        (one.n, "", "", "", *_modelled(one.training), *_modelled(one.end_to_end), "predicted")
        for one in curve.modelled
        if one.predicted
    )
    caption = (
        f"{curve.kind.capitalize()} scaling, {_KEPT[curve.kind]}, over n = {curve.base.n}. Training: without"
        " first calls. End to end: over the program time, with start-up, validation and checkpoints."
        " Efficiency: speed-up over the ratio of devices (accelerators, or threads of a CPU)."
    )
    return Table(_HEADS, (*measured, *predicted), caption, "r" * 10 + "l", priority="04352012010")


def _speed(one: Speed | None) -> tuple[Cell, ...]:
    return (one.showers_per_second, one.speed_up, one.efficiency) if one else (None, None, None)


def _modelled(one: ModelledSpeed) -> tuple[Cell, ...]:
    text = f"{one.speed_up:.3g} ({one.low:.3g} to {one.high:.3g})"
    return ("", Number(one.speed_up, text), one.efficiency)


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
        (
            *(one.source, one.n, one.base_n),
            *(one.speed_up(one.training_efficiency), one.training_efficiency),
            *(one.speed_up(one.end_to_end_efficiency), one.end_to_end_efficiency),
            one.kind,
        )
        for one in found.published
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
            yield f"Amdahl's serial share, {curve.kind} scaling, {what}: {_share(share)}"
    if curve.misfits:
        yield (
            f"The model does not describe the speed at n = {', '.join(map(str, curve.misfits))}, so the"
            " intervals are wide and the shares uncertain; compare runs of more sizes"
        )


def _share(share: SerialShare) -> str:
    return (
        f"{share.share:.2%} ({share.low:.2%} to {share.high:.2%}, 90 % interval); beside it a step grows by"
        f" {share.growth_per_doubling:.2%} per doubling"
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
