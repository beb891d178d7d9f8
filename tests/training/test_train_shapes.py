"""Training on showers of any shape: those of published data sets, of the paper, and small ones."""

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


@pytest.mark.parametrize(
    ("shape", "preset"),  # both presets make their layers with the same plan of a shape
    [
        ("45x16x9", "mini"),
        *((shape, "smoke") for shape in ("30x30x30", "25x25x25", "51x51x25", "12x12x12")),
    ],
)
def test_showers_of_any_shape_are_trained_on_and_generated(run_cloudgan, tmp_path, shape, preset):
    cells = tuple(map(int, shape.split("x")))
    write_showers(tmp_path / "showers.h5", cells)
    run = tmp_path / "run"
    flags = (f"--preset={preset}", f"--image-shape={shape}", "--unit=GeV", "--held-out=0.4")
    limits = ("--batch=4", "--max-steps=2", "--no-report")
    run_cloudgan("train", tmp_path / "showers.h5", *flags, *limits, f"--run={run}")
    (epoch,) = [e for e in record.read(RunFolder(run).record_file).lines if e.kind == "epoch"]
    assert all(np.isfinite(one["total"]) for one in epoch.losses.values())
    run_cloudgan(
        "generate", run, tmp_path / "made.h5", "--showers=5", "--energy=50", "--extrapolate"
    )
    with h5py.File(tmp_path / "made.h5") as file:
        assert file["ECAL"].shape == (5, *cells)


def test_showers_of_another_shape_are_refused_with_the_flag_that_trains_on_them(
    run_cloudgan, tmp_path
):
    write_showers(tmp_path / "showers.h5", (12, 10, 8))
    words = (
        "train",
        tmp_path / "showers.h5",
        "--preset=mini",
        "--unit=GeV",
        f"--run={tmp_path / 'run'}",
    )
    done = run_cloudgan(*words, check=False)
    assert done.returncode == 2, done.stderr
    assert "add --image-shape=12x10x8" in done.stderr
    assert not (tmp_path / "run").exists()


def test_describe_prints_the_networks_of_the_shape(run_cloudgan):
    flags = ("--preset=paper", "--image-shape=45x16x9", "--describe")
    said = json.loads(run_cloudgan("train", *flags, "--json").stdout)
    first = said["layers"][0]
    assert (first["cells"], first["upsample"], first["kernel"]) == ([8, 3, 5], [6, 6, 6], [6, 5, 6])
    shown = " ".join(run_cloudgan("train", *flags).stdout.split())
    assert "generator 8x3x5 6x6x6 6x5x6 43x14x25" in shown
