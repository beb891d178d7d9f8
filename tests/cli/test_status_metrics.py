"""`status --metrics` and `--watch`: the values of a run for Prometheus, and again and again."""

from types import SimpleNamespace

import pytest

from cli.test_status import beat
from cloudgan.cli.commands import runs as commands
from cloudgan.cli.commands.runs import Metric, exposition
from cloudgan.core.errors import LaunchError
from cloudgan.launch.operations import launched_run, runs
from cloudgan.launch.operations.run_status import RunStatus
from cloudgan.money.catalog import load_catalog
from cloudgan.reports.result import Result, View
from cloudgan.schema.launch import Node
from cloudgan.schema.run_state import RunState
from records import write_run

STATES = ("done", "stopped", "running", "waiting", "failed", "unknown")
LABELS = '{run="gan",provider="gcp"'


def states(now):
    """The lines of the state of a run, whose labels are these."""
    lines = (f'cloudgan_run_state{LABELS},state="{one}"}} {int(one == now)}\n' for one in STATES)
    return (
        "# HELP cloudgan_run_state 1 for the state of the run, 0 for the others.\n"
        f"# TYPE cloudgan_run_state gauge\n{''.join(lines)}"
    )


def status_of(state, **known):
    """The status of a launched run on Google Cloud."""
    return RunStatus(run="gan", folder=None, provider="gcp", where="gcp", state=state, **known)


@pytest.fixture
def metrics_of(monkeypatch, cloudgan_here):
    """The metrics that the command prints about a run with this status."""

    def ask(found):
        monkeypatch.setitem(runs.status.__dict__, "body", lambda *_, **__: found)
        return cloudgan_here("status", "gan", "--metrics").stdout

    return ask


def test_a_running_run_has_its_cost_progress_and_state_in_the_format_of_prometheus(metrics_of):
    known = {"usd": 1.25, "usd_per_hour": 0.7, "done": 3, "step": 1234, "showers_per_second": 80.0}
    assert metrics_of(status_of("running", **known)) == states("running") + (
        "# HELP cloudgan_run_usd_total USD so far of all that is billed, of all attempts.\n"
        "# TYPE cloudgan_run_usd_total counter\n"
        f"cloudgan_run_usd_total{LABELS}}} 1.25\n"
        "# HELP cloudgan_run_usd_per_hour USD per hour of the nodes that run now.\n"
        "# TYPE cloudgan_run_usd_per_hour gauge\n"
        f"cloudgan_run_usd_per_hour{LABELS}}} 0.7\n"
        "# HELP cloudgan_run_epoch Finished epochs.\n"
        "# TYPE cloudgan_run_epoch gauge\n"
        f"cloudgan_run_epoch{LABELS}}} 3\n"
        "# HELP cloudgan_run_step Finished training steps.\n"
        "# TYPE cloudgan_run_step gauge\n"
        f"cloudgan_run_step{LABELS}}} 1234\n"
        "# HELP cloudgan_run_showers_per_second Showers per second of all workers.\n"
        "# TYPE cloudgan_run_showers_per_second gauge\n"
        f"cloudgan_run_showers_per_second{LABELS}}} 80.0\n"
    )


def test_an_unknown_value_has_no_sample(metrics_of):
    assert metrics_of(status_of("waiting")) == states("waiting")
    free = metrics_of(status_of("stopped", usd_per_hour=0.0))
    assert free.endswith(f"cloudgan_run_usd_per_hour{LABELS}}} 0.0\n"), "zero is a value"


def test_a_run_of_this_machine_has_metrics_too(cloudgan_here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cloudgan_here("status", "--metrics").stdout == "", "there is no run"
    assert "give one of them" in cloudgan_here("status", "--metrics", "--json", exits=2).stdout
    write_run("runs/mine", name="mine")
    found = cloudgan_here("status", "--metrics").stdout
    assert 'cloudgan_run_epoch{run="mine",provider="local"} 0\n' in found
    assert "cloudgan_run_usd_total" not in found


@pytest.fixture
def launched(plan_of):
    """The price per hour and the showers per second of a run in a state, and its price row."""
    row = load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/spot")
    plan = plan_of(name="gan", price=row)

    def ask(state, **values):
        price = launched_run._usd_per_hour(plan, state, state.phase)
        return price, launched_run._progress(plan, beat(**values), state.phase)

    return SimpleNamespace(ask=ask, row=row, plan=plan)


def test_the_price_per_hour_is_of_the_nodes_that_run_now(launched):
    up, gone = "2026-11-21T12:00:00Z", "2026-11-21T13:00:00Z"
    nodes = (Node(name="a", started_at=up), Node(name="b", started_at=up, terminated_at=gone))
    price, progress = launched.ask(RunState("running", nodes=nodes), epoch=3, steps_per_second=2.5)
    assert price == pytest.approx(launched.row.usd_per_hour)
    workers = launched.plan.workers
    replicas = workers.nodes * max(1, workers.accelerators_per_node)
    assert progress["showers_per_second"] == 2.5 * launched.plan.config.global_batch(replicas)
    assert progress["done"] == 3


def test_a_run_that_ended_costs_nothing_per_hour_and_makes_no_showers(launched):
    price, progress = launched.ask(
        RunState("finished"), epoch=59, steps_per_second=2.5, seconds_per_epoch=5.0, exit_code=0
    )
    assert price == 0
    assert (progress["showers_per_second"], progress["seconds_left"]) == (None, None)
    assert progress["done"] == 60


def test_labels_and_help_are_escaped():
    nasty = (({"run": 'a"b\\c\nd,e="f"} 1'}, 0.1),)
    assert exposition([Metric("some_metric", "gauge", "one\ntwo\\n", nasty)]) == (
        "# HELP some_metric one\\ntwo\\\\n\n"
        "# TYPE some_metric gauge\n"
        'some_metric{run="a\\"b\\\\c\\nd,e=\\"f\\"} 1"} 0.1\n'
    )
    assert exposition([Metric("some_metric", "gauge", "text", ())]) == ""


# `--watch`: a result that is shown again and again


class Count(Result):
    number: int

    def view(self):
        return View(f"number {self.number}")


def watched(monkeypatch, capsys, answers):
    """What is printed while `refresh` gives these answers, and then Ctrl-C comes."""
    left = iter(answers)

    def refresh():
        answer = next(left)
        if isinstance(answer, BaseException):
            raise answer
        return Count(number=answer)

    monkeypatch.setattr(commands.time, "sleep", lambda seconds: None)
    commands.watch(refresh, lambda found: print(found.view().line), 2.0)
    return capsys.readouterr().out


def test_in_a_pipe_each_refresh_is_a_block_of_its_own(monkeypatch, capsys):
    said = watched(monkeypatch, capsys, [1, 2, KeyboardInterrupt()])
    assert "\x1b" not in said
    blocks = said.strip().split("\n\n")
    assert [block.splitlines()[1] for block in blocks] == ["number 1", "number 2"]
    assert "every 2 s; Ctrl-C ends this" in blocks[0]


def test_an_error_of_a_later_refresh_is_shown_and_the_next_one_may_succeed(monkeypatch, capsys):
    said = watched(monkeypatch, capsys, [1, LaunchError("no answer"), 3, KeyboardInterrupt()])
    assert ["cloudgan: no answer" in said, "number 3" in said] == [True, True]
    with pytest.raises(LaunchError):
        watched(monkeypatch, capsys, [LaunchError("no answer")])


@pytest.mark.parametrize(
    ("provider", "job", "is_offered"),
    [("local", "finished", True), ("local", "absent", False), ("gcp", "absent", True)],
)
def test_down_is_offered_where_something_may_be_left(provider, job, is_offered):
    found = RunStatus(
        run="gan",
        folder=None,
        provider=provider,
        state="done",
        phase="finished",
        job=RunState(job),
    )
    offered = [command for command, _ in found.view().commands]
    assert ("cloudgan down gan" in offered) == is_offered
