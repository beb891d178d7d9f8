"""`cloudgan train --engine=jax` in real processes: TensorFlow's losses, resume, and two processes."""

from __future__ import annotations

import json
from importlib.util import find_spec

import numpy as np
import pytest

from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder

pytestmark = [
    pytest.mark.tf,
    pytest.mark.slow,
    pytest.mark.skipif(not find_spec("jax"), reason="JAX is not installed"),
]
QUICK = {"XLA_FLAGS": "--xla_backend_optimization_level=0", "JAX_PLATFORMS": "cpu"}


@pytest.fixture
def train(config_file, run_cloudgan, tmp_path):
    config = config_file(plain=True, global_batch_size=8)

    def run(name, *flags):
        folder = tmp_path / name
        words = ("train", f"--config={config}", f"--run={folder}", "--json", *flags)
        run_cloudgan(*words, fork=False, timeout=900, **QUICK)
        lines = record.read(RunFolder(folder).record_file)
        return folder, lines

    return run


def losses(lines):
    *_, epoch = lines.epochs()
    return np.array([list(row.values()) for row in epoch.losses.values()])


def test_a_resumed_run_has_the_bits_of_an_undisturbed_one_and_tensorflow_continues_it(
    train, saved_arrays
):
    whole, lines = train("whole", "--engine=jax", "--max-steps=4")
    train("parts", "--engine=jax", "--max-steps=2")
    parts, _ = train("parts", "--engine=jax", "--max-steps=4")
    ours, theirs = saved_arrays(parts, 4), saved_arrays(whole, 4)
    for name, array in theirs.items():
        np.testing.assert_array_equal(ours[name], array, err_msg=name)
    _, other = train("other", "--max-steps=4")
    np.testing.assert_allclose(losses(lines), losses(other), rtol=0.1, atol=1e-3)
    _, continued = train("whole", "--engine=tensorflow", "--max-steps=6")
    resumed = next(line for line in continued.lines if line.kind == "resumed")
    assert any(change.startswith("jax: ") for change in resumed.reproducibility_changes)
    assert json.loads(continued.lines[-1].model_dump_json())["step"] == 6


def test_two_processes_have_the_losses_of_two_replicas_of_tensorflow(train):
    _, ours = train("jax", "--engine=jax", "--workers=2", "--max-steps=3", "--allow-open-ports")
    _, theirs = train("tensorflow", "--strategy=mirrored", "--replicas=2", "--max-steps=3")
    assert ours.started().numerics.workers == 2
    np.testing.assert_allclose(losses(ours), losses(theirs), rtol=0.1, atol=1e-3)
