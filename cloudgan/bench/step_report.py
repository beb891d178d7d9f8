"""Results of `bench step` as JSON, tables, a page and a roofline.

Intensity is operations per byte of input, output and weights, each counted once. The roof is that of
Williams, Waterman and Patterson (doi:10.1145/1498765.1498785): the speed of a large matrix product,
and below its ridge the bandwidth of a large copy.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from cloudgan.bench.arithmetic import PASSES, generator_macs, step_macs
from cloudgan.core.errors import CloudganError
from cloudgan.core.hardware import this_machine
from cloudgan.models.convolutions import convolutions
from cloudgan.reports.drawing import INK, Drawing
from cloudgan.reports.page import Graphic, Page, Paragraph, Section
from cloudgan.reports.plot_frame import COLOURS, GREY
from cloudgan.reports.table import Table
from cloudgan.schema.provenance import versions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes

    from cloudgan.bench.arithmetic import Pass
    from cloudgan.bench.step import MeasuredVariant, StepResult
    from cloudgan.models.convolutions import Form
    from cloudgan.reports.page import Block
    from cloudgan.schema.presets import Preset

_BYTES = {"float32": 4, "bfloat16": 2, "float64": 8}


@dataclass(frozen=True)
class LayerPass:
    """One pass of one convolution over a batch.

    Attributes:
        network: generator or discriminator.
        layer: Its name there.
        pass_name: forward, input_gradient or weight_gradient.
        seconds: Median of a batch.
        gflop: 10^9 operations of a batch, counted for the form that was timed.
        gflops: 10^9 operations per second.
        flop_per_byte: Of input, output and weights.
    """

    network: str
    layer: str
    pass_name: Pass
    seconds: float
    gflop: float
    gflops: float
    flop_per_byte: float

    @property
    def label(self) -> str:
        """Such as G1: the network and the number of the layer, from one."""
        return f"{self.network[0].upper()}{int(self.layer.removeprefix('conv')) + 1}"

    def as_json(self) -> dict[str, Any]:
        """Returns the fields by name."""
        describe = asdict(self)
        return {
            "network": describe.pop("network"),
            "layer": describe.pop("layer"),
            "pass": describe.pop("pass_name"),
        } | describe


def layer_passes(result: StepResult) -> tuple[LayerPass, ...]:
    """Returns the timed layers and passes, in the order of the networks."""
    own = result.own
    layers = convolutions(own.preset)[: len(result.layers)]
    batch = own.built["global_batch"] // own.built["replicas"]
    width = _BYTES[own.variant.config.training.precision]
    found = []
    for layer, seconds in zip(layers, result.layers, strict=True):
        gflop = 2e-9 * layer.macs(counted_form(own)) * batch
        moved = width * (layer.values * batch + layer.weights)
        for name in PASSES:
            speed = gflop / seconds[name]
            found.append(
                LayerPass(
                    *(layer.network, layer.name, name, seconds[name], gflop, speed),
                    flop_per_byte=1e9 * gflop / moved,
                )
            )
    return tuple(found)


def counted_form(measured: MeasuredVariant) -> Form:
    """Returns the form whose products are counted."""
    return "published" if measured.built["conv_impl"] == "published" else "phases"


_MARKERS: dict[Pass, str] = {"forward": "o", "input_gradient": "^", "weight_gradient": "s"}


def draw_roofline(result: StepResult, drawing: Drawing) -> None:
    """Draws all passes below the roof.

    Raises:
        CloudganError: No layer was timed.
    """
    passes, bandwidth = layer_passes(result), result.copy_gb_per_second
    if not passes or bandwidth is None:
        raise CloudganError("no layer was timed, so there is no roofline to draw")
    (axes,) = drawing.axes()
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    _draw_roof(axes, result.peak_beside_layers, bandwidth, passes)
    _draw_passes(axes, passes)
    axes.set_xlabel("arithmetic intensity (FLOP per byte of input, output and weights)")
    axes.set_ylabel("speed (GFLOP/s)")
    own = result.own
    axes.set_title(
        f"{own.preset.preset}, {own.built['conv_impl']} kernels, batch"
        f" {own.built['global_batch'] // own.built['replicas']},"
        f" {own.variant.config.training.precision}, {own.built['threads']} threads"
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    drawing.figure.legend(loc="outside lower center", ncols=3)


def _draw_roof(axes: Axes, peak: float, bandwidth: float, passes: tuple[LayerPass, ...]) -> None:
    intensities = [one.flop_per_byte for one in passes]
    ridge = peak / bandwidth
    low, high = min([ridge, *intensities]) / 2, 2 * max([ridge, *intensities])
    said = f"copy: {bandwidth:.3g} GB/s"
    axes.plot([low, ridge], [low * bandwidth, peak], "--", color=GREY, label=said)
    axes.plot([ridge, high], [peak, peak], color=INK, label=f"matrix product: {peak:.3g} GFLOP/s")


def _draw_passes(axes: Axes, passes: tuple[LayerPass, ...]) -> None:
    networks = list(dict.fromkeys(one.network for one in passes))
    for number, network in enumerate(networks):
        for name, marker in _MARKERS.items():
            mine = [one for one in passes if (one.network, one.pass_name) == (network, name)]
            axes.plot(
                [one.flop_per_byte for one in mine],
                [one.gflops for one in mine],
                linestyle="",
                marker=marker,
                color=COLOURS[number],
                label=f"{network}, {name.replace('_', ' ')}",
            )
    # Labels alternate above and below, because layers of similar intensity are close.
    columns = sorted({one.flop_per_byte: one.label for one in passes}.items())
    for number, (intensity, label) in enumerate(columns):
        speeds = [one.gflops for one in passes if one.label == label]
        above = number % 2 == 0
        place = (intensity, max(speeds) if above else min(speeds))
        shift = (0, 6 if above else -14)
        axes.annotate(label, place, shift, textcoords="offset points", ha="center")


def step_json(result: StepResult) -> dict[str, Any]:
    """Returns all results by name; seconds, showers per second, 10^9 operations per second."""
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


def _variant(side: MeasuredVariant) -> dict[str, Any]:
    return {
        "name": side.variant.name,
        "environment": side.variant.environment,
        "precision": side.variant.config.training.precision,
        **{key: side.built[key] for key in ("conv_impl", "device", "threads", "replicas")},
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
    """Returns a row per variant."""
    sides = [side for side in (result.own, result.against) if side]
    rows = [
        (
            side.label,
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
    """Returns a row per timed convolution and pass."""
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
    """Yields the interpretation, one sentence per line."""
    own, ratio, cpu_ratio = result.own, result.ratio, result.cpu_ratio
    if ratio and cpu_ratio and result.against:
        yield (
            f"ratio {result.against.label} / {own.label}: {ratio.describe()} of wall time,"
            f" {cpu_ratio.describe()} of CPU time (median, least to most, of {ratio.count} rounds)"
        )
    counts = limit_json(own.preset)
    yield (
        f"limit of direct convolution: {counts['gflop_per_shower']:.4g} GFLOP a shower"
        f" ({counts['published_gflop_per_shower']:.4g} as published), at the measured matrix speed"
        f" {own.limit_seconds.describe()} s/step"
    )
    share = own.share_of_direct_limit
    yield (
        f"{own.label} reaches {share.median:.0%} ({share.min:.0%} to {share.max:.0%}) of that"
        f" limit{_past(share.median)}"
    )


def _past(share: float) -> str:
    if share <= 1:
        return ""
    return ", because it needs fewer multiplications than direct convolution"


def _counted(own: MeasuredVariant) -> str:
    return (
        "published, with the up-sampled image"
        if counted_form(own) == "published"
        else "direct convolution by phases, for any implementation"
    )


def step_page(result: StepResult) -> Page:
    """Returns a page with all results, and the roofline if layers were timed."""
    blocks: list[Block] = [step_table(result), *map(Paragraph, step_lines(result))]
    sections = [Section("Steps in rounds_run", tuple(blocks))]
    if result.layers and result.copy_gb_per_second:
        with Drawing(height_inches=5.5) as drawing:
            draw_roofline(result, drawing)
            picture = drawing.svg("roofline", "speed of each convolution against its intensity")
        sections.append(Section("Roofline", (Graphic(picture), layer_table(result))))
    about = ", ".join(f"{name} {number}" for name, number in versions().items())
    return Page("Speed of the training step", sections=tuple(sections), footer=about)
