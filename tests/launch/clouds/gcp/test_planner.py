"""The GCP planner: from a request to Google's API requests, offline."""

import pytest

from cloudgan.launch.clouds.gcp.names import CHANNEL
from cloudgan.launch.clouds.gcp.planner import target
from cloudgan.launch.operations.plan_result import PlanResult
from cloudgan.schema.plan import LOCATION
from launch.clouds.gcp.lab import gcp_plan
from launch.clouds.lab import of_cloud


def pool_of(plan):
    return of_cloud(plan)[-1].body["nodePool"]


def test_autoscaler_and_maximum_duration_end_the_nodes():
    plan = gcp_plan(nodes=3, max_hours=2)
    pool = pool_of(plan)
    assert pool["initialNodeCount"] == 3
    assert pool["autoscaling"] == {"enabled": True, "minNodeCount": 0, "maxNodeCount": 3}
    life = int(pool["config"]["maxRunDuration"].removesuffix("s"))
    assert 2 * 3600 + plan.limits.gang_timeout_seconds < life < 3 * 3600


@pytest.mark.parametrize("gpu", ["P100", "V100", "T4"])
def test_old_gpus_use_the_default_driver(gpu):
    (one,) = pool_of(gcp_plan(f"n1-standard-8+1x{gpu}"))["config"]["accelerators"]
    assert one["acceleratorType"] == f"nvidia-tesla-{gpu.lower()}"
    assert one["gpuDriverInstallationConfig"] == {"gpuDriverVersion": "DEFAULT"}


def test_spot_nodes_and_workers_have_the_longer_grace_period():
    plan = gcp_plan(market="spot")
    config = pool_of(plan)["config"]
    assert config["spot"]
    grace = config["kubeletConfig"]
    left = grace["shutdownGracePeriodSeconds"] - grace["shutdownGracePeriodCriticalPodsSeconds"]
    assert plan.workers.grace_seconds == left
    assert "kubeletConfig" not in pool_of(gcp_plan())["config"]


def test_a_pod_on_gpus_has_no_variables_of_pjrt():
    (trainer,) = gcp_plan().steps[-1].body["spec"]["template"]["spec"]["containers"]
    assert not [one for one in trainer["env"] if "PJRT" in one["name"]]


def test_a_flex_start_pool_starts_empty():
    plan = gcp_plan("a3-highgpu-1g", flex_start=True, max_hours=10, nodes=2)
    pool = pool_of(plan)
    assert pool["initialNodeCount"] == 0
    assert pool["autoscaling"]["maxNodeCount"] == 2
    assert pool["config"]["flexStart"]
    assert not [step for step in plan.steps if step.method == "WAIT"]


def test_flex_start_nodes_may_queue_for_the_time_of_the_job_and_the_plan_says_so():
    plan = gcp_plan("a3-highgpu-1g", flex_start=True, max_hours=10)
    assert plan.limits.capacity_wait_seconds == 10 * 3600 - plan.limits.gang_timeout_seconds
    sized = plan.showers.model_copy(update={"gib": 1.0})
    shown = PlanResult(plan=plan.model_copy(update={"showers": sized})).view().basis
    assert any("flex-start nodes may queue for 9.67 h" in line for line in shown)
    assert gcp_plan().limits.capacity_wait_seconds is None


def test_an_existing_cluster_may_be_in_any_zone_of_the_region():
    details = target(None, "us-central1", None, "mine").details
    assert details == {LOCATION: "<cluster-location>", CHANNEL: "<release-channel>"}
    assert target(None, "us-central1", None, None).details == {LOCATION: "<zone>"}
    assert target(None, "us-central1", "us-central1-b", None).details == {LOCATION: "us-central1-b"}


def test_several_flex_start_nodes_start_at_once_and_end_by_their_request():
    plan = gcp_plan(flex_start=True, nodes=2)
    assert "start at once" in plan.node_pool.notes[0]
    pool = pool_of(plan)
    assert pool["queuedProvisioning"] == {"enabled": True}
    assert "maxRunDuration" not in pool["config"], "a parameter of the request"
    assert {one.key for one in plan.workers.tolerations} >= {"cloud.google.com/gke-queued"}
    one = gcp_plan(flex_start=True)
    assert not one.node_pool.notes
    assert "queuedProvisioning" not in pool_of(one)
    assert "maxRunDuration" in pool_of(one)["config"]
