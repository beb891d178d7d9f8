"""Runs of this machine, kept by a process in the background."""

from __future__ import annotations

import os
import signal
import time

import pytest

from cloudgan.core.errors import ConfigError, LaunchError
from cloudgan.launching.starting import start
from cloudgan.providers.local.process import process_mark
from cloudgan.providers.local.provider import LocalProvider
from cloudgan.providers.local.requests import steps
from cloudgan.providers.local.state_file import StateFile
from providers.local.shell_job import shell_job

SLEEPS = 'trap "echo saved; exit 75" TERM; echo up; sleep 60 & wait'


class Quiet:
    """A ledger that nobody reads."""

    def begin(self, sent):
        pass

    def see(self, state):
        pass


@pytest.fixture
def local_plan(plan_of):
    """A plan whose workers are words of shell."""

    def build(script, nodes=1, **asked):
        def requests(plan):
            body = shell_job(script, world=nodes)
            return tuple(
                step.model_copy(update={"body": body}) if step.path == "pods/job.json" else step
                for step in steps(plan)
            )

        place = {"provider": "local", "context": None, "server": None, "namespace": None}
        workers = {"nodes": nodes, "image": None}
        return plan_of(place=place, workers=workers, wheels=(), requests=requests, **asked)

    return build


@pytest.fixture
def provider(tmp_path):
    """The runs of a folder; what a test leaves running is ended."""
    found = LocalProvider(tmp_path / "runs")
    yield found
    for path in (tmp_path / "runs").glob("*"):
        list(found.remove(path.name))


def begin(provider, plan):
    return start(plan, provider, Quiet(), lambda _: None)


def wait_for(condition):
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def is_up(provider, log):
    return lambda: provider.state("gan").phase == "running" and "up" in log.read_text()


def test_nothing_there_is_absent_and_twice_removed_is_fine(provider):
    assert provider.state("gan").phase == "absent"
    assert provider.intent("gan") is None
    assert list(provider.remove("gan")) == list(provider.remove("gan")) == []
    assert provider.runs() == ()


def test_a_run_is_started_once_and_stopped_and_goes_on_and_is_removed(
    provider, local_plan, tmp_path
):
    plan = local_plan(SLEEPS)
    log = tmp_path / "runs" / "gan" / "pods" / "logs" / "worker-0.log"
    assert begin(provider, plan)
    wait_for(is_up(provider, log))
    supervisor = StateFile(tmp_path / "runs" / "gan").supervisor()
    assert not begin(provider, plan), "a second start finds it running"
    assert not provider.ensure(plan.steps[-1], plan)
    assert StateFile(tmp_path / "runs" / "gan").supervisor() == supervisor
    assert provider.runs() == ("gan",)
    assert provider.intent("gan") == plan

    provider.stop("gan")
    state = provider.state("gan")
    assert (state.phase, state.is_over) == ("stopped", True)
    assert state.began <= state.ended
    assert log.read_text() == "up\nsaved\n"
    lines = [one for source in provider.log_sources("gan").values() for one in source(True)]
    assert [(one.index, one.text) for one in lines] == [(0, "up"), (0, "saved")]
    provider.stop("gan")

    assert begin(provider, plan), "what was stopped goes on"
    wait_for(lambda: log.read_text().count("up") == 2)
    assert len(list(provider.remove("gan"))) == 1
    assert provider.state("gan").phase == "absent"
    assert list(provider.remove("gan")) == []


def test_a_killed_supervisor_is_told_and_its_workers_do_not_outlive_the_next_start(
    provider, local_plan, tmp_path
):
    folder = tmp_path / "runs" / "gan"
    begin(provider, local_plan(SLEEPS))
    wait_for(is_up(provider, folder / "pods" / "logs" / "worker-0.log"))
    orphan = StateFile(folder).read().workers[0]
    os.kill(StateFile(folder).supervisor(), signal.SIGKILL)
    wait_for(lambda: StateFile(folder).supervisor() is None)
    state = provider.state("gan")
    assert state.phase == "stopped"
    assert "the process that kept its workers is gone" in state.why
    assert process_mark(orphan.pid) == orphan.mark, "it computes on"
    begin(provider, local_plan("exit 0"))
    wait_for(lambda: provider.state("gan").phase == "finished")
    assert process_mark(orphan.pid) != orphan.mark


def test_a_process_that_got_the_number_of_a_dead_worker_is_left_alone(
    provider, local_plan, tmp_path
):
    begin(provider, local_plan("exit 0"))
    wait_for(lambda: provider.state("gan").phase == "finished")
    file = StateFile(tmp_path / "runs" / "gan")
    note = file.read()
    worker = note.workers[0].model_copy(update={"pid": os.getppid(), "mark": "another time"})
    file.write(note.model_copy(update={"workers": (worker,)}))
    provider.stop("gan")
    assert process_mark(os.getppid())


def test_workers_that_cannot_be_started_are_told_with_the_place_of_the_reason(
    provider, local_plan, tmp_path
):
    plan = local_plan("exit 0")
    broken = plan.model_copy(
        update={"steps": [step.model_copy(update={"body": {}}) for step in plan.steps]}
    )
    with pytest.raises(LaunchError, match=r"could not be started \(.+\); see .*supervisor\.log"):
        begin(provider, broken)


def test_other_settings_are_refused_while_it_runs_and_after_until_it_is_removed(
    provider, local_plan, tmp_path
):
    begin(provider, local_plan(SLEEPS))
    other = local_plan(SLEEPS, training={"epochs": 9})
    with pytest.raises(ConfigError, match="cloudgan down gan"):
        begin(provider, other)
    with pytest.raises(ConfigError, match="running with other settings"):
        provider.ensure(other.steps[0], other)
    provider.stop("gan")
    with pytest.raises(ConfigError, match="cloudgan down gan"):
        begin(provider, other)
    list(provider.remove("gan"))
    assert provider.intent("gan") is None
    assert provider.runs() == ()
    assert begin(provider, other), "what was removed is no obstacle"


def test_a_change_is_waited_for_and_no_longer_than_asked(provider, local_plan):
    provider.wait_for_change("gan", 0.01)


def test_a_machine_without_tensorflow_is_told_before_anything_starts(
    provider, local_plan, monkeypatch
):
    module = "cloudgan.providers.local.provider.find_spec"
    monkeypatch.setattr(module, lambda _: object())
    assert provider.check(local_plan("exit 0")) == ()
    monkeypatch.setattr(module, lambda _: None)
    with pytest.raises(ConfigError, match=r"TensorFlow is not installed.*cloudgan\[train\]"):
        provider.check(local_plan("exit 0"))
