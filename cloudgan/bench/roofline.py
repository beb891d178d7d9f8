"""The picture of all convolutions and passes under the roof of the machine.

The roof is Williams, Waterman and Patterson's (doi:10.1145/1498765.1498785): the speed of a large
product of matrices, and below its ridge what a large copy lets in and out of memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.bench.layer_passes import layer_passes
from cloudgan.core.errors import CloudganError
from cloudgan.reports.drawing import COLOURS, GREY, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cloudgan.bench.arithmetic import Pass
    from cloudgan.bench.layer_passes import LayerPass
    from cloudgan.bench.step import StepResult
    from cloudgan.reports.drawing import Drawing

_MARKERS: dict[Pass, str] = {"forward": "o", "input_gradient": "^", "weight_gradient": "s"}


def draw_roofline(result: StepResult, drawing: Drawing) -> None:
    """Draws all passes under the roof.

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
        f"{own.preset.preset}, {own.built['formulation']} kernels, batch"
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
    # Layers of like intensity stand close: their names are above and below in turn.
    columns = sorted({one.flop_per_byte: one.label for one in passes}.items())
    for number, (intensity, label) in enumerate(columns):
        speeds = [one.gflops for one in passes if one.label == label]
        above = number % 2 == 0
        place = (intensity, max(speeds) if above else min(speeds))
        shift = (0, 6 if above else -14)
        axes.annotate(label, place, shift, textcoords="offset points", ha="center")
