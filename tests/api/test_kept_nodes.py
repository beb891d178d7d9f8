"""The run that uses waiting nodes ends their waiting in the record of the run that kept them."""

from __future__ import annotations

import datetime as dt

import pytest

from cloudgan.api import kept_nodes
from cloudgan.launch.provisioning.launch_log import LaunchLog
from cloudgan.schema import plan as plans
from cloudgan.schema.launch import Node
from cloudgan.schema.plan import NodePool, ReusedNodes
from cloudgan.schema.run_folder import RunFolder

UP = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


@pytest.fixture
def first(plan_of, tmp_path, monkeypatch):
    """A run of this machine whose nodes wait."""
    monkeypatch.setattr(kept_nodes, "RUNS", tmp_path)
    pool = NodePool(node_type="n1", market="spot", name="gan-1", keep_seconds=1800)
    plan = plan_of(store=str(tmp_path / "store")).model_copy(update={"node_pool": pool})
    folder = RunFolder(tmp_path / plan.run)
    log = LaunchLog(folder, plan)
    log.record_attempt([("2026-11-21T12:00:00Z", plan.steps[-1])])
    log.record_nodes([Node(name="a", started_at=UP)])
    log.record_kept()
    plans.write(folder.path / plans.FILE_NAME, plan)
    return plan, log


def second(plan, since, previous):
    reused = ReusedNodes(run=previous, previous=previous, since=since)
    pool = plan.node_pool.model_copy(update={"reused": reused})
    return plan.model_copy(update={"run": "two", "node_pool": pool})


def test_the_waiting_ends_when_the_next_run_uses_the_nodes(first):
    plan, log = first
    kept = log.read().attempts[-1].kept
    assert kept.seconds() == 1800
    kept_nodes.end_waiting(second(plan, kept.since + dt.timedelta(minutes=5), plan.run), print)
    assert log.read().attempts[-1].kept.seconds() == 300


def test_a_run_of_another_machine_is_not_changed(first, tmp_path):
    plan, log = first
    kept_nodes.end_waiting(second(plan, UP, "elsewhere"), print)
    assert log.read().attempts[-1].kept.ended_at is None
    assert not (tmp_path / "elsewhere").exists()


def test_a_plan_without_the_flag_is_not_changed(plan_of):
    plan = plan_of()
    assert kept_nodes.use_kept_nodes(plan, None, print) is plan
    kept_nodes.end_waiting(plan, print)


def test_a_damaged_record_does_not_end_the_run_that_has_started(first, tmp_path):
    plan, log = first
    (tmp_path / plan.run / plans.FILE_NAME).write_text("{")
    said = []
    kept_nodes.end_waiting(second(plan, UP, plan.run), said.append)
    assert "could not be recorded" in said[0]
    assert log.read().attempts[-1].kept.ended_at is None
