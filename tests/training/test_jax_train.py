"""`cloudgan train --engine=jax` in real processes: TensorFlow's losses, resume, and two processes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec

import h5py
import numpy as np
import pytest

from cloudgan.core import settings
from cloudgan.data.convert import convert
from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder
from cloudgan.simulation.gflash import simulate

pytestmark = [
    pytest.mark.tf,
    pytest.mark.slow,
    pytest.mark.skipif(not find_spec("jax"), reason="JAX is not installed"),
]
QUICK = {"XLA_FLAGS": "--xla_backend_optimization_level=0", "JAX_PLATFORMS": "cpu"}


@pytest.fixture(scope="module")
def train(write_config, run_cloudgan, tmp_path_factory):
    """Trains in a folder of this module by name, further where it exists; returns it and its record."""
    place = tmp_path_factory.mktemp("jax")
    config = write_config(place / "config.yaml", plain=True, global_batch_size=8)
    compiled = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path_factory.getbasetemp() / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }

    def run(name, *flags):
        folder = place / name
        words = ("train", f"--config={config}", f"--run={folder}", "--json", "--no-report", *flags)
        run_cloudgan(*words, fork="--engine=jax" not in flags, **QUICK, **compiled)
        return folder, record.read(RunFolder(folder).record_file)

    return run


@pytest.fixture(scope="module")
def two_steps_of_jax(train):
    """The folder of a run of two steps; a test that resumes it copies it."""
    return train("two", "--engine=jax", "--max-steps=2")[0]


def losses(lines):
    *_, epoch = lines.epochs()
    return np.array([list(row.values()) for row in epoch.losses.values()])


def test_a_resumed_run_has_the_bits_of_an_undisturbed_one_and_tensorflow_continues_it(
    train, two_steps_of_jax, same_bits
):
    whole, _ = train("whole", "--engine=jax", "--max-steps=4")
    shutil.copytree(two_steps_of_jax, two_steps_of_jax.parent / "parts")
    parts, _ = train("parts", "--engine=jax", "--max-steps=4")
    same_bits(parts, whole, 4)
    _, continued = train("whole", "--engine=tensorflow", "--max-steps=6")
    resumed = next(line for line in continued.lines if line.kind == "resumed")
    assert any(change.startswith("jax: ") for change in resumed.reproducibility_changes)
    assert json.loads(continued.lines[-1].model_dump_json())["step"] == 6


@pytest.fixture(scope="session")
def many(tmp_path_factory):
    """Showers of which enough are held out for a validation."""
    folder = tmp_path_factory.mktemp("many")
    write_hdf5(folder / "showers.h5", simulate(400, seed=5, cells=(9, 9), block=50))
    convert(str(folder / "showers.h5"), folder / "data")
    return folder / "data"


def test_four_processes_that_validate_while_training_agree_with_one_and_with_tensorflow(
    train, many
):
    flags = (f"--data={many}", "--held-out=0.5", "--global-batch=100", "--epochs=1")
    flags += ("--validate-every=1",)
    _, ours = train("jax", "--engine=jax", "--workers=4", "--allow-open-ports", *flags)
    _, one = train("one", "--engine=jax", "--replicas=4", *flags)
    _, theirs = train("tensorflow", "--strategy=mirrored", "--replicas=4", *flags)
    assert ours.started().numerics.workers == 4
    np.testing.assert_allclose(losses(ours), losses(one), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(losses(ours), losses(theirs), rtol=0.1, atol=1e-3)
    mine, same, other = (
        [line for line in run.lines if line.kind == "validated"] for run in (ours, one, theirs)
    )
    assert len(mine) == len(same) == len(other) == 1
    assert mine[0].metrics == pytest.approx(same[0].metrics, rel=1e-5)
    for name, value in other[0].metrics.items():
        assert mine[0].metrics[name] == pytest.approx(value, rel=0.2, abs=0.05), name


def test_where_only_jax_is_installed_a_run_generates_the_showers_that_tensorflow_does(
    two_steps_of_jax, tmp_path
):
    made = []
    for without in ((), ("tensorflow",), ("jax", "jaxlib")):
        path = tmp_path / f"without-{'-'.join(without)}.h5"
        start = f"import sys; sys.modules |= dict.fromkeys({without}); from cloudgan.cli.main import main; main()"
        words = ("generate", str(two_steps_of_jax), str(path), "--showers=20", "--seed=3")
        done = subprocess.run(
            [sys.executable, "-c", start, *words],
            env=settings.child_environment(**QUICK),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        with h5py.File(path) as file:
            made.append(file["ECAL"][:])
    ours, on_jax, on_tensorflow = made
    np.testing.assert_array_equal(ours, on_tensorflow)
    np.testing.assert_allclose(on_jax.sum((1, 2, 3)), ours.sum((1, 2, 3)), rtol=1e-4)
