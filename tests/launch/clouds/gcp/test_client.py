"""One project of Google Cloud, by google-auth over HTTP, against Google's own contract."""

from __future__ import annotations

import datetime as dt

import pytest

from cloudgan.core.errors import (
    CapacityError,
    ConfigError,
    CredentialsError,
    LaunchError,
    PlanError,
)
from cloudgan.launch.clouds.engine import Engine, names_of_gone
from cloudgan.launch.clouds.gcp.names import LOCATION
from cloudgan.launch.clouds.gcp.planner import setup_steps
from cloudgan.launch.operations.check import check_cloud
from cloudgan.schema.plan import Target
from emulators.gcp.kubernetes_engine import STOCK_OUT
from emulators.gcp.refusal import Refusal
from launch.clouds.gcp.lab import POLL_SECONDS, cloud_of, cloud_steps, gcp_plan, known

PLACE = Target(provider="gcp", account="lab", region="us-central1", zone="us-central1-a")
QUOTA = (
    'Insufficient regional quota to satisfy request: resource "NVIDIA_L4_GPUS": request requires'
    " '2.0' and is short '1.0'."
)


@pytest.fixture
def remove(cloud, said):
    def run(resources):
        return list(
            names_of_gone(
                Engine(cloud, said.append, POLL_SECONDS, gone_seconds=10).destroy(resources)
            )
        )

    return run


def test_planned_resources_are_created_once_listed_and_deleted(cloud, google, make, remove):
    plan = make(gcp_plan(nodes=2))
    before = len(google.server.methods())
    make(gcp_plan(nodes=2))
    again = google.server.methods()[before:]
    assert not [one for one in again if one.endswith(("create", "insert"))]
    assert {one.kind for one in cloud.list_resources()} == {
        "GKE cluster",
        "GKE node pool",
        "bucket",
        "service account",
    }
    (pool,) = cloud.list_resources("gan")
    assert (pool.node_type, pool.nodes, pool.market) == ("g2-standard-4", 2, "on_demand")
    assert pool.region == plan.target.zone
    assert pool.parent.endswith("/clusters/cloudgan")
    assert remove([pool]) == [f"GKE node pool {pool.name}"]
    assert not cloud.list_resources("gan")
    cluster = next(one for one in cloud.list_resources() if one.shared == "cluster")
    assert cluster.fee == "GKE standard"
    remove([cluster])
    assert google.left() == []


def test_provisioning_waits_for_resources_that_appear_late(google, make):
    google.server.hidden_ticks = 6
    make(gcp_plan())
    assert len(google.left()) == 2


def test_a_wrong_clock_is_harmless(google, make, remove, cloud):
    import datetime as dt

    google.server.skew = dt.timedelta(hours=-3)
    make(gcp_plan())
    remove(cloud.list_resources("gan"))
    assert google.left() == ["cluster cloudgan"]


def test_a_lost_response_creates_nothing_twice(google, make):
    for method in ("buckets.insert", "clusters.create", "nodePools.create"):
        google.server.lose_answer(f"{method}$")
    make(gcp_plan())
    assert sorted(google.left()) == sorted(
        ["cluster cloudgan", f"pool {gcp_plan().node_pool.name}"]
    )


def test_a_stock_out_is_reported_and_raised(google, make, said):
    google.engine.stock_out, google.engine.operation_ticks = True, 8
    with pytest.raises(CapacityError, match="resources available") as refused:
        make(gcp_plan())
    assert "\n" not in str(refused.value)
    assert any("RESOURCE_POOL_EXHAUSTED" in line for line in said)


def test_an_exceeded_quota_is_raised(google, make):
    google.server.refuse("nodePools.create", Refusal(403, QUOTA))
    with pytest.raises(CapacityError, match=r"NVIDIA_L4_GPUS.*larger quota"):
        make(gcp_plan(nodes=2))


NO_QUOTA_PROJECT = (
    "Your application is authenticating by using local Application Default Credentials. The"
    " container.googleapis.com API requires a quota project, which is not set by default. To learn how to"
    " set your quota project, see https://cloud.google.com/docs/authentication/adc-troubleshooting/user-creds ."
)


@pytest.mark.parametrize("reason", ["SERVICE_DISABLED", "accessNotConfigured", ""])
def test_a_login_without_a_quota_project_names_the_command_that_sets_it(google, cloud, reason):
    google.server.refuse("clusters.list", Refusal(403, NO_QUOTA_PROJECT, reason=reason))
    command = "gcloud auth application-default set-quota-project lab"
    with pytest.raises(CredentialsError, match=command) as refused:
        cloud.list_resources()
    assert refused.value.exit_code == 2
    assert "enable" not in str(refused.value)


@pytest.mark.parametrize(
    ("refusal", "kind", "said"),
    [
        (
            Refusal(
                403, 'Required "container.nodePools.create" permission(s) for "projects/quota-lab"'
            ),
            CredentialsError,
            "policy.yaml",
        ),
        (Refusal(401, "Invalid login of project quota-lab"), CredentialsError, "gcloud auth"),
        (Refusal(404, "Not found: projects/quota-lab/stockout"), LaunchError, "Not found"),
        (Refusal(500, "The quota service has an internal error"), LaunchError, "answered 500"),
        (Refusal(403, QUOTA), CapacityError, "larger quota"),
        (Refusal(429, QUOTA), CapacityError, "larger quota"),
        (Refusal(503, STOCK_OUT), CapacityError, "no capacity there"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_an_error_is_mapped_by_its_status_before_its_words(google, refusal, kind, said):
    google.server.refuse("clusters.list", refusal, times=10**6)
    with pytest.raises(kind, match=said) as refused:
        cloud_of(google, patience_seconds=0.05).resolve_placeholders(gcp_plan())
    assert isinstance(refused.value, CapacityError) == (kind is CapacityError)


@pytest.mark.parametrize("what", ["cluster", "pool"])
def test_a_failed_operation_is_raised(google, make, what):
    if what == "pool":
        make(gcp_plan(name="other"))
    google.engine.failure = "an internal error has occurred"
    with pytest.raises(LaunchError, match="an internal error has occurred"):
        make(gcp_plan())


def test_the_failure_of_a_vanished_resource_is_raised(google, make, cloud):
    make(gcp_plan(name="other"))
    google.engine.failure = STOCK_OUT
    step = cloud_steps(known(cloud, gcp_plan()))[-1]
    cloud.create(step)
    for kept in google.engine.clusters.values():
        del kept.pools[gcp_plan().node_pool.name]
    found = [cloud.find(step) for _ in range(4)]
    assert (found[-1].state, found[-1].cause) == ("failed", "capacity")


def test_provisioning_waits_for_a_busy_cluster(google, make):
    make(gcp_plan(name="other"))
    google.engine.become_busy(12)
    make(gcp_plan())
    assert len(google.engine.pools()) == 2


def test_a_refused_deletion_is_retried(google, make, remove, cloud, said):
    make(gcp_plan())
    google.engine.become_busy(12)
    remove(cloud.list_resources("gan"))
    assert google.left() == ["cluster cloudgan"]
    assert any("cannot be deleted yet" in line for line in said)


@pytest.mark.parametrize("code", [429, 500, 502, 503])
def test_transient_errors_are_retried(google, make, code):
    google.server.refuse("", Refusal(code, "try later"), times=3)
    make(gcp_plan())
    assert len(google.left()) == 2


def test_an_outage_is_listed_as_no_answer_after_the_retries(google):
    google.server.refuse("", Refusal(503, "The service is currently down."), times=10**6)
    found = cloud_of(google, patience_seconds=0.05).list_resources()
    assert not found
    assert {one.partition(" (")[0] for one in found.silent} == {
        "Cloud Storage",
        "Cloud TPU",
        "Compute Engine",
        "IAM",
        "Kubernetes Engine",
    }
    assert "Google answered 503" in found.silent[0]


@pytest.mark.parametrize(
    ("part", "service"),
    [("engine", "Kubernetes Engine"), ("tpus", "Cloud TPU"), ("compute", "Compute Engine")],
)
def test_a_zone_that_does_not_answer_is_named_and_the_others_are_listed(
    google, cloud, make, part, service
):
    plan = make(gcp_plan())
    google.compute.leave(
        "instances", "node", "europe-west4-a", labels={"cloudgan-run": "gan"}, **V100
    )
    getattr(google, part).silent_zones.add("us-central1-b")
    found = cloud.list_resources("gan", {"us-central1"})
    assert found.silent == (f"us-central1-b ({service})",)
    assert plan.node_pool.name in {one.name.rpartition("/")[2] for one in found}
    assert cloud.list_resources("gan", {"europe-west4"}).silent == ()
    assert cloud.list_resources().silent == found.silent


def test_machines_whose_pool_may_be_in_a_silent_zone_are_no_orphans(google, cloud, make):
    make(gcp_plan())
    google.compute.leave("instances", "node", **MINE, **V100)
    google.engine.silent_zones.add("us-central1-a")
    found = cloud.list_resources("gan")
    assert found == ()
    assert found.silent == ("us-central1-a (Kubernetes Engine)",)


def test_no_cluster_is_created_beside_one_that_may_be_in_a_silent_zone(google, cloud):
    google.engine.silent_zones.add("us-central1-f")
    with pytest.raises(
        LaunchError, match=r"does not answer for us-central1-f.*nothing was created"
    ):
        known(cloud, gcp_plan())


def test_a_pool_is_listed_if_the_size_of_its_group_is_unknown(google, make):
    make(gcp_plan(nodes=2))
    down = Refusal(503, "The service is currently down.")
    google.server.refuse("instanceGroupManagers.get", down, times=10**6)
    (pool,) = cloud_of(google, patience_seconds=0.05).list_resources("gan")
    assert pool.nodes == 2


def test_an_invalid_login_names_the_login_command(google):
    with pytest.raises(CredentialsError, match="gcloud auth application-default login"):
        cloud_of(google, token="expired").list_resources()  # noqa: S106


def test_a_missing_permission_is_named_with_the_policy_file(google):
    google.server.tokens["reader"] = frozenset()
    with pytest.raises(CredentialsError, match=r"container.clusters.list.*deploy/gcp/policy.yaml"):
        cloud_of(google, token="reader").list_resources()  # noqa: S106


def test_a_disabled_api_names_the_command_that_enables_it(google, cloud):
    off = Refusal(403, "Kubernetes Engine API has not been used", reason="SERVICE_DISABLED")
    google.server.refuse("clusters.list", off)
    with pytest.raises(CredentialsError, match=r"enable container.googleapis.com"):
        cloud.list_resources()


def test_a_bucket_of_another_project_is_refused(google, make):
    google.storage.add_bucket_of_another_project("cloudgan-lab-us-central1")
    with pytest.raises(ConfigError, match=r"another project.*--store="):
        make(gcp_plan())
    assert google.left() == []


def test_unmanaged_resources_are_neither_listed_nor_used(google, make, cloud):
    make(gcp_plan())
    pool = google.engine.pools()[0]
    pool["config"] = {"machineType": "g2-standard-4"}
    google.storage.buckets["cloudgan-notes"] = {
        "name": "cloudgan-notes",
        "projectNumber": "123456789",
    }
    google.identity.add_account("cloudgan-of-a-colleague")
    assert not cloud.list_resources("gan")
    names = {one.name for one in cloud.list_resources() if one.kind != "GKE cluster"}
    assert names == {
        "cloudgan-lab-us-central1",
        "cloudgan-nodes@lab.iam.gserviceaccount.com",
        "cloudgan-tpu@lab.iam.gserviceaccount.com",
        "cloudgan-trainer@lab.iam.gserviceaccount.com",
    }
    with pytest.raises(ConfigError, match="not managed by cloudgan"):
        make(gcp_plan())


def test_the_zone_offers_the_machines_and_prefers_an_existing_cluster(google, cloud, make):
    assert cloud.resolve_placeholders(gcp_plan())["<zone>"] == "us-central1-a"
    assert cloud.resolve_placeholders(gcp_plan("n1-standard-8+1xV100"))["<zone>"] == "us-central1-a"
    assert cloud.resolve_placeholders(gcp_plan())["<zones>"] == "us-central1-a us-central1-b"
    make(gcp_plan(zone="us-central1-b", name="first"))
    assert cloud.resolve_placeholders(gcp_plan())["<zone>"] == "us-central1-b"
    assert cloud.resolve_placeholders(gcp_plan())["<zones>"] == "us-central1-b us-central1-a"
    assert cloud.resolve_placeholders(gcp_plan("n1-standard-8+1xV100"))["<zone>"] == "us-central1-a"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"node_type": "a3-highgpu-8g"}, "--region can be: europe-west4"),
        ({"zone": "us-central1-f"}, "--zone can be: europe-west4-a, us-central1-a, us-central1-b"),
        (
            {"node_type": "a2-ultragpu-1g"},
            "no region has a2-ultragpu-1g for this project; pass another --accelerator",
        ),
    ],
    ids=str,
)
def test_a_region_without_the_machines_names_those_that_have_them(cloud, asked, why):
    with pytest.raises(PlanError, match=why):
        cloud.resolve_placeholders(gcp_plan(**asked))


def test_an_existing_cluster_is_found_in_any_zone_of_the_region(google, cloud, make):
    make(gcp_plan(name="first", cluster="mine", zone="us-central1-b"))
    found = known(cloud, gcp_plan(cluster="mine", zone="us-central1-a"))
    assert found.target.details[LOCATION] == "us-central1-b"
    assert found.steps[2].ref == {"project": "lab", "location": "us-central1-b", "cluster": "mine"}


def test_spot_requires_a_cluster_version_with_a_grace_period(google, cloud, make):
    google.engine.version = "1.33.1-gke.5"
    make(gcp_plan(name="first"))
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
def test_google_upgrades_no_node_of_a_run_in_any_cluster(google, cloud, make, channel, cluster):
    make(gcp_plan(name="first"))
    for kept in google.engine.clusters.values():
        kept.body.pop("releaseChannel")
        if channel:
            kept.body["releaseChannel"] = {"channel": channel}
    make(gcp_plan(cluster=cluster))
    pool = next(one for one in google.engine.pools() if one["name"].startswith("gan"))
    excluded = pool.get("maintenancePolicy", {}).get("exclusionUntilEndOfSupport", {})
    assert excluded.get("enabled") or pool["management"]["autoUpgrade"] is False


def test_an_autopilot_cluster_is_refused_by_check_and_before_any_creation(google, cloud, make):
    make(gcp_plan(name="first"))
    for kept in google.engine.clusters.values():
        kept.body["autopilot"] = {"enabled": True}
    before = google.left()
    plan = gcp_plan(cluster="cloudgan")
    with pytest.raises(PlanError, match=r"cloudgan is an Autopilot cluster.*pass --cluster"):
        make(plan)
    assert google.left() == before
    found = {one.subject: one for one in check_cloud(cloud, plan, None, dt.date(2026, 11, 25))}
    assert found["target"].status == "missing"
    assert "Autopilot" in found["target"].message


def test_a_cluster_without_workload_identity_is_refused_before_any_creation(google, cloud, make):
    make(gcp_plan(name="first"))
    for kept in google.engine.clusters.values():
        del kept.body["workloadIdentityConfig"]
    with pytest.raises(PlanError, match="no workload identity"):
        cloud.resolve_placeholders(gcp_plan())


def test_setup_is_idempotent_and_its_teardown_complete(google, remove, cloud):
    google.identity.accounts.clear()
    google.identity.apis_off = {"container.googleapis.com"}
    google.server.hidden_ticks = 5  # a new account takes a while to propagate
    maker = Engine(cloud, lambda _: None, POLL_SECONDS)
    plan = gcp_plan(project="lab")
    made = [maker.ensure(step, plan) for step in setup_steps(PLACE)]
    assert all(made)
    assert not any(maker.ensure(step, plan) for step in setup_steps(PLACE))
    assert not google.identity.apis_off
    assert len(google.identity.policies["project"]["bindings"]) == 4
    remove(one for one in cloud.list_resources() if (one.shared or "") in ("identity", "bucket"))
    assert not google.identity.accounts
    assert not google.storage.buckets
    assert not google.identity.policies["project"]["bindings"]


def test_setup_needs_no_identity_pool_and_pods_are_bound_once_the_cluster_exists(google, cloud):
    """GKE creates the pool with the first cluster, so a project of its own has none at `setup`."""
    maker = Engine(cloud, lambda _: None, POLL_SECONDS)
    plan = known(cloud, gcp_plan(project="lab"))
    steps = [one for one in plan.steps if one.at == "cloud"]
    (binding,) = (one for one in steps if "workloadIdentityUser" in one.ensure)
    with pytest.raises(LaunchError, match=r"Identity Pool does not exist \(lab.svc.id.goog\)"):
        cloud._api.send(binding.method, binding.path, pool_policy(google, binding))
    for step in setup_steps(PLACE):
        maker.ensure(step, plan)
    trainer = "cloudgan-trainer@lab.iam.gserviceaccount.com"
    assert google.identity.policies[trainer]["bindings"] == []
    for step in steps[: steps.index(binding) + 1]:
        maker.ensure(step, plan)
    (made,) = google.identity.policies[trainer]["bindings"]
    assert made["members"] == ["serviceAccount:lab.svc.id.goog[cloudgan/cloudgan]"]
    assert not maker.ensure(binding, plan), "once per project"


def pool_policy(google, binding):
    """The policy that a binding step sets, with the etag of the account's own."""
    policy = google.identity.policies["cloudgan-trainer@lab.iam.gserviceaccount.com"]
    return {"policy": policy | binding.body["policy"]}


def test_setup_adds_bindings_and_removes_none(google, cloud):
    theirs = {"role": "roles/owner", "members": ["user:marie@example.org"]}
    google.identity.policies["project"]["bindings"].append(theirs)
    maker = Engine(cloud, lambda _: None, POLL_SECONDS)
    for step in setup_steps(PLACE):
        maker.ensure(step, gcp_plan(project="lab"))
    assert theirs in google.identity.policies["project"]["bindings"]


def findings(cloud, plan):
    return {one.subject: one for one in cloud.check(plan)}


def test_check_reports_all_that_is_missing_and_creates_nothing(google, cloud):
    plan = known(cloud, gcp_plan(nodes=9))
    google.identity.apis_off = {"container.googleapis.com"}
    google.identity.lacking = {"container.clusters.create", "iam.serviceAccounts.actAs"}
    google.identity.accounts.pop("cloudgan-trainer@lab.iam.gserviceaccount.com")
    found = findings(cloud, plan)
    missing = {subject: one.message for subject, one in found.items() if one.status == "missing"}
    assert "gcloud services enable container.googleapis.com" in missing.pop("APIs")
    assert "container.clusters.create" in missing.pop("permissions")
    assert "actAs" in missing.pop("service account cloudgan-nodes")
    assert "cloudgan setup" in missing.pop("service account cloudgan-trainer")
    assert "9 needed" in missing.pop("quota NVIDIA_L4_GPUS in us-central1")
    assert set(missing) == {"quota GPUS_ALL_REGIONS in all regions together"}
    assert not [one for one in google.server.methods() if one.endswith(("create", "insert"))]


def test_check_of_a_complete_project_is_ok(cloud):
    found = cloud.check(known(cloud, gcp_plan(nodes=2)))
    assert {one.status for one in found} == {"ok"}


def test_spot_and_new_gpus_have_quotas_of_their_own(cloud):
    found = findings(cloud, known(cloud, gcp_plan("n1-standard-8+1xV100", market="spot")))
    assert found["quota PREEMPTIBLE_NVIDIA_V100_GPUS in us-central1"].status == "unknown"
    plan = known(cloud, gcp_plan("a3-highgpu-8g", region="europe-west4"))
    (subject,) = (one for one in findings(cloud, plan) if "FAMILY" in one)
    assert "gpu_family NVIDIA_H100" in subject
    spot = known(cloud, gcp_plan("a3-highgpu-8g", region="europe-west4", market="spot"))
    assert "quota PREEMPTIBLE_NVIDIA_H100_GPUS in europe-west4" in findings(cloud, spot)


MINE = {"labels": {"cloudgan-run": "gan", "cloudgan-owner": "physicist"}}
V100 = {
    "machineType": "https://www.googleapis.com/compute/v1/projects/lab/zones/z/machineTypes/n1-standard-8",
    "guestAccelerators": [
        {"acceleratorCount": 1, "acceleratorType": "projects/lab/zones/z/nvidia-tesla-v100"}
    ],
    "scheduling": {"provisioningModel": "SPOT"},
}


def test_orphaned_machines_and_disks_are_listed_and_deleted_in_order(google, cloud):
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
    gone = list(
        names_of_gone(
            Engine(cloud, lambda _: None, POLL_SECONDS).destroy(cloud.list_resources("gan"))
        )
    )
    assert [one.rpartition("/")[2] for one in gone] == ["node", "loose"]
    assert cloud.list_resources("gan") == ()
    assert len(google.compute.left["instances"]) == len(google.compute.left["disks"]) == 2


def test_a_stopped_machine_costs_its_disks_only(google, cloud):
    google.compute.leave("instances", "node", **MINE, **V100 | {"status": "TERMINATED"})
    (found,) = cloud.list_resources("gan")
    assert found.nodes == 0
    assert found.fee


def test_machines_of_an_existing_pool_are_not_orphans(google, cloud, make):
    make(gcp_plan())
    google.compute.leave("instances", "node", **MINE, **V100)
    google.compute.leave("disks", "new", **MINE)
    assert [one.kind for one in cloud.list_resources("gan")] == ["GKE node pool"]


def test_without_permission_for_machines_the_pools_are_listed_with_a_warning(google, cloud, make):
    make(gcp_plan())
    google.compute.leave("instances", "node", labels={"cloudgan-run": "other"}, **V100)
    refused = Refusal(403, "not you", reason="IAM_PERMISSION_DENIED")
    google.server.refuse("compute.instances.aggregatedList", refused)
    assert [one.kind for one in cloud.list_resources() if one.run] == ["GKE node pool"]
