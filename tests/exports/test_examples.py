"""The examples of docs/examples run as they are documented."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import cloudgan as cg
from exports.example_run import example_run

pytestmark = pytest.mark.tf
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    example_run(folder / "mine")
    return cg.export(folder / "mine", folder / "out").model


def test_the_python_example_makes_showers(model):
    program = [sys.executable, EXAMPLES / "onnx_inference.py", model]
    done = subprocess.run([*program, "--showers=20"], capture_output=True, text=True, check=True)
    assert "20 showers of (9, 9, 25) cells" in done.stdout
    mean = float(re.search(r"cells: (\S+) GeV", done.stdout)[1])
    assert mean > 0


def test_the_python_example_refuses_energies_beyond_the_training(model):
    program = [sys.executable, EXAMPLES / "onnx_inference.py", model, "--energy=300"]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 2
    assert "trained on 10 to 100" in done.stderr


def test_the_python_example_accepts_the_only_angle_of_its_training(model, tmp_path):
    single = onnx.load(model)
    (fact,) = [each for each in single.metadata_props if each.key == "theta_rad"]
    fact.value = f"{float(np.float32(np.pi / 2))}:{float(np.float32(np.pi / 2))}"
    onnx.save(single, tmp_path / "single.onnx")
    program = [sys.executable, EXAMPLES / "onnx_inference.py", tmp_path / "single.onnx"]
    assert (
        subprocess.run([*program, "--theta=90", "--showers=2"], capture_output=True).returncode == 0
    )
    assert subprocess.run([*program, "--theta=89"], capture_output=True).returncode == 2


def test_the_cpp_example_makes_the_same_kind_of_showers(model, tmp_path):
    compiler = shutil.which("c++") or shutil.which("g++")
    root = Path(os.environ.get("ONNXRUNTIME_ROOT", "/usr"))
    headers = [*root.glob("include/**/onnxruntime_cxx_api.h")]
    if compiler is None:
        pytest.skip("no C++ compiler")
    if not headers:
        pytest.skip("no headers of ONNX Runtime; set ONNXRUNTIME_ROOT")
    program = tmp_path / "onnx_inference"
    libraries = root / "lib"
    subprocess.run(
        [
            compiler, "-std=c++17", "-Wall", "-Werror", EXAMPLES / "onnx_inference.cpp",
            f"-I{headers[0].parent}", f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lonnxruntime",
            "-o", program,
        ],
        check=True,
    )  # fmt: skip
    done = subprocess.run([program, model, "50", "90", "20"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "20 showers of 9x9x25 cells" in done.stdout
    refused = subprocess.run([program, model, "300", "90", "1"], capture_output=True, text=True)
    assert refused.returncode == 2
    assert "trained on 10 to 100" in refused.stderr
