"""How far generated and reference are apart, in each histogram and for a classifier, over the floor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patches import Patch

from cloudgan.reports.drawing import GREY, INK, Drawing, plain
from cloudgan.validation.figure import Figure
from cloudgan.validation.plot_panels import physics_ticks
from cloudgan.validation.plot_samples import GENERATED_COLOUR

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes

    from cloudgan.validation.assessment import Assessment, Measure

FAMILY = "Distances"
_BAND_ERRORS = 2.0
_THICK, _BAND_THICK = 0.46, 0.9
_CAPTION = "A bar that ends within the grey is what two halves of the Monte Carlo show as well."
_KINDS = {
    "separation": (
        "separation power S (0: the same, 1: nothing in common)",
        "histogram",
        "S = 1/2 sum (a - b)² / (a + b) over the bins of two normalised histograms.",
    ),
    "wasserstein": (
        "Wasserstein-1 distance (standard deviations of the reference)",
        "histogram",
        "How far the values of one sample must be moved, on average, to become the other.",
    ),
    "auc": (
        "area under the ROC curve (0.5: not told apart, 1: always)",
        "features",
        "How well boosted decision trees tell generated from reference showers that they never saw.",
    ),
}


def distance_figures(assessment: Assessment) -> Iterator[Figure]:
    """Bars of each kind of distance, the floor as a band behind; none of what is unknown."""
    for kind, (x_label, y_label, caption) in _KINDS.items():
        found = [m for m in assessment.all(kind) if m.value is not None]
        if found:
            svg = _bars(kind, found, (x_label, y_label), assessment)
            yield Figure(kind, FAMILY, svg, f"{caption} {_CAPTION}")


def _bars(
    kind: str, found: Sequence[Measure], labels: tuple[str, str], assessment: Assessment
) -> str:
    with Drawing(9.0, 1.0 + 0.24 * max(len(found), 3)) as drawing:
        (axes,) = drawing.axes()
        _bands(axes, found)
        ideal = found[0].ideal
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
        axes.set_yticks(places, [plain(m.where) for m in found])
        axes.tick_params(axis="y", length=0)
        names = plain(assessment.generated.name), plain(assessment.reference.name)
        drawing.figure.legend(
            [Patch(color=GENERATED_COLOUR), Patch(color=GREY, alpha=0.35, linewidth=0)],
            [" against ".join(names), "floor: mean (line) and two standard deviations"],
            loc="outside upper left", ncols=2, frameon=False,
        )  # fmt: skip
        return drawing.svg(kind, f"{kind} of generated and reference showers, with its floor")


def _bands(axes: Axes, found: Sequence[Measure]) -> None:
    for place, measure in enumerate(found):
        if measure.floor is None:
            continue
        low, high = sorted((measure.ideal, measure.floor))
        wide = _BAND_ERRORS * (measure.floor_error or 0.0)
        low = low - wide if low < measure.ideal else low
        axes.barh(place, high + wide - low, left=low, height=_BAND_THICK, color=GREY, alpha=0.35,
                  linewidth=0)  # fmt: skip
        axes.plot([measure.floor] * 2, [place - 0.45, place + 0.45], color=INK, linewidth=1)
