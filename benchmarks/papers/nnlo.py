"""Seed 002, NNLO: asynchronous workers under EASGD, the published speed-ups beside ours.

    python benchmarks/papers/nnlo.py [--preset=mini ...]

Published: J.-R. Vlimant et al., EPJ Web Conf. 214 (2019) 06025, doi:10.1051/epjconf/201921406025. Prints all tables
of `cloudgan bench parallel`: 1 and 2 workers are measured here, more are predicted. Further flags are its own.
"""

from __future__ import annotations

import sys
from typing import Any

import fire

from cloudgan.api import bench
from cloudgan.core.errors import CloudganError
from cloudgan.reports.page import page_markdown

_SMALL = {"preset": "mini", "workers": "1,2", "seconds": 2, "predict": "8,20,100", "masters": "1,4"}


def main(**more: Any) -> None:
    """Measures, and prints the page."""
    print(page_markdown(bench.parallel(**_SMALL | more).page()))


if __name__ == "__main__":
    try:
        fire.Fire(main)
    except CloudganError as error:
        sys.exit(f"nnlo: {error}")
