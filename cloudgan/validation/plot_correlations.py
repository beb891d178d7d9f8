"""How the properties of a shower hang together: matrices of correlation, and their difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import to_rgb

from cloudgan.reports.drawing import COLOURS, Drawing, plain
from cloudgan.validation.features import HIGH_LEVEL, high_level
from cloudgan.validation.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from cloudgan.validation.plot_samples import Samples

    Floats = NDArray[np.float64]

FAMILY = "Correlations"
_SIZE_INCHES = (9.0, 4.05)
_STEPS = np.linspace(-1, 1, 21)


def correlation_figures(samples: Samples) -> Iterator[Figure]:
    """Both matrices of linear correlation, and the generated one minus that of the reference."""
    true, ours = (correlations(high_level(s)) for s in (samples.reference, samples.generated))
    chance = np.mean([
        np.abs(correlations(high_level(one)) - correlations(high_level(other))).max()
        for one, other in samples.halves
    ])  # fmt: skip
    away = np.abs(ours - true)
    row, column = np.unravel_index(int(away.argmax()), away.shape)
    svg = _draw(true, ours, samples)
    yield Figure(
        "correlations",
        FAMILY,
        svg,
        "Linear correlation of each two properties over the showers, and the difference. The largest"
        f" one is {away.max():.2f}, of {HIGH_LEVEL[row]} and {HIGH_LEVEL[column]}; of two halves of the Monte"
        f" Carlo {chance:.2f}.",
    )


def correlations(values: Floats) -> Floats:
    """Matrix of linear correlation of the columns of (N, n) values; 0 where one does not vary."""
    away = values - values.mean(0)
    width = np.sqrt((away**2).sum(0))
    norm = np.outer(width, width)
    found: Floats = np.divide(away.T @ away, norm, out=np.zeros_like(norm), where=norm > 0)
    return found


def _draw(true: Floats, ours: Floats, samples: Samples) -> str:
    matrices = {
        samples.reference_name: true,
        samples.generated_name: ours,
        "difference": np.clip(ours - true, -1, 1),
    }
    width, height = _SIZE_INCHES
    with Drawing(width, height) as drawing:
        drawing.figure.set_layout_engine("none")
        side, base = 2.1, 1.62
        places = np.arange(len(HIGH_LEVEL)) + 0.5
        for number, (title, matrix) in enumerate(matrices.items()):
            left = 1.62 + number * (side + 0.08)
            axes = drawing.figure.add_axes(
                (left / width, base / height, side / width, side / height)
            )
            _matrix(axes, matrix)
            axes.set_title(plain(title))
            axes.set_xticks(places, HIGH_LEVEL, rotation=90, fontsize=8)
            axes.set_yticks(places, HIGH_LEVEL, fontsize=8)
            axes.tick_params(length=0, labelleft=number == 0)
            axes.set_xlabel("property of a shower", fontsize=9)
            axes.set_ylabel("property of a shower" if number == 0 else "", fontsize=9)
        bar = drawing.figure.add_axes((8.14 / width, base / height, 0.1 / width, side / height))
        _scale(bar)
        return drawing.svg("correlations", "Matrices of correlation and their difference")


def _matrix(axes: Axes, matrix: Floats) -> None:
    """Squares whose colour is the sign and whose strength is the size, on any paper."""
    edges = np.arange(len(matrix) + 1)
    mesh = axes.pcolormesh(edges, edges, matrix)
    mesh.set_array(None)
    mesh.set_facecolor(_colours(matrix.ravel()))  # type: ignore[arg-type]  # stubs know one colour
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.spines[["top", "right"]].set_visible(True)


def _scale(axes: Axes) -> None:
    middle = (_STEPS[1:] + _STEPS[:-1]) / 2
    axes.barh(middle, 1, height=_STEPS[1] - _STEPS[0], color=_colours(middle), linewidth=0)
    axes.set_ylim(-1, 1)
    axes.set_xlim(0, 1)
    axes.set_xticks([])
    axes.yaxis.tick_right()
    axes.yaxis.set_label_position("right")
    axes.set_ylabel("correlation")
    axes.set_yticks([-1, -0.5, 0, 0.5, 1])
    axes.tick_params(labelsize=8)
    axes.grid(visible=False)
    axes.spines[["top", "right"]].set_visible(True)


def _colours(values: Floats) -> Floats:
    """Orange above zero, blue below, and no colour at zero: (n, 4)."""
    above, below = to_rgb(COLOURS[1]), to_rgb(COLOURS[0])
    colour = np.where(values[:, None] > 0, above, below)
    return np.concatenate([colour, np.clip(np.abs(values), 0, 1)[:, None]], 1)
