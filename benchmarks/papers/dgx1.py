"""Seed 003, a 3DGAN on a DGX-1: strong and weak scaling and the bandwidth between ranks, beside what was published.

    python benchmarks/papers/dgx1.py [--preset=smoke] [--replicas=1,2] [--steps=20] [--rounds=1]

The curves of the paper are known here in words only, so their figures are shown as not found; those of its bandwidth
matrix are known. Ranks exchange host memory over MPI, the DGX-1's GPUs over NVLink.
"""

from __future__ import annotations

import sys
from typing import Any

import fire

from cloudgan.api import bench
from cloudgan.core.errors import CloudganError
from cloudgan.reports.page import page_markdown
from cloudgan.reports.table import Table, markdown

_NOT_FOUND = "not found"
PUBLISHED = (
    ("own memory, GB/s", "508"),
    ("linked pairs, GB/s", "36.8"),
    ("other pairs, GB/s", "17"),
    ("strong scaling by GPUs", _NOT_FOUND + "; in words: good to 4, falls at 8 (batch per GPU too small)"),
    ("weak scaling by GPUs", _NOT_FOUND + "; in words: better than strong; a large batch generalises worse"),
    ("DOI and table numbers", _NOT_FOUND),
)  # fmt: skip
"""Seed 003, from the notes of the project on it."""
_WHY = (
    "Replicas here are shares of the cores of one processor, which threads use as well; on a DGX-1 each is a GPU more."
    " Ranks copy through one memory, so no pair has a slower link."
)


def main(
    preset: str = "smoke", replicas: Any = "1,2", steps: int = 20, rounds: int = 1, ranks: int = 2
) -> None:
    """Measures strong and weak scaling and the bandwidth, and prints them below the published figures."""
    print(markdown(Table(("seed 003", "published"), PUBLISHED, "Published", "ll")))
    same = {"presets": preset, "replicas": replicas, "steps": steps, "rounds": rounds}
    for kind in ("strong", "weak"):
        print(page_markdown(bench.scaling(**{kind: True}, **same).page()))
    print(page_markdown(bench.bandwidth(ranks=ranks, preset=preset, rounds=rounds).page()))
    print(_WHY)


if __name__ == "__main__":
    try:
        fire.Fire(main)
    except CloudganError as error:
        sys.exit(f"dgx1: {error}")
