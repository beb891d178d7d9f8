"""Figures of a search: history, importance of the keys, parallel coordinates, two objectives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from cloudgan.api.search_result import key_name
from cloudgan.reports.drawing import Chart, Drawing, bars, log_ticks, plain
from cloudgan.reports.page import Graphic
from cloudgan.reports.plot_frame import COLOURS, GREY, tick_text
from cloudgan.schema.search import Point

BEST_COLOUR = COLOURS[1]
_WIDE = 8
"""Ratio of the largest to the smallest value from which a key has a logarithmic axis."""
_TICKS = 5

Valued = tuple[int, float, Point]
"""Number, objective and point of a complete trial."""


def history(
    complete: Sequence[Valued], others: Mapping[str, Sequence[int]], best: int, *, label: str,
    sign: int,
) -> Graphic:  # fmt: skip
    """Draws the objective of each trial and the best one so far.

    Args:
        complete: Trials with an objective, by number.
        others: Numbers of the trials without one, by state.
        best: Number of the best trial.
        label: Of the objective.
        sign: 1: smaller is better, -1: larger.
    """
    numbers, values = [one[0] for one in complete], [one[1] for one in complete]
    so_far = [sign * min(sign * value for value in values[: n + 1]) for n in range(len(values))]
    with Drawing(height_inches=3.4) as drawing:
        (axes,) = drawing.axes()
        axes.step([*numbers, numbers[-1] + 1], [*so_far, so_far[-1]], where="post",
                  color=GREY, label="best so far")  # fmt: skip
        axes.plot(numbers, values, "o", color=COLOURS[0], label="trial")
        place = numbers.index(best)
        axes.plot([best], [values[place]], "*", color=BEST_COLOUR, markersize=15,
                  label=f"best: trial {best}")  # fmt: skip
        for state, found in others.items():
            axes.plot(found, [0.02] * len(found), "x", color=GREY, label=state,
                      transform=axes.get_xaxis_transform())  # fmt: skip
        _finish(axes, "trial", label, values)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        return Graphic(drawing.svg("history", f"{label} of each trial"))


def importance(found: Mapping[str, float]) -> Graphic:
    """Draws the importance of each key of the space."""
    chart = Chart("importance", "Importance of each key", "importance (sum 1)", "key")
    return Graphic(
        bars(chart, list(map(key_name, found)), {"importance": list(found.values())}),
        "PED-ANOVA (arXiv:2304.10255), Optuna's evaluator: which keys distinguish the best trials, a tenth of"
        " them but at least five, from the others. With few trials it is uncertain.",
    )


def parallel(complete: Sequence[Valued], best: int, *, label: str) -> Graphic:
    """Draws each complete trial as a line over the keys of the space and the objective."""
    keys = list(dict.fromkeys(key for *_, point in complete for key in point))
    values = [value for _, value, _ in complete]
    columns: list[Sequence[Any]] = [[point.get(key) for *_, point in complete] for key in keys]
    columns.append(values)
    places = [_scale(column) for column in columns]
    colour, (share, _) = colormaps["viridis"], places[-1]
    with Drawing(height_inches=3.8) as drawing:
        (axes,) = drawing.axes()
        for (number, *_), row in sorted(
            zip(complete, zip(*columns, strict=True), strict=True),
            key=lambda one: one[0][0] == best,
        ):
            heights = [place(value) for (place, _), value in zip(places, row, strict=True)]
            style: dict[str, Any] = (
                {"color": BEST_COLOUR, "linewidth": 3.0, "label": f"best: trial {best}"}
                if number == best
                else {"color": colour(0.9 * share(row[-1])), "linewidth": 1.2}
            )
            axes.plot(range(len(places)), heights, **style)
        for at, (place, ticks) in enumerate(places):
            axes.axvline(at, color=GREY, linewidth=1)
            for tick in ticks:
                text = tick_text(float(f"{tick:.3g}")) if isinstance(tick, float) else str(tick)
                axes.annotate(plain(text), (at, place(tick)), (4, 0), textcoords="offset points",
                              fontsize=8, va="center")  # fmt: skip
        names = [*map(key_name, keys), label]
        axes.set_xticks(range(len(names)), list(map(plain, names)))
        axes.set_xlim(-0.1, len(names) - 0.6)
        axes.set_yticks([])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0))
        svg = drawing.svg("parallel", "Keys and objective of each complete trial")
    ends = f"from dark ({min(values):.4g}) to light ({max(values):.4g})"
    return Graphic(svg, f"Each line is a complete trial; its colour is its {label}, {ends}.")


def two_objectives(
    series: Mapping[str, Sequence[tuple[float, float, int]]], labels: tuple[str, str]
) -> Graphic:
    """Draws both objectives: the trials of the Pareto front, with their numbers, and the others."""
    with Drawing(height_inches=3.8) as drawing:
        (axes,) = drawing.axes()
        for (name, points), style in zip(series.items(), ("o-", "o"), strict=True):
            x, y = [one[0] for one in points], [one[1] for one in points]
            front = style == "o-"
            axes.plot(x, y, style, color=BEST_COLOUR if front else COLOURS[0], label=name,
                      linewidth=1, drawstyle="steps-post")  # fmt: skip
            for at, value, number in points if front else ():
                axes.annotate(f"{number}", (at, value), (5, 5), textcoords="offset points")
        _finish(axes, *labels, [one[1] for points in series.values() for one in points])
        return Graphic(
            drawing.svg("front", "Trials between both objectives"),
            "Left and below is better. Numbers are those of the trials of the Pareto front.",
        )


def _finish(axes: Axes, x_label: str, y_label: str, values: Sequence[float]) -> None:
    if min(values) > 0 and max(values) > _WIDE * min(values):
        axes.set_yscale("log")
        log_ticks(axes.yaxis)
    axes.set_xlabel(plain(x_label))
    axes.set_ylabel(plain(y_label))
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _scale(column: Sequence[object]) -> tuple[Callable[[object], float], list[object]]:
    """Returns the height of a value between 0 and 1, and the values with a label."""
    numbers = [float(v) for v in column if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < len(column):
        names = sorted({str(value) for value in column})
        span = max(len(names) - 1, 1)
        return lambda value: names.index(str(value)) / span, list(names)
    low, high = min(numbers), max(numbers)
    is_log = low > 0 and high > _WIDE * low
    shown = math.log if is_log else float
    width = (shown(high) - shown(low)) or 1.0

    def place(value: object) -> float:
        return (shown(float(str(value))) - shown(low)) / width

    distinct = sorted(set(numbers))
    if len(distinct) <= _TICKS:
        return place, list(distinct)
    shares = (part / (_TICKS - 1) for part in range(_TICKS))
    ticks = (low * (high / low) ** s if is_log else low + (high - low) * s for s in shares)
    return place, list(ticks)
