"""Each script of benchmarks/papers/ prints the published figures beside those of this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PAPERS = Path(__file__).parents[2] / "benchmarks" / "papers"


@pytest.mark.parametrize(
    ("script", "flags", "published", "ours"),
    [
        (
            "nnlo",
            ["--workers=1", "--seconds=0.2", "--preset=smoke"],
            "|     100 |              20 |",
            "| measured ",
        ),
        pytest.param(
            "cellular",
            ["--grids=1x2,2x2", "--iterations=2", "--batches=1", "--batch=4"],
            "| 2x2  |                339.6 |                39.81 |     8.53 |",
            "| 2x2  | measured ",
            marks=[pytest.mark.tf, pytest.mark.slow],
        ),
        pytest.param(
            "dgx1",
            ["--steps=4", "--replicas=2"],
            "36.8",
            "Weak scaling",
            marks=[pytest.mark.tf, pytest.mark.slow],
        ),
    ],
)
def test_a_paper_is_reproduced_by_one_command(script, flags, published, ours):
    pytest.importorskip("mpi4py")
    command = [sys.executable, PAPERS / f"{script}.py", *flags]
    refused = subprocess.run(
        [*command, "--preset=smol"], capture_output=True, text=True, check=False
    )
    assert refused.stderr.count("\n") == 1, "no traceback"
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert published in shown
    assert ours in shown
