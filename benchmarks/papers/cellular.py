"""Seed 004, cellular training of GANs over MPI: the published times by grid and routine beside ours.

    python benchmarks/papers/cellular.py [--rounds=1 ...]

Published: Perez et al. 2020, arXiv:2004.04633. Prints all tables of `cloudgan bench cells`: grids of up to four cells
are measured with a rank per cell, larger ones predicted. Further flags are its own.
"""

from __future__ import annotations

import sys
from typing import Any

import fire

from cloudgan.api import bench
from cloudgan.bench.cells import PUBLISHED
from cloudgan.core.errors import CloudganError
from cloudgan.reports.page import page_markdown
from cloudgan.reports.table import Table, markdown

_SMALL = {"grids": "2x2,3x3,4x4", "rounds": 1, "iterations": 3, "batches": 50}


def main(**more: Any) -> None:
    """Measures, and prints the page and the published minutes."""
    print(page_markdown(bench.cells(**_SMALL | more).page()))
    heads = ("grid", "single core, minutes", "distributed, minutes", "speed-up")
    rows = tuple((name, *map(str, one)) for name, one in PUBLISHED.items())
    print(markdown(Table(heads, rows, "Published, arXiv:2004.04633", "lrrr")))


if __name__ == "__main__":
    try:
        fire.Fire(main)
    except CloudganError as error:
        sys.exit(f"cellular: {error}")
