"""Training on showers of any shape, such as those of published data sets.

The networks of each shape are tested in gan/test_networks.py and schema/test_architecture.py.
"""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest

from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder

pytestmark = [pytest.mark.tf, pytest.mark.slow]


def write_showers(path, shape, count=24):
    """Showers of 2 % of 10 to 100 GeV: Gaussian across, a gamma distribution along the depth."""
    rng = np.random.default_rng(1)
    x, y, z = (np.arange(size) for size in shape)
    lateral = np.exp(-(((x[:, None] - shape[0] / 2) / (shape[0] / 9)) ** 2))
    lateral = lateral * np.exp(-(((y - shape[1] / 2) / (shape[1] / 9)) ** 2))
    depth = (z + 0.5) ** 2 * np.exp(-(z + 0.5) / (shape[2] / 6))
    mean = lateral[:, :, None] * depth
    energy = rng.uniform(10, 100, count)
    cells = rng.gamma(0.5, 2.0, (count, *shape)) * mean / mean.sum() * energy.reshape(-1, 1, 1, 1)
    with h5py.File(path, "w") as file:
        file["ECAL"] = (0.02 * cells).astype(np.float32)
        file["energy"], file["theta"] = energy, rng.uniform(1.1, 2.0, count)


# CaloChallenge's second data set, with tables of cell marginals, and more layers than any preset has.
@pytest.mark.parametrize(("shape", "preset"), [("45x16x9", "mini"), ("12x12x30", "smoke")])
def test_showers_of_any_shape_are_trained_on_and_generated(
    run_cloudgan, cloudgan_here, tmp_path, shape, preset
):
    cells = tuple(map(int, shape.split("x")))
    showers, run, made = (tmp_path / name for name in ("showers.h5", "run", "made.h5"))
    write_showers(showers, cells, count=12)
    # One update of the generator and no held-out losses: half of the graphs, which take most of the time.
    model = {"preset": preset, "generator_updates": 1, "optimizer": "rmsprop"}
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({"model": model, "training": {"validation_showers": 0}}))
    flags = (f"--config={config}", f"--image-shape={shape}", "--unit=GeV")
    limits = ("--batch=2", "--max-steps=1", "--no-report")
    run_cloudgan("train", showers, *flags, *limits, f"--run={run}")
    (epoch,) = [e for e in record.read(RunFolder(run).record_file).lines if e.kind == "epoch"]
    assert all(np.isfinite(one["total"]) for one in epoch.losses.values())
    cloudgan_here("generate", run, made, "--showers=5", "--energy=50", "--extrapolate")
    with h5py.File(made) as file:
        assert file["ECAL"].shape == (5, *cells)


def test_showers_of_another_shape_are_refused_with_the_flag_that_trains_on_them(
    cloudgan_here, tmp_path
):
    write_showers(tmp_path / "showers.h5", (12, 10, 8))
    flags = ("--preset=mini", "--unit=GeV", f"--run={tmp_path / 'run'}")
    said = cloudgan_here("train", tmp_path / "showers.h5", *flags, exits=2)
    assert "add --image-shape=12x10x8" in said.stderr
    assert not (tmp_path / "run").exists()


def test_describe_prints_the_networks_of_the_shape(cloudgan_here):
    flags = ("--preset=paper", "--image-shape=45x16x9", "--describe")
    first = json.loads(cloudgan_here("train", *flags, "--json").stdout)["layers"][0]
    assert (first["cells"], first["upsample"], first["kernel"]) == ([8, 3, 5], [6, 6, 6], [6, 5, 6])
    shown = " ".join(cloudgan_here("train", *flags).stdout.split())
    assert "generator 8x3x5 6x6x6 6x5x6 43x14x25" in shown
