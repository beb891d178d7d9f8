"""Showers beside Monte Carlo of the same energy and angle: maps of the energy, summed over one axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import LogNorm

from cloudgan.data.showers import CELL_MM
from cloudgan.reports.drawing import Drawing, log_ticks, plain
from cloudgan.validation.figures.panels import Figure
from cloudgan.validation.figures.samples import Pair

_LEAST_MEV = 0.1
_COLOURS = 64
_VIEWS = (
    ("depth", 0, "layer", "y (mm)", "Showers from the side: energy summed over x."),
    ("front", 2, "x (mm)", "y (mm)", "The same showers from the front: energy summed over all layers."),
)  # fmt: skip


def shower_figures(pairs: Sequence[Pair], names: tuple[str, str]) -> Iterator[Figure]:
    """Yields the showers from the side and from the front; nothing without pairs.

    Args:
        pairs: Showers to draw, a column each.
        names: Of the generated sample and of the Monte Carlo.
    """
    for name, axis, x_label, y_label, caption in _VIEWS if pairs else ():
        # Rows of a map are y: from the side (y, z), from the front (x, y) transposed.
        sums = [[1000 * shower.ecal_gev.sum(axis) for shower in pair] for pair in pairs]
        maps = [[one.T if axis else one for one in pair] for pair in sums]
        most = max(float(one.max()) for pair in maps for one in pair)
        scale = LogNorm(_LEAST_MEV, max(most, 10 * _LEAST_MEV))
        with Drawing(9.0, 4.4 if axis else 3.9) as drawing:
            axes = drawing.figure.subplots(2, len(pairs), sharex=True, sharey=True, squeeze=False)
            for column, (pair, drawn) in enumerate(zip(pairs, maps, strict=True)):
                for row, (shower, energies) in enumerate(zip(pair, drawn, strict=True)):
                    one = axes[row][column]
                    image = one.imshow(
                        np.where(energies >= _LEAST_MEV, energies, np.nan),
                        cmap=colormaps["viridis"].resampled(_COLOURS), norm=scale, origin="lower",
                        extent=_extent(energies.shape, axis), interpolation="none",
                        aspect="equal" if axis else "auto",
                    )  # fmt: skip
                    one.set_title(str(shower), fontsize=9)
                    one.grid(visible=False)
                    one.spines[["top", "right"]].set_visible(True)
            for row, what in enumerate(names):
                axes[row][0].set_ylabel(f"{plain(what)}\n{y_label}", fontsize=9)
            for one in axes[1]:
                one.set_xlabel(x_label)
            bar = drawing.figure.colorbar(image, ax=axes, label="energy (MeV)", pad=0.02)
            log_ticks(bar.ax.yaxis)
            bar.ax.grid(visible=False)
            svg = drawing.svg(caption)
        equal = all(str(ours) == str(theirs) for ours, theirs in pairs)
        note = (
            f" Above: {names[0]}; below: {names[1]}, of {'the same' if equal else 'nearly the same'} energy and"
            f" angle. Blank: less than {_LEAST_MEV} MeV."
        )
        yield Figure(f"showers-{name}", "Showers", svg, caption + note)


def _extent(shape: tuple[int, ...], axis: int) -> tuple[float, float, float, float]:
    """Edges of a map whose rows are y: layers are numbered from 1, x and y are around the middle."""
    high, wide = shape[0] * CELL_MM / 2, shape[1] * CELL_MM / 2
    return (-wide, wide, -high, high) if axis else (0.5, shape[1] + 0.5, -high, high)
