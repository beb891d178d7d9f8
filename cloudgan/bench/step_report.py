"""What `bench step` found, for programs and for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.bench.arithmetic import generator_macs, step_macs
from cloudgan.bench.layer_passes import counted_form, layer_passes
from cloudgan.bench.roofline import draw_roofline
from cloudgan.core.hardware import this_machine
from cloudgan.core.provenance import versions
from cloudgan.reports.drawing import Drawing
from cloudgan.reports.page import Graphic, Page, Paragraph, Section
from cloudgan.reports.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.bench.step import Measured, StepResult
    from cloudgan.core.presets import Preset
    from cloudgan.reports.page import Block


def step_json(result: StepResult) -> dict[str, Any]:
    """Returns everything by name; seconds, showers per second, 10^9 operations per second."""
    sides = [side for side in (result.own, result.against) if side]
    own, ratio, cpu_ratio = result.own, result.ratio, result.cpu_ratio
    return {
        "machine": this_machine().describe(),
        "versions": versions(),
        "preset": own.preset.preset,
        "global_batch": own.built["global_batch"],
        "rounds": min(len(side.rounds) for side in sides),
        "interrupted": result.interrupted,
        "variants": [_variant(side) for side in sides],
        "ratio": ratio.as_json() if ratio else None,
        "cpu_ratio": cpu_ratio.as_json() if cpu_ratio else None,
        "share_of_direct_limit": own.share_of_direct_limit.as_json(),
        "limit": limit_json(own.preset) | {"seconds_per_step": own.limit_seconds.as_json()},
        "copy_gb_per_second": result.copy_gb_per_second,
        "layers": [
            one.as_json() | {"seconds_of_all_passes": result.layers[number // 3]["all_passes"]}
            for number, one in enumerate(layer_passes(result))
        ],
    }


def limit_json(preset: Preset) -> dict[str, Any]:
    """Counted arithmetic of a step, GFLOP per shower of the batch."""
    return {
        "of": "direct convolution by phases, at the measured speed of matrix products",
        "gflop_per_shower": _gflop(preset, "phases"),
        "published_gflop_per_shower": _gflop(preset, "published"),
        "generator_gflop": 2e-9 * generator_macs(preset, "phases"),
        "parts_gflop": {n: 2e-9 * macs for n, macs in step_macs(preset, "phases").items()},
    }


def _gflop(preset: Preset, form: Any) -> float:
    return 2e-9 * sum(step_macs(preset, form).values())


def _variant(side: Measured) -> dict[str, Any]:
    return {
        "name": side.variant.name,
        "environment": side.variant.environment,
        "precision": side.variant.config.training.precision,
        **{key: side.built[key] for key in ("formulation", "device", "threads", "replicas")},
        "global_batch": side.built["global_batch"],
        "steps_per_round": side.built["steps"],
        "first_loss": side.built["first_loss"],
        "seconds_per_step": side.seconds.as_json(),
        "cpu_seconds_per_step": side.cpu_seconds.as_json(),
        "showers_per_second": side.showers_per_second.as_json(),
        "matmul_gflops": side.matmul_gflops.as_json(),
        "share_of_direct_limit": side.share_of_direct_limit.as_json(),
        "rounds": [one._asdict() for one in side.rounds],
    }


def step_table(result: StepResult) -> Table:
    """A row for each variant."""
    sides = [side for side in (result.own, result.against) if side]
    rows = [
        (
            side.told,
            *(side.seconds.median, side.seconds.min),
            f"{side.seconds.lower_quartile:.3g} to {side.seconds.upper_quartile:.3g}",
            *(side.showers_per_second.median, side.cpu_seconds.median),
            side.matmul_gflops.median,
            f"{side.share_of_direct_limit.median:.0%}",
        )
        for side in sides
    ]
    columns = (
        *("variant", "s/step, median", "least", "quartiles", "showers/s", "CPU s/step"),
        *("matrix product GFLOP/s", "share of direct limit"),
    )
    own = result.own
    said = (
        f"Preset {own.preset.preset}, {own.built['global_batch']} showers a step,"
        f" {min(len(side.rounds) for side in sides)} rounds in turns, {this_machine().describe()}."
    )
    return Table(columns, tuple(rows), said, "lrrlrrrr")


def layer_table(result: StepResult) -> Table:
    """A row for each convolution and pass that was timed."""
    rows = tuple(
        (
            one.label,
            one.pass_name.replace("_", " "),
            1000 * one.seconds,
            one.gflops,
            one.flop_per_byte,
        )
        for one in layer_passes(result)
    )
    said = f"Each convolution alone; operations are counted as {_counted(result.own)}."
    return Table(("layer", "pass", "ms/batch", "GFLOP/s", "FLOP/byte"), rows, said, "llrrr")


def step_lines(result: StepResult) -> Iterator[str]:
    """What the numbers mean, a sentence a line."""
    own, ratio, cpu_ratio = result.own, result.ratio, result.cpu_ratio
    if ratio and cpu_ratio and result.against:
        yield (
            f"ratio {result.against.told} / {own.told}: {ratio.told()} of wall time,"
            f" {cpu_ratio.told()} of CPU time (median, least to most, of {ratio.count} rounds)"
        )
    counts = limit_json(own.preset)
    yield (
        f"limit of direct convolution: {counts['gflop_per_shower']:.4g} GFLOP a shower"
        f" ({counts['published_gflop_per_shower']:.4g} as published), at the measured matrix speed"
        f" {own.limit_seconds.told()} s/step"
    )
    share = own.share_of_direct_limit
    yield (
        f"{own.told} reaches {share.median:.0%} ({share.min:.0%} to {share.max:.0%}) of that"
        f" limit{_past(share.median)}"
    )


def _past(share: float) -> str:
    if share <= 1:
        return ""
    return ": past it, because it multiplies less than direct convolution would; for it this is no limit"


def _counted(own: Measured) -> str:
    return (
        "published, with the up-sampled image"
        if counted_form(own) == "published"
        else "direct convolution by phases, whatever the kernels do"
    )


def step_page(result: StepResult) -> Page:
    """A page with all of it, and the roofline where layers were timed."""
    blocks: list[Block] = [step_table(result), *map(Paragraph, step_lines(result))]
    sections = [Section("Steps in turns", tuple(blocks))]
    if result.layers and result.copy_gb_per_second:
        with Drawing(height_inches=5.5) as drawing:
            draw_roofline(result, drawing)
            picture = drawing.svg("roofline", "speed of each convolution against its intensity")
        sections.append(Section("Roofline", (Graphic(picture), layer_table(result))))
    about = ", ".join(f"{name} {number}" for name, number in versions().items())
    return Page("How fast a training step is", sections=tuple(sections), footer=about)
