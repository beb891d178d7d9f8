"""Plots of a page, as values: no library draws them, and the base install has all of it.

Numbers are plain, units stand in labels, what is unknown is None or left away and never zero::

    from cloudgan.reports.page import Page, Section, write
    from cloudgan.reports.plots import Axis, Bar, Point, PointSeries, Scatter, StackedBars

    seconds, usd = Axis("time for the job (h)", log=True), Axis("cost of the job (USD)", log=True)
    spot = PointSeries("spot", (Point(2.0, 31.5, "8 x A", "us-east1"), Point(9.0, 12.0, "2 x A")))
    plot = Scatter("Time against cost", seconds, usd, (spot,), front=((2.0, 31.5), (9.0, 12.0)))
    parts = StackedBars("Where it went", Axis("cost (USD)"), ("steady", "egress"),
                        (Bar("8 x A", (30.0, None)), Bar("2 x A", (11.0, 1.0))))
    write(Page("Offers", sections=(Section("Plots", (plot, parts)),)), path)

With the page's script, points speak on hover and focus (arrow keys walk through them) and legend
entries switch series off and on; without it, the plots stand as they are. Under each plot its data
lie as a table.
"""

from __future__ import annotations

from cloudgan.reports.axis import Axis
from cloudgan.reports.bands import BandLine, BandPlot
from cloudgan.reports.scatter import Point, PointSeries, Scatter
from cloudgan.reports.stacked_bars import Bar, StackedBars

__all__ = [
    "Axis",
    "BandLine",
    "BandPlot",
    "Bar",
    "Point",
    "PointSeries",
    "Scatter",
    "StackedBars",
]
