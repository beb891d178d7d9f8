"""The GCP planner: from a request to Google's API requests, offline."""

from cloudgan.launch.operations.plan_result import PlanResult
from launch.clouds.gcp.lab import gcp_plan
from launch.clouds.lab import of_cloud


def pool_of(plan):
    return of_cloud(plan)[-1].body["nodePool"]


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
