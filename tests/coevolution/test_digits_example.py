"""The example of examples/digits runs as it is documented."""

from __future__ import annotations

import gzip
import re
import runpy
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.tf

PROGRAM = Path(__file__).parents[2] / "examples" / "digits" / "digits.py"


@pytest.fixture
def small_mnist(tmp_path):
    """Vertical and horizontal bars of 6 x 6 pixels in place of digits, one file of them compressed."""
    random = np.random.default_rng(1)
    for name, count in (("train", 200), ("t10k", 100)):
        images = random.integers(0, 40, (count, 6, 6), np.uint8)
        images[: count // 2, :, 2:4] = 255
        images[count // 2 :, 2:4] = 255
        content = b"\0\0\x08\x03" + struct.pack(">3I", *images.shape) + images.tobytes()
        file = tmp_path / f"{name}-images-idx3-ubyte"
        if name == "train":
            file.write_bytes(content)
        else:
            file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(content))
    return tmp_path


def test_a_grid_learns_images_of_a_task_outside_of_the_package(small_mnist):
    program = [sys.executable, PROGRAM, ".", "--grid=1x2", "--iterations=4", "--batches=40"]
    done = subprocess.run(program, capture_output=True, text=True, cwd=small_mnist)
    assert done.returncode == 0, done.stderr
    scores = [float(text) for text in re.findall(r"best score (\S+)", done.stdout)]
    assert len(scores) == 4
    assert scores[-1] < scores[0] / 2
    assert re.search(r"mixture \S+, best generator \S+", done.stdout)
    images = np.load(small_mnist / "digits.npy")
    assert images.shape == (16, 6, 6)
    assert 0 <= images.min() < images.max() <= 1


@pytest.mark.parametrize(
    ("name", "damage", "expected"),
    [
        ("train", lambda file: file.unlink(), "cannot read train-images-idx3-ubyte"),
        ("t10k", lambda file: file.write_bytes(file.read_bytes()[:-9]), "cannot read t10k-images"),
        (
            "train",
            lambda file: file.write_bytes(file.read_bytes()[:-1]),
            "not an idx file of images",
        ),
        ("train", lambda file: file.write_bytes(b"\0\0"), "not an idx file of images"),
    ],
)
def test_files_that_are_missing_or_damaged_are_refused(small_mnist, name, damage, expected):
    read_images = runpy.run_path(str(PROGRAM))["read_images"]
    (file,) = small_mnist.glob(f"{name}-*")
    damage(file)
    with pytest.raises(SystemExit, match=expected):
        read_images(small_mnist, f"{name}-images-idx3-ubyte")
