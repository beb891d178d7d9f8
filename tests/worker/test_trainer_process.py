"""The environment of the trainer process."""

import gzip
import sys

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.worker.pod_environment import read_pod_environment
from cloudgan.worker.trainer_process import pjrt_library
from worker.conftest import Worker

LIBRARY = "TF_PLUGGABLE_DEVICE_LIBRARY_PATH"


def output(team, program, **variables):
    """Returns what a worker says whose trainer is a program in Python."""
    pod = read_pod_environment(team.environment(0, **variables).get)
    worker = Worker(pod, team.timeouts, (sys.executable, "-S", "-c", program), ())
    assert worker.wait() == 0, worker.output
    return worker.output


def variable(team, name):
    return output(team, f"import os; print('it is', os.environ.get({name!r}))")


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


TELL = "import os, sys; print('login', os.environ['LAB_LOGIN']); print(os.environ['LAB_LOGIN'][3:])"


@pytest.mark.parametrize("in_file", [True, False])
def test_a_secret_reaches_the_trainer_and_is_masked_in_the_log_and_its_copy_in_the_store(
    team, monkeypatch, in_file
):
    """From a file on Slurm and in Kubernetes; workers on this machine inherit it."""
    made = team(1)
    monkeypatch.setenv("LAB_LOGIN", "of the supervisor" if in_file else "pl4nted secret")
    if in_file:
        made.secret.with_name("variable.LAB_LOGIN").write_text("pl4nted secret")
    variables = {"LAB_LOGIN": "pl4nted secret", "CLOUDGAN_SECRETS": "LAB_LOGIN"}
    if in_file:
        del variables["LAB_LOGIN"]
    said = output(made, TELL, **variables)
    assert "login ***" in said
    assert "\nnted secret" in said, "the trainer had the value"
    (log,) = made.run.glob("logs/0/*.gz")
    assert b"login ***" in gzip.decompress(log.read_bytes())
    assert b"pl4nted" not in gzip.decompress(log.read_bytes())


def test_a_worker_without_its_secret_is_refused(team):
    environment = team(1).environment(0, CLOUDGAN_SECRETS="LAB_LOGIN")
    with pytest.raises(ConfigError, match="LAB_LOGIN did not reach this worker"):
        read_pod_environment(environment.get)


@pytest.mark.usefixtures("plan_selects_pjrt")
def test_the_trainer_on_a_new_tpu_gets_the_path_of_libtpu_in_its_pod(team, libtpu):
    assert f"it is {libtpu}" in variable(team(1), LIBRARY)


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
    said = variable(team(1), "LD_LIBRARY_PATH")
    assert f"it is {folder}:" in said
    assert ":/own/lib\n" in said
