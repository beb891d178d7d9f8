"""`status --metrics` and `--watch`: the values of a run for Prometheus, and again and again."""

import re
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from cli.test_status import beat
from cloudgan.cli.commands import runs as views
from cloudgan.cli.commands.runs import Metric, exposition
from cloudgan.core.errors import ConfigError, LaunchError
from cloudgan.launch.operations import launched_run, runs
from cloudgan.launch.operations.run_status import RunStatus
from cloudgan.money.catalog import load_catalog
from cloudgan.reports.result import Result, View
from cloudgan.schema.launch import Node
from cloudgan.schema.run_state import RunState
from records import write_run

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
PAIR = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{PAIR}(?:,{PAIR})*,?)?)\}})? (\S+)(?: (-?\d+))?")
HELP = re.compile(rf"# HELP ({NAME}) ((?:[^\\\n]|\\[\\n])*)")
TYPE = re.compile(rf"# TYPE ({NAME}) (counter|gauge|histogram|summary|untyped)")
MEANING = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class Family(NamedTuple):
    """The help, type and samples of one metric."""

    kind: str
    help: str
    samples: dict


def read(text):
    """Returns the families of a text by name; refuses what the format does not permit."""
    found, current, helped = {}, None, {}
    assert not text or text.endswith("\n"), "the last line must end with a line feed"
    for line in text.splitlines():
        if comment := HELP.fullmatch(line):
            assert comment[1] not in helped, "only one HELP line per metric"
            helped[comment[1]] = comment[2]
        elif comment := TYPE.fullmatch(line):
            assert comment[1] not in found, "only one TYPE line, before the samples, in one group"
            current = comment[1]
            found[current] = Family(comment[2], helped[current], {})
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, f"not a sample: {line!r}"
            assert sample[1] == current, "the lines of a metric are one uninterrupted group"
            labels = tuple(
                (name, re.sub(r"\\.", lambda one: MEANING[one[0]], value))
                for name, value in re.findall(PAIR, sample[2] or "")
            )
            assert labels not in found[current].samples, "a sample is given once"
            found[current].samples[labels] = float(line.rpartition(" ")[2])
    return found


LABELS = (("run", "gan"), ("provider", "gcp"))


def status_of(state, **known):
    """The status of a launched run on Google Cloud."""
    return RunStatus(run="gan", folder=None, provider="gcp", where="gcp", state=state, **known)


@pytest.fixture
def metrics_of(monkeypatch, cloudgan_here):
    """The metrics that the command prints about a run with this status."""

    def ask(found):
        monkeypatch.setitem(runs.status.__dict__, "body", lambda *_, **__: found)
        return read(cloudgan_here("status", "gan", "--metrics").stdout)

    return ask


def test_a_running_run_has_its_cost_progress_and_state(metrics_of):
    known = {"usd": 1.25, "usd_per_hour": 0.7, "done": 3, "step": 1234, "showers_per_second": 80.0}
    found = metrics_of(status_of("running", **known))
    expected = {
        "usd_total": ("counter", 1.25),
        "usd_per_hour": ("gauge", 0.7),
        "epoch": ("gauge", 3),
        "step": ("gauge", 1234),
        "showers_per_second": ("gauge", 80.0),
    }
    for name, (kind, value) in expected.items():
        family = found[f"cloudgan_run_{name}"]
        assert (family.kind, family.samples) == (kind, {LABELS: pytest.approx(value)}), name
    states = found["cloudgan_run_state"].samples
    assert states[*LABELS, ("state", "running")] == 1
    assert sum(states.values()) == 1
    assert len(states) == 6


def test_an_unknown_value_has_no_sample(metrics_of):
    assert set(metrics_of(status_of("waiting"))) == {"cloudgan_run_state"}
    free = metrics_of(status_of("stopped", usd_per_hour=0.0))
    assert free["cloudgan_run_usd_per_hour"].samples == {LABELS: 0}, "zero is a value"


def test_a_run_of_this_machine_has_metrics_too(cloudgan_here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_run("runs/mine", name="mine")
    found = read(cloudgan_here("status", "--metrics").stdout)
    labels = (("run", "mine"), ("provider", "local"))
    assert found["cloudgan_run_epoch"].samples == {labels: 0}
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
    nasty = 'a"b\\c\nd,e="f"} 1'
    text = exposition([Metric("some_metric", "gauge", "one\ntwo\\n", (({"run": nasty}, 0.1),))])
    assert read(text) == {
        "some_metric": Family("gauge", "one\\ntwo\\\\n", {(("run", nasty),): 0.1})
    }
    assert exposition([Metric("some_metric", "gauge", "text", ())]) == ""


def test_metrics_of_all_runs_of_a_folder_without_runs_are_empty(
    cloudgan_here, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert cloudgan_here("status", "--metrics").stdout == ""
    assert "give one of them" in cloudgan_here("status", "--metrics", "--json", exits=2).stdout


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

    monkeypatch.setattr(views.time, "sleep", lambda seconds: None)
    views.watch(refresh, lambda found: print(found.view().line), 2.0)
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


def test_a_pause_of_no_time_is_refused(monkeypatch, capsys):
    for seconds in (0.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="--watch"):
            views.watch(lambda: Count(number=1), print, seconds)


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
