"""Correlation matrices and distances of generated and reference showers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch
from numpy.typing import NDArray

from cloudgan.reports.charts import COLOURS, GREY, INK
from cloudgan.reports.drawing import Drawing, plain
from cloudgan.reports.words import in_words
from cloudgan.validation.assessment import Assessment, Measure
from cloudgan.validation.observables import HIGH_LEVEL, high_level
from cloudgan.validation.panels import Figure, legend_columns, physics_ticks
from cloudgan.validation.samples import GENERATED_COLOUR, Samples

Floats = NDArray[np.float64]


_SIZE_INCHES = (9.0, 4.3)
_STEPS = np.linspace(-1, 1, 21)


def correlation_figures(samples: Samples) -> Iterator[Figure]:
    """Yields the correlation matrices of both samples and their difference."""
    true, ours = (correlations(high_level(s)) for s in (samples.reference, samples.generated))
    chance = samples.baseline_scale * np.mean([
        np.abs(correlations(high_level(one)) - correlations(high_level(other))).max()
        for one, other in samples.halves
    ])  # fmt: skip
    deviation = np.abs(ours - true)
    row, column = np.unravel_index(int(deviation.argmax()), deviation.shape)
    svg = _draw(true, ours, samples)
    yield Figure(
        "correlations",
        "Correlations",
        svg,
        "Linear correlation of each pair of properties, and the difference. The largest difference is"
        f" {deviation.max():.2f}, of {in_words(HIGH_LEVEL[row])} and"
        f" {in_words(HIGH_LEVEL[column])}; for two samples"
        f" of Monte Carlo of these sizes it is {chance:.2f}.",
    )


def correlations(values: Floats) -> Floats:
    """Matrix of linear correlation of the columns of (N, n) values; 0 where one does not vary."""
    deviation = values - values.mean(0)
    width = np.sqrt((deviation**2).sum(0))
    norm = np.outer(width, width)
    found: Floats = np.divide(
        deviation.T @ deviation, norm, out=np.zeros_like(norm), where=norm > 0
    )
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
        side, base = 1.98, 2.0
        places = np.arange(len(HIGH_LEVEL)) + 0.5
        words = list(map(in_words, HIGH_LEVEL))
        for number, (title, matrix) in enumerate(matrices.items()):
            left = 2.0 + number * (side + 0.08)
            axes = drawing.figure.add_axes(
                (left / width, base / height, side / width, side / height)
            )
            # Squares whose colour is the sign and whose opacity is the size.
            edges = np.arange(len(matrix) + 1)
            mesh = axes.pcolormesh(edges, edges, matrix)
            mesh.set_array(None)
            mesh.set_facecolor(_colours(matrix.ravel()))  # type: ignore[arg-type]  # stubs know one colour
            axes.invert_yaxis()
            axes.grid(visible=False)
            axes.spines[["top", "right"]].set_visible(True)
            axes.set_title(plain(title))
            axes.set_xticks(places, words, rotation=90, fontsize=8)
            axes.set_yticks(places, words, fontsize=8)
            axes.tick_params(length=0, labelleft=number == 0)
            axes.set_xlabel("property of a shower", fontsize=9)
            axes.set_ylabel("property of a shower" if number == 0 else "", fontsize=9)
        bar = drawing.figure.add_axes((8.14 / width, base / height, 0.1 / width, side / height))
        _scale(bar)
        return drawing.svg("Matrices of correlation and their difference")


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
    """Orange above zero, blue below, transparent at zero: (n, 4)."""
    above, below = to_rgb(COLOURS[1]), to_rgb(COLOURS[0])
    colour = np.where(values[:, None] > 0, above, below)
    return np.concatenate([colour, np.clip(np.abs(values), 0, 1)[:, None]], 1)


_BAND_ERRORS = 2.0
_THICK, _BAND_THICK = 0.46, 0.9
_CAPTION = "A bar that ends within the grey band is a statistical fluctuation."
_KINDS = {
    "separation": (
        "separation power S (0: equal, 1: no overlap)",
        "histogram",
        "S = 1/2 sum (a - b)² / (a + b) over the bins of two normalised histograms.",
    ),
    "wasserstein": (
        "Wasserstein-1 distance (standard deviations of the reference)",
        "histogram",
        "Mean distance by which values must move to turn one sample into the other.",
    ),
    "auc": (
        "area under the ROC curve (0.5: indistinguishable, 1: separated)",
        "features",
        "Boosted decision trees that classify generated and reference showers outside their training set.",
    ),
}


def distance_figures(assessment: Assessment) -> Iterator[Figure]:
    """Yields bars of each kind of distance over the baseline band; unknown values are left out."""
    for kind, (x_label, y_label, caption) in _KINDS.items():
        found = [m for m in assessment.all(kind) if m.value is not None]
        if found:
            svg = _bars(kind, found, (x_label, y_label), assessment)
            yield Figure(kind, "Distances", svg, f"{caption} {_CAPTION}")


def _bars(
    kind: str, found: Sequence[Measure], labels: tuple[str, str], assessment: Assessment
) -> str:
    with Drawing(9.0, 1.0 + 0.24 * max(len(found), 3)) as drawing:
        axes = drawing.axes()
        ideal = found[0].ideal
        for place, measure in enumerate(found):
            if measure.baseline is None:
                continue
            low, high = sorted((ideal, measure.baseline))
            wide = _BAND_ERRORS * (measure.baseline_error or 0.0)
            low = low - wide if low < ideal else low
            axes.barh(place, high + wide - low, left=low, height=_BAND_THICK, color=GREY,
                      alpha=0.35, linewidth=0)  # fmt: skip
            axes.plot([measure.baseline] * 2, [place - 0.45, place + 0.45], color=INK, linewidth=1)
        places = np.arange(len(found))
        axes.barh(
            places, [(m.value or 0.0) - ideal for m in found], left=ideal, height=_THICK,
            color=GENERATED_COLOUR, xerr=[m.error or 0.0 for m in found],
            error_kw={"ecolor": INK, "elinewidth": 1},
        )  # fmt: skip
        axes.axvline(ideal, color=INK, linewidth=0.8)
        axes.set_ylim(len(found) - 0.5, -0.5)
        if not ideal:
            axes.set_xlim(left=0)
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        physics_ticks(axes)
        axes.set_yticks(places, [plain(in_words(m.where)) for m in found])
        axes.tick_params(axis="y", length=0)
        names = (
            plain(f"{assessment.generated.name} against {assessment.reference.name}"),
            "MC-MC baseline: mean (line) and two standard deviations",
        )
        drawing.figure.legend(
            [Patch(color=GENERATED_COLOUR), Patch(color=GREY, alpha=0.35, linewidth=0)],
            names, loc="outside upper left", ncols=legend_columns(names),
        )  # fmt: skip
        return drawing.svg(
            f"{in_words(kind)} of generated and reference showers, with its MC-MC baseline"
        )
