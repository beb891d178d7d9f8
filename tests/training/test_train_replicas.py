"""Replicas, workers and loops learn the same, in real processes of `cloudgan train`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder

pytestmark = [pytest.mark.tf, pytest.mark.slow]


def furthest(one, other):
    assert one.keys() == other.keys()
    return max(np.abs(one[name] - other[name]).max() for name in one)


@pytest.fixture(scope="module")
def exact(tmp_path_factory, store):
    """A run.yaml in float64 with synchronised batch norm and a global batch of 8."""
    path = tmp_path_factory.mktemp("exact") / "config.yaml"
    path.write_text(
        json.dumps(
            {
                "data": {"path": str(store)},
                "model": {"preset": "smoke"},
                "training": {
                    "precision": "float64",
                    "batch_norm": "synchronized",
                    "global_batch_size": 8,
                    "max_steps": 4,
                    "validation_showers": 8,
                },
            }
        )
    )
    return path


@pytest.fixture(scope="module")
def learned(exact, run_cloudgan, saved_arrays):
    """Trains 4 steps with the given flags and returns the weights."""

    def train(*flags):
        run = exact.parent / "".join(flags)
        done = run_cloudgan("train", f"--config={exact}", f"--run={run}", *flags, "--json")
        assert json.loads(done.stdout)["step"] == 4
        losses = record.read(RunFolder(run).record_file).epochs()[0].losses
        assert losses["generator"]["total"] > 0
        return saved_arrays(run, 4)

    return train


@pytest.fixture(scope="module")
def one_replica(learned):
    """What the custom loop learns on one replica; all others are compared with it."""
    weights = learned("--loop=custom", "--strategy=one")
    assert len([name for name in weights if name.startswith("generator/")]) > 5
    return weights


@pytest.mark.parametrize(
    ("loop", "where"),
    [
        ("custom", ("--strategy=mirrored", "--replicas=2")),
        ("custom", ("--strategy=multiworker", "--workers=2")),
        # Of 4 steps. With two workers `fit` is held to one replica in test_train_validating.py.
        ("fit", ("--strategy=mirrored", "--replicas=2", "--steps-per-loop=3")),
    ],
    ids=lambda value: value if isinstance(value, str) else value[-1][2:],
)
def test_replicas_workers_loops_and_steps_per_loop_learn_the_same_to_1e_9(
    one_replica, learned, where, loop
):
    assert furthest(one_replica, learned(f"--loop={loop}", *where)) <= 1e-9
