"""The result of `cloudgan compare --scaling`: tables and figures."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from cloudgan.api.scaling_figures import (
    PublishedScaling,
    cost_figure,
    parts,
    parts_figure,
    quality_figure,
    quality_name,
    scaling_figures,
)
from cloudgan.cost.estimation.run_scaling import (
    ModelledSpeed,
    ScalingCurve,
    ScalingRun,
    SerialShare,
    Speed,
)
from cloudgan.cost.paper.power8 import Power8
from cloudgan.reports.page import Block, Bullets, Page, Paragraph, Section
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Cell, Number, Table

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
        sections = [_curve_section(curve, self) for curve in self.curves]
        if self.runs:
            sections.append(Section("Parts of the time, quality and cost", _run_blocks(self)))
        blocks: tuple[Block, ...] = (_published_table(self),)
        if not self.runs:
            blocks = (*scaling_figures(None, self.published), *blocks)
        sections.append(Section("Published", blocks))
        title = f"Scaling of {self.networks}" if self.networks else "Published scaling"
        return Page(title, "; ".join(self.notes), tuple(sections))


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
    activities = parts(found.runs)
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
        ("run", "n", *activities, quality_name(found.runs), "cost"),
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


def _curve_section(curve: ScalingCurve, found: ScalingComparison) -> Section:
    blocks: tuple[Block, ...] = (
        *scaling_figures(curve, found.published),
        _size_table(curve),
        Bullets(tuple(_shares(curve))),
        Paragraph(
            "The fitted model is T = a [S (1 + b log2(n/n0)) + c]: the serial share is c over the time of"
            " the smallest size, and b the growth of a step. Predicted sizes were not run."
        ),
    )
    return Section(f"{curve.kind.capitalize()} scaling", blocks)


def _run_blocks(found: ScalingComparison) -> tuple[Block, ...]:
    figures = (parts_figure(found.runs), quality_figure(found.runs), cost_figure(found.runs))
    return (*(figure for figure in figures if figure), _run_table(found))
