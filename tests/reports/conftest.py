"""A page with each kind of block, as tests open it."""

from __future__ import annotations

import math

import pytest

from cloudgan.reports.page import (
    Bullets,
    KeyFigures,
    Mark,
    Number,
    Page,
    Paragraph,
    Section,
    Table,
)
from cloudgan.reports.plots import (
    Axis,
    BandLine,
    BandPlot,
    Bar,
    Point,
    PointSeries,
    Scatter,
    StackedBars,
)

NASTY = "</script><script>alert('x')</script> & \"more\" <!--"

PLACES = Table(
    ("place", "size (km²)", "people", "checked", "price (USD)"),
    (
        ("Lake 10", 12.5, 1200, Mark(passed=True), Number(3.0, "3")),
        ("Hill 9", None, 85, Mark(passed=False, text="too steep"), Number(None, "at least 2")),
        ("Hill 10", 104.25, None, Mark(passed=None), 12.5),
        ("Forest", 8.75, 12345, Mark(passed=True), float("nan")),
        (NASTY, 1e-7, 0, Mark(passed=True), float("inf")),
    ),
    caption="Places, and what is known of them.",
    interactive=True,
)


def _fleet() -> Scatter:
    kinds = (("on demand", 1.0), ("spot", 0.35))
    series = []
    for market, factor in kinds:
        points = []
        for name, speed, price in (("small", 1.0, 0.45), ("medium", 3.7, 2.2), ("large", 9.0, 8.9)):
            for count in (1, 2, 4, 8, 16):
                hours = 60.0 / (speed * count**0.93)
                usd = hours * price * count * factor
                points.append(Point(hours, usd, f"{count} x {name}", f"{market}\nregion north-1"))
        series.append(PointSeries(market, tuple(points)))
    every = sorted((p.x, p.y) for s in series for p in s.points)
    front, least = [], math.inf
    for x, y in every:
        if y < least:
            front.append((x, y))
            least = y
    return Scatter(
        "Time against cost of one job",
        Axis("time (h)", log=True),
        Axis("cost (USD)", log=True),
        tuple(series),
        front=tuple(front),
        caption="Nothing below or left of the line is on offer.",
    )


def _scaling() -> BandPlot:
    def seconds(n: float) -> float:
        return 4000 / n + 6

    sizes = (2, 4, 8, 16)
    measured = tuple(
        Point(n, seconds(n) * slow, f"{n} devices", f"run {run}")
        for n in sizes
        for run, slow in ((1, 1.0), (2, 1.03))
    )
    x = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
    y = tuple(map(seconds, x))
    spread = [0.03 if n <= 16 else 0.03 * n / 16 for n in x]
    low = tuple(v * (1 - min(s, 0.9)) for v, s in zip(y, spread, strict=True))
    high = tuple(v * (1 + s) for v, s in zip(y, spread, strict=True))
    return BandPlot(
        "Time for one round, measured and fitted",
        Axis("devices", log=True, ticks=x),
        Axis("time for one round (s)", log=True),
        (PointSeries("measured", measured),),
        (BandLine("fit", x, y, low, high),),
        band_label="90 % band",
        extrapolated_from=16.0,
        caption="Beyond 16 devices nothing was measured: extrapolated 8x.",
    )


def _parts() -> StackedBars:
    return StackedBars(
        "What the money went to",
        Axis("cost (USD)"),
        ("provisioning", "first round", "steady rounds", "checkpoints", "idle tail", "egress"),
        (
            Bar("8 x medium, north-1", (0.8, 1.1, 14.2, 0.3, 0.6, 0.4)),
            Bar("8 x medium, north-1, spot", (0.3, 0.4, 5.1, 0.1, 0.2, None)),
            Bar("a node with a name so long that no sheet of paper holds it " * 2,
                (0.8, 1.0, 8.0, 0.0, 0.1, 0.2)),
            Bar(NASTY, (None, None, None, None, None, None)),
        ),
        caption="Parts that nobody measured are not zero.",
    )  # fmt: skip


@pytest.fixture(scope="session")
def places() -> Table:
    """A table with each kind of cell."""
    return PLACES


@pytest.fixture(scope="session")
def sample_page() -> Page:
    """Everything a page can hold but graphics."""
    return build_sample_page()


def build_sample_page() -> Page:
    return Page(
        "A quiet report",
        "What was done, and what came out of it.",
        (
            Section(
                "In short",
                (
                    KeyFigures((("2.84 USD", "per round", "list price"), ("61 s", "a round", ""))),
                    Paragraph("Running text says what the figures mean. " * 4),
                    Bullets(("[1] a source", NASTY)),
                ),
            ),
            Section("Places", (PLACES,)),
            Section("Time and cost", (_fleet(), _scaling(), _parts())),
        ),
        "Made by a test.",
    )
