"""Runs on this machine under a background supervisor."""

import os
import signal
import threading
import time

import pytest

from cloudgan.core import loopback_network
from cloudgan.core.errors import ConfigError, LaunchError
from cloudgan.launch.backends.local import backend as backends
from cloudgan.launch.backends.local.backend import LocalBackend, local_steps
from cloudgan.launch.backends.local.supervisor import StateFile, process_start_time
from cloudgan.launch.lifecycle.apply import apply
from launch.backends.local.shell_job import shell_job
from waiting import until

SLEEPS = 'trap "echo saved; exit 75" TERM; echo up; sleep 60 & wait'


class SilentLog:
    """A launch log that discards its entries."""

    def __init__(self, plan):
        self.plan = plan

    def record_attempt(self, sent):
        pass

    def record_state(self, state):
        pass


@pytest.fixture
def local_plan(plan_of):
    """Builds a plan whose workers run a shell script."""

    def build(script, nodes=1, **asked):
        def requests(plan):
            body = shell_job(script, world=nodes)
            return tuple(
                step.model_copy(update={"body": body}) if step.path == "pods/job.json" else step
                for step in local_steps(plan)
            )

        place = {"provider": "local", "context": None, "server": None, "namespace": None}
        workers = {"nodes": nodes, "image": None}
        return plan_of(target=place, workers=workers, wheels=(), requests=requests, **asked)

    return build


@pytest.fixture
def backend(tmp_path):
    """The backend of a folder; destroys all runs after the test."""
    found = LocalBackend(tmp_path / "runs")
    yield found
    for path in (tmp_path / "runs").glob("*"):
        list(found.destroy(path.name))


def begin(backend, plan):
    return apply(plan, backend, SilentLog(plan), lambda _: None)


def is_up(backend, log):
    return lambda: backend.state("gan").phase == "running" and "up" in log.read_text()


def test_a_missing_run_is_absent_and_destroying_it_is_no_error(backend):
    assert backend.state("gan").phase == "absent"
    assert backend.desired_state("gan") is None
    assert list(backend.destroy("gan")) == list(backend.destroy("gan")) == []
    assert backend.list_runs() == ()


def test_a_run_is_started_once_stopped_resumed_and_destroyed(backend, local_plan, tmp_path):
    plan = local_plan(SLEEPS)
    log = tmp_path / "runs" / "gan" / "pods" / "logs" / "worker-0.log"
    assert begin(backend, plan)
    until(is_up(backend, log))
    supervisor = StateFile(tmp_path / "runs" / "gan").supervisor()
    assert not begin(backend, plan), "a second start finds it running"
    assert not backend.ensure(plan.steps[-1], plan)
    assert StateFile(tmp_path / "runs" / "gan").supervisor() == supervisor
    assert backend.list_runs() == ("gan",)
    assert backend.desired_state("gan") == plan

    backend.stop("gan")
    state = backend.state("gan")
    assert (state.phase, state.is_over) == ("stopped", True)
    assert state.started_at <= state.ended_at
    assert log.read_text() == "up\nsaved\n"
    lines = [one for source in backend.log_sources("gan").values() for one in source(True)]
    assert [(one.index, one.text) for one in lines] == [(0, "up"), (0, "saved")]
    backend.stop("gan")

    assert begin(backend, plan), "what was stopped goes on"
    until(lambda: log.read_text().count("up") == 2)
    assert len(list(backend.destroy("gan"))) == 1
    assert backend.state("gan").phase == "absent"
    assert list(backend.destroy("gan")) == []


def test_a_run_that_is_being_stopped_starts_again_when_its_workers_have_ended(
    backend, local_plan, tmp_path
):
    plan = local_plan(SLEEPS.replace("exit", "sleep 1; exit"))
    log = tmp_path / "runs" / "gan" / "pods" / "logs" / "worker-0.log"
    begin(backend, plan)
    until(is_up(backend, log))
    stopping = threading.Thread(target=backend.stop, args=["gan"])
    stopping.start()
    until(lambda: backend.state("gan").phase == "stopping")
    assert begin(backend, plan)
    stopping.join()
    until(lambda: log.read_text() == "up\nsaved\nup\n")


def test_a_killed_supervisor_is_reported_and_its_workers_end_at_the_next_start(
    backend, local_plan, tmp_path
):
    folder = tmp_path / "runs" / "gan"
    begin(backend, local_plan(SLEEPS))
    until(is_up(backend, folder / "pods" / "logs" / "worker-0.log"))
    orphan = StateFile(folder).read().workers[0]
    os.kill(StateFile(folder).supervisor(), signal.SIGKILL)
    until(lambda: StateFile(folder).supervisor() is None)
    state = backend.state("gan")
    assert state.phase == "stopped"
    assert "the supervisor has ended" in state.reason
    assert process_start_time(orphan.pid) == orphan.start_time, "the worker still runs"
    begin(backend, local_plan("exit 0"))
    until(lambda: backend.state("gan").phase == "finished")
    assert process_start_time(orphan.pid) != orphan.start_time


def test_a_process_with_a_reused_process_id_is_not_killed(backend, local_plan, tmp_path):
    begin(backend, local_plan("exit 0"))
    until(lambda: backend.state("gan").phase == "finished")
    file = StateFile(tmp_path / "runs" / "gan")
    note = file.read()
    worker = note.workers[0].model_copy(update={"pid": os.getppid(), "mark": "another time"})
    file.write(note.model_copy(update={"workers": (worker,)}))
    backend.stop("gan")
    assert process_start_time(os.getppid())


def test_a_supervisor_that_does_not_start_is_reported_with_its_log(backend, local_plan, tmp_path):
    plan = local_plan("exit 0")
    broken = plan.model_copy(
        update={"steps": [step.model_copy(update={"body": {}}) for step in plan.steps]}
    )
    with pytest.raises(LaunchError, match=r"did not start \(.+\); see .*supervisor\.log"):
        begin(backend, broken)


def test_other_settings_are_refused_until_the_run_is_destroyed(backend, local_plan, tmp_path):
    begin(backend, local_plan(SLEEPS))
    other = local_plan(SLEEPS, training={"epochs": 9})
    with pytest.raises(ConfigError, match="cloudgan down gan"):
        begin(backend, other)
    with pytest.raises(ConfigError, match="running with other settings"):
        backend.ensure(other.steps[0], other)
    backend.stop("gan")
    with pytest.raises(ConfigError, match="cloudgan down gan"):
        begin(backend, other)
    list(backend.destroy("gan"))
    assert backend.desired_state("gan") is None
    assert backend.list_runs() == ()
    assert begin(backend, other), "a destroyed run does not block"


def test_wait_for_change_returns_at_its_limit_without_a_change(backend):
    started = time.monotonic()
    backend.wait_for_change("gan", 0.3)
    assert 0.3 <= time.monotonic() - started < 10


def test_wait_for_change_returns_when_the_state_changes(backend, local_plan):
    starter = threading.Timer(0.3, begin, (backend, local_plan(SLEEPS)))
    starter.start()
    started = time.monotonic()
    backend.wait_for_change("gan", 60.0)
    assert time.monotonic() - started < 50
    assert backend.state("gan").phase != "absent"
    starter.join()


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("tensorflow", r"TensorFlow is not installed.*pip install '\.\[train\]'"),
        ("jax", r"JAX is not installed.*pip install '\.\[jax\]'"),
    ],
)
def test_a_machine_without_the_engine_is_refused_before_the_start(
    backend, local_plan, monkeypatch, engine, said
):
    plan = local_plan("exit 0")
    training = plan.config.training.model_copy(update={"engine": engine})
    config = plan.config.model_copy(update={"training": training})
    plan = plan.model_copy(update={"config": config})
    installed = {engine}  # the module has the name of the engine
    find = "cloudgan.launch.backends.local.backend.find_spec"
    monkeypatch.setattr(find, lambda name: name if name in installed else None)
    assert backend.check(plan) == ()
    installed.clear()
    with pytest.raises(ConfigError, match=said):
        backend.check(plan)


def test_several_workers_are_refused_where_they_cannot_be_isolated(
    backend, local_plan, monkeypatch
):
    monkeypatch.setattr(backends, "find_spec", lambda name: name)
    monkeypatch.setattr(loopback_network.sys, "platform", "darwin")
    with pytest.raises(ConfigError, match=r"cannot be isolated.*--nodes=1.*--allow-open-ports"):
        backend.check(local_plan("true", nodes=2, store="runs"))
    assert backend.check(local_plan("true", store="runs")) == ()
    plan = local_plan("true", nodes=2, store="runs")
    workers = plan.workers.model_copy(update={"allow_open_ports": True})
    assert backend.check(plan.model_copy(update={"workers": workers})) == ()


def test_isolated_trainers_cannot_use_a_bucket(backend, local_plan, monkeypatch):
    monkeypatch.setattr(backends, "find_spec", lambda name: name)
    with pytest.raises(ConfigError, match="cannot copy checkpoints to gs://lab/cloudgan"):
        backend.check(local_plan("true", nodes=2, store="gs://lab/cloudgan"))
