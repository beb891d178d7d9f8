"""benchmarks/step_parts.py: forms that are compared are the same function, and ratios are of one round."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.tf, pytest.mark.slow]


@pytest.fixture(scope="module")
def step_parts():
    """The benchmark, where TensorFlow is."""
    pytest.importorskip("tensorflow")
    from benchmarks import step_parts

    return step_parts


@pytest.fixture(scope="module")
def forms(step_parts):
    """All forms, on one core."""
    from cloudgan.models.cpu_kernels.convolution import Team

    return step_parts.forms(Team(1))


def test_forms_of_the_step_agree_and_take_turns(step_parts):
    names = ("these and activation", "fast, sums one by one")
    flags = ("--preset=smoke", "--rounds=2", "--json", *(f"--only={name}" for name in names))
    # In a process of its own: TensorFlow takes its number of threads once.
    done = subprocess.run(
        [sys.executable, step_parts.__file__, *flags],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(step_parts.__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    taken = json.loads(done.stdout)
    assert {name: len(rounds) for name, rounds in taken.items()} == dict.fromkeys(names, 2)
    assert all(turn["seconds"] > 0 for rounds in taken.values() for turn in rounds)


def test_a_form_that_is_another_function_is_no_optimisation(step_parts):
    step_parts.check({"published": 183.9480, "fast": 183.9481})
    with pytest.raises(RuntimeError, match="not the same function"):
        step_parts.check({"published": 183.9, "fast": 192.2})


def test_every_optimisation_is_measured_between_two_forms_round_by_round(step_parts, forms):
    turn = {"seconds": 1.0, "cpu_seconds": 2.0}
    taken = {name: [turn, {"seconds": 3.0, "cpu_seconds": 5.0}] for name in forms}
    taken["fast"] = [{"seconds": 0.25, "cpu_seconds": 1.0}, {"seconds": 1.0, "cpu_seconds": 1.0}]
    lines = step_parts.table(taken)
    assert len(lines) == 2 + len(step_parts.COMPARISONS)
    assert lines[-1].endswith("| published; fast | 3.5 (3 to 4) | 3.5 (2 to 5) |")
