"""NVIDIA's libraries of pip's wheels, on a machine without a GPU: folders and small files replace them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cloudgan.core.cuda_libraries import (
    describe_libraries,
    library_folders,
    loader_environment,
    preload,
)

WHEELS = {
    "cublas": ("libcublas.so.12", "libcublasLt.so.12", "libnvblas.so.12"),
    "cuda_runtime": ("libcudart.so.12",),
    "cudnn": ("libcudnn.so.9", "libcudnn_graph.so.9"),
    "cusolver": ("libcusolver.so.11", "libcusolverMg.so.11"),
    "cusparse": ("libcusparse.so.12",),
    "nvjitlink": ("libnvJitLink.so.12",),
}


@pytest.fixture
def site(tmp_path):
    """A folder of modules with some of NVIDIA's wheels, of files that no loader accepts."""
    for wheel, names in WHEELS.items():
        folder = tmp_path / "site" / "nvidia" / wheel / "lib"
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).write_bytes(b"")
    return tmp_path / "site"


@pytest.fixture
def gke(tmp_path):
    """The folder that GKE mounts at /usr/local/nvidia."""
    for name in ("bin", "lib64"):
        (tmp_path / "gke" / name).mkdir(parents=True)
    return tmp_path / "gke"


class Loader:
    """Loads all but `missing`; `names` are what it loaded, in order."""

    def __init__(self, *missing):
        self.missing, self.names = missing, []

    def __call__(self, path):
        if Path(path).name in self.missing:
            raise OSError(f"{path}: cannot open shared object file")
        self.names.append(Path(path).name)


def test_a_child_process_gets_the_folders_of_the_wheels_and_of_gkes_driver(site, gke, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/own/lib")
    monkeypatch.setenv("PATH", "/usr/bin")
    found = loader_environment([str(site), str(site.parent)], gke)
    libraries = found["LD_LIBRARY_PATH"].split(os.pathsep)
    wheels = [str(site / "nvidia" / name / "lib") for name in sorted(WHEELS)]
    assert libraries == [*wheels, "/own/lib", str(gke / "lib64")]
    assert found["PATH"] == f"/usr/bin{os.pathsep}{gke / 'bin'}"
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    assert loader_environment([str(site)], gke) == found, "a process of a process gets no more"


def test_without_gpu_software_the_environment_stays(tmp_path, monkeypatch):
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    assert loader_environment([str(tmp_path)], tmp_path / "none") == {}
    assert library_folders([str(tmp_path), "/proc/self/mem"]) == ()


def test_libraries_are_loaded_before_those_that_need_them_and_no_other_is(site, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    load = Loader()
    assert preload([str(site)], load) == ()
    assert load.names == [
        "libcuda.so.1",
        "libcudart.so.12",
        "libnvJitLink.so.12",
        "libcublasLt.so.12",
        "libcublas.so.12",
        "libcusparse.so.12",
        "libcusolver.so.11",
        "libcudnn.so.9",
    ]


def test_without_a_driver_or_with_hidden_gpus_nothing_is_loaded(site, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    load = Loader("libcuda.so.1")
    assert preload([str(site)], load) == ()
    assert load.names == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert preload([str(site)], load := Loader()) == ()
    assert load.names == []


def test_the_driver_of_gke_is_found_where_no_path_names_it(site, gke, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    tried = []

    def load(path):
        tried.append(path)
        if path == "libcuda.so.1":
            raise OSError(path)

    assert preload([str(site)], load, gke) == ()
    assert tried[:2] == ["libcuda.so.1", str(gke / "lib64" / "libcuda.so.1")]
    assert len(tried) > 2


def test_the_description_names_the_places_and_what_is_missing(site, tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/own/lib")
    said = describe_libraries([str(site)], Loader("libcudnn.so.9"), tmp_path / "gke")
    assert "the driver (libcuda.so.1) loads (LD_LIBRARY_PATH=/own/lib" in said
    assert f"6 folders {site}/nvidia/*/lib" in said
    assert "libnccl is missing" in said
    assert "libcudnn.so.9: " in said
    assert "libcublas is missing" not in said
    said = describe_libraries([str(tmp_path)], Loader("libcuda.so.1"), tmp_path / "gke")
    assert "is missing (LD_LIBRARY_PATH=/own/lib" in said
    assert "no CUDA library is installed" in said


def test_a_preloaded_library_is_found_by_its_name(tmp_path):
    """With a real library of NumPy's wheel under the name of one of NVIDIA's."""
    import numpy as np

    libraries = sorted(Path(np.__file__).parents[1].glob("numpy.libs/libquadmath*.so.*"))
    if not libraries:
        pytest.skip("NumPy's wheel has no library of its own here")
    folder = tmp_path / "nvidia" / "cuda_runtime" / "lib"
    folder.mkdir(parents=True)
    shutil.copy(libraries[0], folder / "libcudart.so.12")
    program = f"""
import ctypes
from cloudgan.core.cuda_libraries import preload
def load(name):
    return None if name == "libcuda.so.1" else ctypes.CDLL(name)
def found():
    try:
        return bool(ctypes.CDLL({libraries[0].name!r}))
    except OSError:
        return False
print(found(), preload([{str(tmp_path)!r}], load), found())
"""
    environment = {"PATH": os.defpath}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "False () True\n", done.stderr
