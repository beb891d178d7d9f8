"""Figures of a search: history, importance of the keys, parallel coordinates, two objectives."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cloudgan.reports.charts import (
    COLOURS,
    GREY,
    Axis,
    Bar,
    Figure,
    Line,
    Plot,
    Point,
    PointSeries,
    StackedBars,
    Style,
)
from cloudgan.reports.page import Section
from cloudgan.reports.words import in_words
from cloudgan.schema.search import Direction, Second
from cloudgan.search.trials import Trial, key_name

_SECOND_LABELS = {"seconds": "program time of the trial (s)", "usd": "price of the trial (USD)"}
_WIDE = 8
"""Ratio of the largest to the smallest value from which a key has a logarithmic axis."""
_TICKS = 5


def search_figures(
    trials: Sequence[Trial],
    best: Trial,
    objective: str,
    direction: Direction,
    importances: Mapping[str, float],
) -> Iterator[Section]:
    """Yields a section per figure."""
    complete = [one for one in trials if one.state == "complete" and one.value is not None]
    yield Section("History", (_history(trials, complete, best, objective, direction),))
    if importances:
        bars = tuple(Bar(key_name(key), (share,)) for key, share in importances.items())
        caption = (
            "PED-ANOVA (arXiv:2304.10255), Optuna's evaluator: which keys distinguish the best trials, a"
            " tenth of them but at least five, from the others. With few trials it is uncertain."
        )
        axis = Axis("importance (sum 1)")
        chart = StackedBars("Importance of each key", axis, ("importance",), bars, caption)
        yield Section("Importance of the keys", (chart,))
    if len(complete) > 1:
        yield Section("Parallel coordinates", (_parallel(complete, best, objective),))


def two_objectives(
    trials: Sequence[Trial], numbers: Sequence[int], objective: str, second: Second
) -> Plot:
    """Returns both objectives: the trials of the Pareto front, with their numbers, and the others."""
    both = [one for one in trials if one.value is not None and one.second is not None]
    front = [one for one in both if one.number in numbers]
    others = [one for one in both if one.number not in numbers]
    series = (("Pareto front", front, Style(1)), ("other trials", others, Style(0)))
    return Plot(
        "Trials between both objectives",
        Axis(_SECOND_LABELS[second]),
        _value_axis(objective, both),
        tuple(
            PointSeries(
                name,
                tuple(
                    Point(one.second or 0.0, one.value or 0.0, f"trial {one.number}",
                          text=str(one.number) if members is front else "")
                    for one in members
                ),
                style,
            )
            for name, members, style in series
        ),
        front=tuple((one.second or 0.0, one.value or 0.0) for one in front),
        caption="Left and below is better. Numbers are those of the trials of the Pareto front.",
    )  # fmt: skip


def _value_axis(objective: str, trials: Sequence[Trial]) -> Axis:
    values = [one.value or 0.0 for one in trials]
    return Axis(in_words(objective), log=0 < min(values) < max(values) / _WIDE)


def _history(
    trials: Sequence[Trial],
    complete: Sequence[Trial],
    best: Trial,
    objective: str,
    direction: Direction,
) -> Plot:
    """Returns the objective of each trial and the best one so far."""
    better = min if direction == "minimize" else max
    steps: list[tuple[float, float]] = []
    for one in complete:
        value = one.value or 0.0
        before = steps[-1][1] if steps else value
        steps += [(one.number, before), (one.number, better(before, value))]
    x, y = zip(*steps, (complete[-1].number + 1, steps[-1][1]), strict=True)
    missing = [one for one in trials if one.state in {"pruned", "failed"}]
    named = ", ".join(f"{one.number} ({one.state})" for one in missing)
    label = in_words(objective)
    return Plot(
        f"{label} of each trial",
        Axis("trial"),
        _value_axis(objective, complete),
        tuple(
            PointSeries(
                name,
                tuple(
                    Point(one.number, one.value or 0.0, f"trial {one.number}")
                    for one in complete
                    if (one is best) == (style.number == 1)
                ),
                style,
            )
            for name, style in ((f"best: trial {best.number}", Style(1)), ("trial", Style(0)))
        ),
        (Line("best so far", x, y, style=Style(5)),),
        caption=f"Without an objective: {named}." if missing else "",
    )


def _parallel(complete: Sequence[Trial], best: Trial, objective: str) -> Figure:
    """Returns each complete trial as a line over the keys of the space and the objective."""
    label = in_words(objective)
    keys = list(dict.fromkeys(key for trial in complete for key in trial.point))
    values = [trial.value or 0.0 for trial in complete]
    columns: list[Sequence[Any]] = [[trial.point.get(key) for trial in complete] for key in keys]
    columns.append(values)
    places = [_scale(column) for column in columns]

    def draw(axes: Any) -> None:
        from matplotlib import colormaps  # noqa: PLC0415  slow to import

        from cloudgan.reports.drawing import plain, tick_text  # noqa: PLC0415

        colour, (share, _) = colormaps["viridis"], places[-1]
        rows = zip(complete, zip(*columns, strict=True), strict=True)
        for trial, row in sorted(rows, key=lambda one: one[0] is best):
            heights = [place(value) for (place, _), value in zip(places, row, strict=True)]
            style: dict[str, Any] = (
                {"color": COLOURS[1], "linewidth": 3.0, "label": f"best: trial {best.number}"}
                if trial is best
                else {"color": colour(0.9 * share(row[-1])), "linewidth": 1.2}
            )
            axes.plot(range(len(places)), heights, **style)
        for at, (place, ticks) in enumerate(places):
            axes.axvline(at, color=GREY, linewidth=1)
            for tick in ticks:
                text = tick_text(float(f"{tick:.3g}")) if isinstance(tick, float) else str(tick)
                axes.annotate(plain(text), (at, place(tick)), (4, 0), textcoords="offset points",
                              fontsize=8, va="center")  # fmt: skip
        names = [textwrap.fill(plain(name), 14) for name in (*map(key_name, keys), label)]
        axes.set_xticks(range(len(names)), names)
        axes.set_xlim(-0.1, len(names) - 0.4)
        axes.set_yticks([])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0))

    ends = f"from dark ({min(values):.4g}) to light ({max(values):.4g})"
    caption = f"Each line is a complete trial; its colour is its {label}, {ends}."
    return Figure("Keys and objective of each complete trial", draw, caption)


def _scale(column: Sequence[object]) -> tuple[Callable[[object], float], list[object]]:
    """Returns the height of a value between 0 and 1, and the values with a label."""
    numbers = [float(v) for v in column if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < len(column):
        names = sorted({str(value) for value in column})
        span = max(len(names) - 1, 1)
        return lambda value: names.index(str(value)) / span, list(names)
    low, high = min(numbers), max(numbers)
    is_log = 0 < low < high / _WIDE
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
