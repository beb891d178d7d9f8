"""Tables and figures of `cloudgan compare --scaling`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.api.scaling_figures import (
    cost_figure,
    parts,
    parts_figure,
    quality_figure,
    quality_name,
    scaling_figures,
)
from cloudgan.reports.page import Bullets, Page, Paragraph, Section
from cloudgan.reports.table import Number, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.api.scaling_comparison import ScalingComparison
    from cloudgan.cost.estimation.run_scaling import (
        ModelledSpeed,
        ScalingCurve,
        SerialShare,
        Speed,
    )
    from cloudgan.reports.page import Block
    from cloudgan.reports.table import Cell

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


def size_table(curve: ScalingCurve) -> Table:
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


def run_table(found: ScalingComparison) -> Table:
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


def published_table(found: ScalingComparison) -> Table:
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


def tables(found: ScalingComparison) -> tuple[Table, ...]:
    """Returns all tables for a terminal."""
    own = (*map(size_table, found.curves), run_table(found)) if found.runs else ()
    return (*own, published_table(found))


def sentences(found: ScalingComparison) -> tuple[str, ...]:
    """Returns Amdahl's serial share of each curve, then the notes."""
    said = [text for curve in found.curves for text in _shares(curve)]
    return (*said, *(f"note: {text}" for text in found.notes))


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


def scaling_page(found: ScalingComparison) -> Page:
    """Returns the page: a section per curve, the runs, and the published curves."""
    sections = [_curve_section(curve, found) for curve in found.curves]
    if found.runs:
        sections.append(Section("Parts of the time, quality and cost", _run_blocks(found)))
    blocks: tuple[Block, ...] = (published_table(found),)
    if not found.runs:
        blocks = (*scaling_figures(None, found.published), *blocks)
    sections.append(Section("Published", blocks))
    title = f"Scaling of {found.networks}" if found.networks else "Published scaling"
    return Page(title, "; ".join(found.notes), tuple(sections))


def _curve_section(curve: ScalingCurve, found: ScalingComparison) -> Section:
    blocks: tuple[Block, ...] = (
        *scaling_figures(curve, found.published),
        size_table(curve),
        Bullets(tuple(_shares(curve))),
        Paragraph(
            "The fitted model is T = a [S (1 + b log2(n/n0)) + c]: the serial share is c over the time of"
            " the smallest size, and b the growth of a step. Predicted sizes were not run."
        ),
    )
    return Section(f"{curve.kind.capitalize()} scaling", blocks)


def _run_blocks(found: ScalingComparison) -> tuple[Block, ...]:
    figures = (parts_figure(found.runs), quality_figure(found.runs), cost_figure(found.runs))
    return (*(figure for figure in figures if figure), run_table(found))
