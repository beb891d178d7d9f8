"""Colours of series, the same in every figure of a page."""

from __future__ import annotations

COLOURS = ("#3d7dca", "#d9692a", "#2f9e77", "#b0559d", "#b58a14", "#6c7a89")
"""Of series, in this order: told apart by the colour-blind, readable on white and on black."""

GREY = "#8a8f98"
"""Of grids, bands and whatever is only there for comparison."""
