"""The environment of the trainer process."""

from __future__ import annotations

import sys

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.worker.pod_environment import read_pod_environment
from cloudgan.worker.trainer_process import pjrt_library
from worker.conftest import Worker

LIBRARY = "TF_PLUGGABLE_DEVICE_LIBRARY_PATH"
SHOW = f"import os; print('library', os.environ.get('{LIBRARY}'))"


@pytest.fixture
def plan_selects_pjrt(monkeypatch):
    monkeypatch.setenv("PJRT_DEVICE", "TPU")
    monkeypatch.setenv("NEXT_PLUGGABLE_DEVICE_USE_C_API", "true")
    monkeypatch.delenv(LIBRARY, raising=False)


@pytest.fixture
def libtpu(tmp_path, monkeypatch):
    """The folder of wheels of a pod, with the files of libtpu 0.0.14."""
    folder = tmp_path / "site" / "libtpu"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('the agent must not load it')")
    (folder / "libtpu.so").touch()
    monkeypatch.syspath_prepend(folder.parent)
    return folder / "libtpu.so"


@pytest.mark.usefixtures("plan_selects_pjrt")
def test_the_trainer_on_a_new_tpu_gets_the_path_of_libtpu_in_its_pod(team, libtpu):
    made = team(1)
    pod = read_pod_environment(made.environment(0).get)
    worker = Worker(pod, made.timeouts, (sys.executable, "-S", "-c", SHOW), ())
    assert worker.wait() == 0, worker.output
    assert f"library {libtpu}" in worker.output


def test_the_trainer_on_an_older_tpu_gets_no_path(libtpu):
    assert libtpu.exists()
    assert pjrt_library() == {}


@pytest.mark.usefixtures("plan_selects_pjrt", "libtpu")
def test_the_path_of_an_own_image_is_kept(monkeypatch):
    monkeypatch.setenv(LIBRARY, "/lib/libtpu.so")
    assert pjrt_library() == {}


@pytest.mark.usefixtures("plan_selects_pjrt")
def test_a_pod_without_libtpu_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ConfigError, match="cloudgan\\[tpu\\]"):
        pjrt_library()


def test_the_trainer_finds_the_libraries_of_the_wheels_that_its_pod_installed(
    team, tmp_path, monkeypatch
):
    folder = tmp_path / "site" / "nvidia" / "cudnn" / "lib"
    folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/own/lib")
    made = team(1)
    pod = read_pod_environment(made.environment(0).get)
    show = "import os; print('path', os.environ.get('LD_LIBRARY_PATH'))"
    worker = Worker(pod, made.timeouts, (sys.executable, "-S", "-c", show), ())
    assert worker.wait() == 0, worker.output
    assert f"path {folder}:" in worker.output
    assert ":/own/lib\n" in worker.output
