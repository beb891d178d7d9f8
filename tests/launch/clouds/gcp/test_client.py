"""One project of Google Cloud, by google-auth over HTTP, against Google's own contract."""

import datetime as dt

import pytest

from cloudgan.core.errors import CapacityError, LaunchError, PlanError
from cloudgan.launch.clouds.gcp.planner import setup_steps
from cloudgan.launch.operations.check import check_cloud
from cloudgan.schema.plan import LOCATION
from emulators.gcp.kubernetes_engine import STOCK_OUT
from emulators.gcp.refusal import Refusal
from launch.clouds.gcp.lab import PLACE, gcp_plan
from launch.clouds.lab import of_cloud


def test_a_wrong_clock_is_harmless(lab, google):
    google.server.skew = dt.timedelta(hours=-3)
    lab.make()
    lab.remove("gan")
    assert lab.left() == ["cluster cloudgan"]


def test_the_failure_of_a_vanished_resource_is_raised(lab, google, cloud):
    lab.make(name="other")
    google.engine.failure = STOCK_OUT
    step = of_cloud(lab.plan())[-1]
    cloud.create(step)
    for kept in google.engine.clusters.values():
        del kept.pools[gcp_plan().node_pool.name]
    found = [cloud.find(step) for _ in range(4)]
    assert (found[-1].state, found[-1].cause) == ("failed", "capacity")


def test_a_stock_out_is_reported_while_it_is_waited_for(lab, google):
    google.engine.stock_out, google.engine.operation_ticks = True, 8
    with pytest.raises(CapacityError):
        lab.make()
    assert any("RESOURCE_POOL_EXHAUSTED" in line for line in lab.said)


def test_a_silent_zone_matters_where_it_is_asked_for(lab, google, cloud):
    google.engine.silent_zones.add("us-central1-b")
    silent = ("us-central1-b (Kubernetes Engine)",)
    assert cloud.list_resources("gan", {"us-central1"}).silent == silent
    assert cloud.list_resources("gan", {"europe-west4"}).silent == ()


def test_machines_whose_pool_may_be_in_a_silent_zone_are_no_orphans(lab, google, cloud):
    lab.make()
    google.compute.leave("instances", "node", **MINE, **V100)
    google.engine.silent_zones.add("us-central1-a")
    found = cloud.list_resources("gan")
    assert found == ()
    assert found.silent == ("us-central1-a (Kubernetes Engine)",)


def test_no_cluster_is_created_beside_one_that_may_be_in_a_silent_zone(lab, google):
    google.engine.silent_zones.add("us-central1-f")
    with pytest.raises(
        LaunchError, match=r"does not answer for us-central1-f.*nothing was created"
    ):
        lab.plan()


def test_a_pool_is_listed_if_the_size_of_its_group_is_unknown(lab, google):
    lab.make(nodes=2)
    down = Refusal(503, "The service is currently down.")
    google.server.refuse("instanceGroupManagers.get", down, times=10**6)
    lab.lose_patience()
    (pool,) = lab.cloud().list_resources("gan")
    assert pool.nodes == 2


def test_the_zone_offers_the_machines_and_prefers_an_existing_cluster(lab, cloud):
    assert cloud.resolve_placeholders(gcp_plan())["<zone>"] == "us-central1-a"
    assert cloud.resolve_placeholders(gcp_plan("n1-standard-8+1xV100"))["<zone>"] == "us-central1-a"
    assert cloud.resolve_placeholders(gcp_plan())["<zones>"] == "us-central1-a us-central1-b"
    lab.make(zone="us-central1-b", name="first")
    assert cloud.resolve_placeholders(gcp_plan())["<zone>"] == "us-central1-b"
    assert cloud.resolve_placeholders(gcp_plan())["<zones>"] == "us-central1-b us-central1-a"
    assert cloud.resolve_placeholders(gcp_plan("n1-standard-8+1xV100"))["<zone>"] == "us-central1-a"


def test_an_existing_cluster_is_found_in_any_zone_of_the_region(lab):
    lab.make(name="first", cluster="mine", zone="us-central1-b")
    found = lab.plan(cluster="mine", zone="us-central1-a")
    assert found.target.details[LOCATION] == "us-central1-b"
    assert found.steps[2].ref == {"project": "lab", "location": "us-central1-b", "cluster": "mine"}


def test_spot_requires_a_cluster_version_with_a_grace_period(lab, google, cloud):
    google.engine.version = "1.33.1-gke.5"
    lab.make(name="first")
    with pytest.raises(PlanError, match=r"upgrade it to 1\.35"):
        cloud.resolve_placeholders(gcp_plan(market="spot"))
    assert cloud.resolve_placeholders(gcp_plan())["<zone>"] == "us-central1-a"


@pytest.mark.parametrize(
    ("cluster", "channel"),
    [
        (None, "REGULAR"),
        ("cloudgan", "REGULAR"),
        ("cloudgan", "STABLE"),
        ("cloudgan", "UNSPECIFIED"),
        ("cloudgan", None),
    ],
)
def test_google_upgrades_no_node_of_a_run_in_any_cluster(lab, google, channel, cluster):
    lab.make(name="first")
    for kept in google.engine.clusters.values():
        kept.body.pop("releaseChannel")
        if channel:
            kept.body["releaseChannel"] = {"channel": channel}
    lab.make(cluster=cluster)
    pool = next(one for one in google.engine.pools() if one["name"].startswith("gan"))
    excluded = pool.get("maintenancePolicy", {}).get("exclusionUntilEndOfSupport", {})
    assert excluded.get("enabled") or pool["management"]["autoUpgrade"] is False


def test_an_autopilot_cluster_is_refused_by_check_and_before_any_creation(lab, google, cloud):
    lab.make(name="first")
    for kept in google.engine.clusters.values():
        kept.body["autopilot"] = {"enabled": True}
    before = google.left()
    plan = gcp_plan(cluster="cloudgan")
    with pytest.raises(PlanError, match=r"cloudgan is an Autopilot cluster.*pass --cluster"):
        lab.make(plan)
    assert google.left() == before
    found = {one.subject: one for one in check_cloud(cloud, plan, None, dt.date(2026, 11, 25))}
    assert found["target"].status == "missing"
    assert "Autopilot" in found["target"].message


def test_a_cluster_without_workload_identity_is_refused_before_any_creation(lab, google, cloud):
    lab.make(name="first")
    for kept in google.engine.clusters.values():
        del kept.body["workloadIdentityConfig"]
    with pytest.raises(PlanError, match="no workload identity"):
        cloud.resolve_placeholders(gcp_plan())


def test_setup_is_idempotent_and_its_teardown_complete(lab, google, cloud):
    google.identity.accounts.clear()
    google.identity.apis_off = {"container.googleapis.com"}
    google.server.hidden_ticks = 5  # a new account takes a while to propagate
    maker = lab.engine()
    plan = gcp_plan(account="lab")
    made = [maker.ensure(step, plan) for step in setup_steps(PLACE)]
    assert all(made)
    assert not any(maker.ensure(step, plan) for step in setup_steps(PLACE))
    assert not google.identity.apis_off
    assert len(google.identity.policies["project"]["bindings"]) == 4
    shared = [one for one in cloud.list_resources() if one.shared in ("identity", "bucket")]
    list(maker.destroy(shared))
    assert not google.identity.accounts
    assert not google.storage.buckets
    assert not google.identity.policies["project"]["bindings"]


def test_setup_needs_no_identity_pool_and_pods_are_bound_once_the_cluster_exists(
    lab, google, cloud
):
    """GKE creates the pool with the first cluster, so a project of its own has none at `setup`."""
    maker = lab.engine()
    plan = lab.plan(account="lab")
    steps = [one for one in plan.steps if one.at == "cloud"]
    (binding,) = (one for one in steps if "workloadIdentityUser" in one.ensure)
    trainer = "cloudgan-trainer@lab.iam.gserviceaccount.com"
    policy = google.identity.policies[trainer] | binding.body["policy"]
    with pytest.raises(LaunchError, match=r"Identity Pool does not exist \(lab.svc.id.goog\)"):
        cloud._api.send(binding.method, binding.path, {"policy": policy})
    for step in setup_steps(PLACE):
        maker.ensure(step, plan)
    assert google.identity.policies[trainer]["bindings"] == []
    for step in steps[: steps.index(binding) + 1]:
        maker.ensure(step, plan)
    (made,) = google.identity.policies[trainer]["bindings"]
    assert made["members"] == ["serviceAccount:lab.svc.id.goog[cloudgan/cloudgan]"]
    assert not maker.ensure(binding, plan), "once per project"


def findings(cloud, plan):
    return {one.subject: one for one in cloud.check(plan)}


def test_spot_and_new_gpus_have_quotas_of_their_own(lab, cloud):
    found = findings(cloud, lab.plan("n1-standard-8+1xV100", market="spot"))
    assert found["quota PREEMPTIBLE_NVIDIA_V100_GPUS in us-central1"].status == "unknown"
    plan = lab.plan("a3-highgpu-8g", region="europe-west4")
    (subject,) = (one for one in findings(cloud, plan) if "FAMILY" in one)
    assert "gpu_family NVIDIA_H100" in subject
    spot = lab.plan("a3-highgpu-8g", region="europe-west4", market="spot")
    assert "quota PREEMPTIBLE_NVIDIA_H100_GPUS in europe-west4" in findings(cloud, spot)


MINE = {"labels": {"cloudgan-run": "gan", "cloudgan-owner": "physicist"}}
V100 = {
    "machineType": "https://www.googleapis.com/compute/v1/projects/lab/zones/z/machineTypes/n1-standard-8",
    "guestAccelerators": [
        {"acceleratorCount": 1, "acceleratorType": "projects/lab/zones/z/nvidia-tesla-v100"}
    ],
    "scheduling": {"provisioningModel": "SPOT"},
}


def test_orphaned_machines_and_disks_are_listed_and_deleted_in_order(lab, google, cloud):
    google.compute.leave("disks", "loose", **MINE, type="zones/z/diskTypes/pd-balanced")
    google.compute.leave("disks", "used", **MINE, users=["another"])
    google.compute.leave("disks", "theirs", labels={"team": "x"})
    google.compute.leave("instances", "node", "europe-west4-a", **MINE, **V100)
    google.compute.leave("instances", "theirs", **V100)
    google.compute.leave("instances", "other", labels={"cloudgan-run": "other"}, **V100)
    assert {one.name.rpartition("/")[2] for one in cloud.list_resources() if one.run} == {
        "loose",
        "node",
        "other",
    }
    node, disk = cloud.list_resources("gan")
    assert (node.node_type, node.nodes, node.market) == ("n1-standard-8+1xV100", 1, "spot")
    assert (node.region, disk.region) == ("europe-west4-a", "us-central1-a")
    assert disk.fee == "pd-balanced", "without a price by the hour its cost is unknown"
    assert [one.rpartition("/")[2] for one in lab.remove("gan")] == ["node", "loose"]
    assert cloud.list_resources("gan") == ()
    assert len(google.compute.left["instances"]) == len(google.compute.left["disks"]) == 2


def test_a_stopped_machine_costs_its_disks_only(google, cloud):
    google.compute.leave("instances", "node", **MINE, **V100 | {"status": "TERMINATED"})
    (found,) = cloud.list_resources("gan")
    assert found.nodes == 0
    assert found.fee


def test_machines_of_an_existing_pool_are_not_orphans(lab, google, cloud):
    lab.make()
    google.compute.leave("instances", "node", **MINE, **V100)
    google.compute.leave("disks", "new", **MINE)
    assert [one.kind for one in cloud.list_resources("gan")] == ["GKE node pool"]


def test_without_permission_for_machines_the_pools_are_listed_with_a_warning(lab, google, cloud):
    lab.make()
    google.compute.leave("instances", "node", labels={"cloudgan-run": "other"}, **V100)
    refused = Refusal(403, "not you", reason="IAM_PERMISSION_DENIED")
    google.server.refuse("compute.instances.aggregatedList", refused)
    assert [one.kind for one in cloud.list_resources() if one.run] == ["GKE node pool"]
