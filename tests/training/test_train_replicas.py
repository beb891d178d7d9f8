"""Replicas, workers and loops learn the same, in real processes of `cloudgan train`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder

pytestmark = [pytest.mark.tf, pytest.mark.slow]


@pytest.fixture(scope="module")
def learned(tmp_path_factory, write_config, run_cloudgan, saved_arrays):
    """Trains 4 steps in float64 with synchronised batch norm and a global batch of 8; returns the weights."""
    folder = tmp_path_factory.mktemp("exact")
    config = write_config(
        folder / "config.yaml",
        model={"preset": "smoke", "generator_updates": 1},
        precision="float64",
        batch_norm="synchronized",
        global_batch_size=8,
        max_steps=4,
    )

    def train(*flags):
        run = folder / "".join(flags)
        done = run_cloudgan("train", f"--config={config}", f"--run={run}", *flags, "--json")
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


# Two workers with `fit` are held to one replica in test_train_validating.py.
@pytest.mark.parametrize(
    "flags",
    [
        ("--loop=custom", "--strategy=multiworker", "--workers=2"),
        ("--loop=fit", "--strategy=mirrored", "--replicas=2", "--steps-per-loop=3"),
    ],
    ids=" ".join,
)
def test_replicas_workers_loops_and_steps_per_loop_learn_the_same_to_1e_9(
    one_replica, learned, flags
):
    found = learned(*flags)
    assert found.keys() == one_replica.keys()
    assert max(np.abs(found[name] - one_replica[name]).max() for name in found) <= 1e-9
