"""`cloudgan status --metrics`, read by the grammar of Prometheus' text format.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/ (2026-11-22), version 0.0.4.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from cloudgan.api.runs import RunStatus
from cloudgan.cli.views.prometheus import Metric, exposition
from cloudgan.cost.prices.catalog import load_catalog
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.schema.launch import Node
from cloudgan.schema.run_state import RunState

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


def beat(**values):
    return Heartbeat(
        time="2026-01-01T00:00:00Z",
        config_hash="0" * 16,
        phase="training",
        world=1,
        missing_workers=(),
        generation=1,
        restarts=0,
        epochs=60,
        **values,
    )


@pytest.fixture
def metrics_of(monkeypatch, cloudgan_here):
    """The metrics that the command prints about a run with this status."""

    def ask(found):
        monkeypatch.setattr("cloudgan.api.runs.status", lambda *_, **__: found)
        return read(cloudgan_here("status", "gan", "--metrics").stdout)

    return ask


def test_a_running_run_has_its_cost_progress_and_state(plan_of, metrics_of):
    row = load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/spot")
    plan = plan_of(name="gan", price=row)
    labels = (("run", "gan"), ("provider", plan.target.provider))
    up, gone = "2026-11-21T12:00:00Z", "2026-11-21T13:00:00Z"
    nodes = (Node(name="a", started_at=up), Node(name="b", started_at=up, terminated_at=gone))
    progress = beat(epoch=3, step=1234, steps_per_second=2.5)
    state = RunState("running", nodes=nodes)
    found = metrics_of(RunStatus(plan, state, "running", progress, 1.25))
    replicas = plan.workers.nodes * max(1, plan.workers.accelerators_per_node)
    expected = {
        "usd_total": ("counter", 1.25),
        "usd_per_hour": ("gauge", row.usd_per_hour),
        "epoch": ("gauge", 3),
        "step": ("gauge", 1234),
        "showers_per_second": ("gauge", 2.5 * plan.config.global_batch(replicas)),
    }
    for name, (kind, value) in expected.items():
        family = found[f"cloudgan_run_{name}"]
        assert (family.kind, family.samples) == (kind, {labels: pytest.approx(value)}), name
    states = found["cloudgan_run_state"].samples
    assert states[*labels, ("state", "running")] == 1
    assert sum(states.values()) == 1
    assert len(states) == 7


def test_an_unknown_value_has_no_sample(plan_of, metrics_of):
    waiting = RunStatus(plan_of(name="gan"), RunState("waiting"), "waiting", None, None)
    assert set(metrics_of(waiting)) == {"cloudgan_run_state"}
    first = beat(step=1, steps_per_second=0.0)
    found = metrics_of(RunStatus(plan_of(name="gan"), RunState("running"), "running", first, None))
    assert set(found) == {"cloudgan_run_state", "cloudgan_run_step"}


def test_a_run_that_ended_costs_nothing_per_hour_and_makes_no_showers(plan_of, metrics_of):
    row = load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/spot")
    last = beat(epoch=59, step=9, steps_per_second=2.5, exit_code=0)
    plan = plan_of(name="gan", price=row)
    found = metrics_of(RunStatus(plan, RunState("finished"), "finished", last, 2.0))
    assert list(found["cloudgan_run_usd_per_hour"].samples.values()) == [0]
    assert "cloudgan_run_showers_per_second" not in found


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
    assert "not both" in cloudgan_here("status", "--metrics", "--json", exits=2).stdout
