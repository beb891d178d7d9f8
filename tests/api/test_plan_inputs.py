"""Memory of a plan, and the nodes that wait for the next run."""

import datetime as dt

import pytest

from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.operations import kept_nodes
from cloudgan.launch.plan.launch_job import memory_warnings
from cloudgan.money.billing import launch_ledger
from cloudgan.money.fees import Fees
from cloudgan.schema import launch
from cloudgan.schema import plan as plans
from cloudgan.schema.config import parse_config
from cloudgan.schema.item import Item
from cloudgan.schema.launch import Cluster, Node
from cloudgan.schema.plan import NodePool, ReusedNodes, Workers
from cloudgan.schema.price_row import FeeRow
from cloudgan.schema.run_folder import RunFolder


def notes(batch, *, accelerator=None, count=0, memory_gib=64.0, nodes=1, **training):
    asked = {"model": {"preset": "paper"}, "training": {"batch_per_replica": batch} | training}
    workers = Workers(
        nodes=nodes,
        accelerator=accelerator,
        accelerators_per_node=count,
        cpus=8,
        memory_gib=memory_gib,
        image=None,
    )
    return memory_warnings(parse_config(asked, "test"), workers)


def test_a_batch_that_exceeds_the_accelerator_memory_gives_a_warning():
    assert notes(64, accelerator="V100", count=8) == ()
    (warning,) = notes(512, accelerator="V100", count=8)
    assert warning.startswith("a batch of 512 per replica needs about ")
    assert "and one V100 has 16 GiB" in warning
    assert notes(512, accelerator="H200", count=8) == ()


def test_cpu_workers_are_compared_with_their_memory_request():
    assert notes(16, memory_gib=8.0) == ()
    (warning,) = notes(16, memory_gib=1.0)
    assert "and a worker has 1 GiB" in warning


@pytest.mark.parametrize("accelerator", ["TPU-v3", "Unheard-of"])
def test_unmeasured_accelerators_give_no_warning(accelerator):
    assert notes(100_000, accelerator=accelerator, count=4) == ()


def test_an_indivisible_global_batch_gives_no_memory_warning():
    asked = {"batch_per_replica": None, "global_batch_size": 7}
    assert notes(None, accelerator="T4", count=2, **asked) == ()


# The run that uses waiting nodes ends their waiting in the record of the run that kept them


FEE = {
    "kind": "control_plane", "provider": "gcp", "name": "GKE standard", "region": "any",
    "usd": 0.1, "unit": "hour", "source": "a test", "confidence": "A", "date": "2026-11-01",
}  # fmt: skip
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


def test_the_idle_hours_of_a_kept_cluster_are_paid_by_the_run_that_kept_it(first):
    """1 h of use and 10 h idle at 0.10 USD/h: unknown until another run takes it, then 1.10 USD."""
    plan, log = first
    there = plan.target.model_copy(update={"provider": "gcp", "region": "r", "cluster": "c"})
    plan = plan.model_copy(update={"target": there})
    attempt = log.read().attempts[0]
    cluster = Cluster(
        name="c",
        control_plane="GKE standard",
        system_nodes=0,
        created_at=UP,
        deleted_at=UP + dt.timedelta(hours=1),
        run_seconds=3600,
        idle_since=UP + dt.timedelta(hours=1),
    )
    node = Node(name="a", started_at=UP, terminated_at=UP + dt.timedelta(hours=1))
    changes = {"provider": "gcp", "region": "r", "market": "spot", "cluster": cluster}
    attempt = attempt.model_copy(update=changes | {"nodes": (node,), "kept": None, "fees": None})
    whole = log.read().model_copy(update={"attempts": (attempt,)})
    launch.write(kept_nodes.RUNS / plan.run / "launch.json", whole)
    plane = Fees((FeeRow(**FEE),))

    def paid():
        return launch_ledger(log.read(), plane).of(Item.CLUSTER)

    assert "cluster (unknown share)" in paid().total().unknown
    assert paid().until(UP + dt.timedelta(hours=3)).known_usd == pytest.approx(0.3)
    asked = attempt.requests[0].model_copy(update={"sent_at": UP + dt.timedelta(hours=11)})
    later = attempt.model_copy(update={"requests": (asked,), "cluster": None})
    launch.write(
        kept_nodes.RUNS / "two" / "launch.json",
        whole.model_copy(update={"run": "two", "attempts": (later,)}),
    )
    kept_nodes.end_waiting(plan.model_copy(update={"run": "two"}), print)
    assert paid().known_usd == pytest.approx(1.1)
    assert paid().total().unknown == ()


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
