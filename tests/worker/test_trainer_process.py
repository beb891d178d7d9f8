"""The environment of the trainer process, and the watchdog that detects its stall."""

import gzip
import sys

import pytest

from cloudgan.cli.commands.worker import worker
from cloudgan.core.command import model_of
from cloudgan.core.errors import ConfigError
from cloudgan.schema.plan import Limits
from cloudgan.worker.pod_environment import read_pod_environment
from cloudgan.worker.trainer_process import Timeouts, Watchdog, pjrt_library
from worker.conftest import Worker

LIBRARY = "TF_PLUGGABLE_DEVICE_LIBRARY_PATH"


def output(team, program, **variables):
    """Returns what a worker says whose trainer is a program in Python."""
    pod = read_pod_environment(team.environment(0, **variables).get)
    started = Worker(pod, team.timeouts, (sys.executable, "-S", "-c", program), ())
    assert started.wait() == 0, started.output
    return started.output


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


LIMITS = Timeouts(first_step_seconds=900, stall_seconds=120, stall_medians=20)


def test_the_first_steps_have_a_longer_timeout():
    dog = Watchdog(LIMITS, 0.0)
    assert not dog.is_stalled(899)
    assert dog.is_stalled(901)
    dog.saw_step(1, 899)
    assert not dog.is_stalled(899 + 800)  # how long a step takes is not known yet


def test_output_counts_as_progress_only_before_the_first_step():
    dog = Watchdog(LIMITS, 0.0)
    dog.saw_output(1, 800.0)
    assert not dog.is_stalled(1600)
    dog.saw_output(1, 1600.0)
    assert dog.is_stalled(1701)
    dog.saw_step(0, 1701)
    dog.saw_step(1, 1702)
    dog.saw_output(2, 1800.0)
    assert dog.is_stalled(1823)


@pytest.mark.parametrize(
    ("seconds", "limit"),
    [
        pytest.param(range(10), 120, id="fast steps: the minimum"),
        pytest.param(range(0, 240, 60), 20 * 60, id="slow steps: a multiple of the median"),
        pytest.param([*range(20), 100], 120, id="one slow step does not raise it"),
    ],
)
def test_steps_stall_after_a_multiple_of_their_median_and_a_minimum(seconds, limit):
    dog = Watchdog(LIMITS, 0.0)
    for number, second in enumerate(seconds):
        dog.saw_step(number, float(second))
    assert dog.limit_seconds == limit
    assert not dog.is_stalled(seconds[-1] + limit - 1)
    assert dog.is_stalled(seconds[-1] + limit + 1)


def test_a_repeated_step_is_no_progress():
    dog = Watchdog(LIMITS, 0.0)
    for second in range(3):
        dog.saw_step(second, float(second))
    dog.saw_step(2, 100.0)
    assert dog.is_stalled(123)


def test_a_validation_that_generates_showers_is_no_stall_however_long_it_takes():
    dog = Watchdog(LIMITS, 0.0)
    dog.saw_step(7, 10.0)
    dog.saw_step(8, 11.0)
    for blocks in range(1, 10):
        dog.saw_step(8, 100.0 * blocks, blocks)
        assert not dog.is_stalled(100.0 * blocks + 119)
    dog.saw_step(8, 950.0, 9)
    assert dog.is_stalled(1021)
    assert dog.limit_seconds == 120


def test_workers_wait_longer_than_a_pod_that_was_lost_often_needs_to_come_back():
    """600 s of the Job controller's longest back-off, and the gang timeout to start."""
    command = model_of(worker).model_fields["barrier_seconds"].default
    needed = 600 + Limits.model_fields["gang_timeout_seconds"].default
    assert command == Timeouts().barrier_seconds >= needed
