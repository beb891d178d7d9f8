"""One project of Google Cloud, by google-auth over HTTP, against Google's own contract."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import (
    CapacityError,
    ConfigError,
    CredentialsError,
    LaunchError,
    PlanError,
)
from cloudgan.core.plan import Place
from cloudgan.launching.making import Maker
from cloudgan.launching.removing import Remover
from cloudgan.providers.gcp.ground import LOCATION
from cloudgan.providers.gcp.requests import setup_steps
from google_cloud.kubernetes_engine import STOCK_OUT
from google_cloud.refusal import Refusal
from providers.gcp.lab import POLL_SECONDS, cloud_of, cloud_steps, gcp_plan, known

PLACE = Place(provider="gcp", account="lab", region="us-central1", zone="us-central1-a")
QUOTA = (
    'Insufficient regional quota to satisfy request: resource "NVIDIA_L4_GPUS": request requires'
    " '2.0' and is short '1.0'."
)


@pytest.fixture
def said():
    return []


@pytest.fixture
def make(cloud, said):
    """Makes all cloud steps of a plan, as launching does; returns the plan with its values."""

    def run(plan, maker_of=Maker):
        found = known(cloud, plan)
        maker = maker_of(cloud, said.append, POLL_SECONDS)
        for step in cloud_steps(found):
            maker.ensure(step, found)
        return found

    return run


@pytest.fixture
def remove(cloud, said):
    def run(things):
        return list(Remover(cloud, said.append, POLL_SECONDS, most_seconds=10).remove(things))

    return run


def test_what_a_plan_wants_is_made_once_listed_and_removed(cloud, google, make, remove):
    plan = make(gcp_plan(nodes=2))
    before = len(google.server.methods())
    make(gcp_plan(nodes=2))
    again = google.server.methods()[before:]
    assert not [one for one in again if one.endswith(("create", "insert"))]
    assert {thing.kind for thing in cloud.things()} == {
        "GKE cluster",
        "GKE node pool",
        "bucket",
        "service account",
    }
    (pool,) = cloud.things("gan")
    assert (pool.node_type, pool.nodes, pool.market) == ("g2-standard-4", 2, "on_demand")
    assert pool.region == plan.place.zone
    assert pool.parent.endswith("/clusters/cloudgan")
    assert remove([pool]) == [f"GKE node pool {pool.name}"]
    assert not cloud.things("gan")
    cluster = next(thing for thing in cloud.things() if thing.shared == "cluster")
    assert cluster.fee == "GKE standard"
    remove([cluster])
    assert google.left() == []


def test_things_that_are_shown_late_are_waited_for(google, make):
    google.server.hidden_ticks = 6
    make(gcp_plan())
    assert len(google.left()) == 2


def test_a_clock_that_is_wrong_harms_nothing(google, make, remove, cloud):
    import datetime as dt

    google.server.skew = dt.timedelta(hours=-3)
    make(gcp_plan())
    remove(cloud.things("gan"))
    assert google.left() == ["cluster cloudgan"]


def test_a_lost_answer_makes_nothing_twice(google, make):
    for method in ("buckets.insert", "clusters.create", "nodePools.create"):
        google.server.lose_answer(f"{method}$")
    make(gcp_plan())
    assert sorted(google.left()) == sorted(["cluster cloudgan", f"pool {gcp_plan().rental.pool}"])


def test_a_stock_out_is_told_while_it_lasts_and_ends_as_one_sentence(google, make, said):
    google.engine.stock_out, google.engine.operation_ticks = True, 8
    with pytest.raises(CapacityError, match="resources available") as refused:
        make(gcp_plan())
    assert "\n" not in str(refused.value)
    assert any("RESOURCE_POOL_EXHAUSTED" in line for line in said)


def test_a_quota_is_one_sentence_too(google, make):
    google.server.refuse("nodePools.create", Refusal(403, QUOTA))
    with pytest.raises(CapacityError, match=r"NVIDIA_L4_GPUS.*larger quota"):
        make(gcp_plan(nodes=2))


@pytest.mark.parametrize("what", ["cluster", "pool"])
def test_an_operation_that_fails_in_its_middle_is_told(google, make, what):
    if what == "pool":
        make(gcp_plan(name="other"))
    google.engine.failure = "an internal error has occurred"
    with pytest.raises(LaunchError, match="an internal error has occurred"):
        make(gcp_plan())


def test_what_failed_and_vanished_is_told_all_the_same(google, make, cloud):
    make(gcp_plan(name="other"))
    google.engine.failure = STOCK_OUT
    step = cloud_steps(known(cloud, gcp_plan()))[-1]
    cloud.create(step)
    for kept in google.engine.clusters.values():
        del kept.pools[gcp_plan().rental.pool]
    found = [cloud.find(step) for _ in range(4)]
    assert (found[-1].state, found[-1].cause) == ("failed", "capacity")


def test_a_cluster_that_is_busy_is_waited_for(google, make):
    make(gcp_plan(name="other"))
    google.engine.become_busy(12)
    make(gcp_plan())
    assert len(google.engine.pools()) == 2


def test_a_deletion_that_is_refused_for_a_while_is_asked_again(google, make, remove, cloud, said):
    make(gcp_plan())
    google.engine.become_busy(12)
    remove(cloud.things("gan"))
    assert google.left() == ["cluster cloudgan"]
    assert any("cannot go yet" in line for line in said)


@pytest.mark.parametrize("code", [429, 500, 502, 503])
def test_what_passes_is_asked_again(google, make, code):
    google.server.refuse("", Refusal(code, "try later"), times=3)
    make(gcp_plan())
    assert len(google.left()) == 2


def test_google_staying_away_is_an_error_in_the_end(google):
    google.server.refuse("", Refusal(503, "The service is currently down."), times=10**6)
    with pytest.raises(LaunchError, match="Google answered 503"):
        cloud_of(google, patience_seconds=0.05).things()


def test_a_login_that_is_not_accepted_says_how_to_log_in(google):
    with pytest.raises(CredentialsError, match="gcloud auth application-default login"):
        cloud_of(google, token="expired").things()  # noqa: S106


def test_a_missing_right_is_named_with_where_all_of_them_stand(google):
    google.server.tokens["reader"] = frozenset()
    with pytest.raises(CredentialsError, match=r"container.clusters.list.*deploy/gcp/policy.yaml"):
        cloud_of(google, token="reader").things()  # noqa: S106


def test_an_api_that_is_off_says_how_to_switch_it_on(google, cloud):
    off = Refusal(403, "Kubernetes Engine API has not been used", reason="SERVICE_DISABLED")
    google.server.refuse("clusters.list", off)
    with pytest.raises(CredentialsError, match=r"enable container.googleapis.com"):
        cloud.things()


def test_a_bucket_of_somebody_else_is_never_written_to(google, make):
    google.storage.add_stranger("cloudgan-lab-us-central1")
    with pytest.raises(ConfigError, match=r"another project.*--store="):
        make(gcp_plan())
    assert google.left() == []


def test_what_is_not_ours_is_neither_listed_nor_used(google, make, cloud):
    make(gcp_plan())
    pool = google.engine.pools()[0]
    pool["config"] = {"machineType": "g2-standard-4"}
    google.storage.buckets["cloudgan-notes"] = {
        "name": "cloudgan-notes",
        "projectNumber": "123456789",
    }
    google.identity.add_account("cloudgan-of-a-colleague")
    assert not cloud.things("gan")
    names = {thing.name for thing in cloud.things() if thing.kind != "GKE cluster"}
    assert names == {
        "cloudgan-lab-us-central1",
        "cloudgan-nodes@lab.iam.gserviceaccount.com",
        "cloudgan-tpu@lab.iam.gserviceaccount.com",
        "cloudgan-trainer@lab.iam.gserviceaccount.com",
    }
    with pytest.raises(ConfigError, match="no run's of cloudgan"):
        make(gcp_plan())


def test_the_zone_is_one_that_has_the_machines_and_a_cluster_of_ours_if_any(google, cloud, make):
    assert cloud.known(gcp_plan())["<zone>"] == "us-central1-a"
    assert cloud.known(gcp_plan("n1-standard-8+1xV100"))["<zone>"] == "us-central1-a"
    make(gcp_plan(zone="us-central1-b", name="first"))
    assert cloud.known(gcp_plan())["<zone>"] == "us-central1-b"
    assert cloud.known(gcp_plan("n1-standard-8+1xV100"))["<zone>"] == "us-central1-a"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"node_type": "a3-highgpu-8g"}, "--region can be: europe-west4"),
        ({"zone": "us-central1-f"}, "--zone can be: europe-west4-a, us-central1-a, us-central1-b"),
        ({"node_type": "a2-ultragpu-1g"}, "none, for this project"),
    ],
    ids=str,
)
def test_a_place_without_the_machines_says_which_have_them(cloud, asked, why):
    with pytest.raises(PlanError, match=why):
        cloud.known(gcp_plan(**asked))


def test_a_cluster_of_ones_own_is_found_where_it_is(google, cloud, make):
    make(gcp_plan(name="first", cluster="mine", zone="us-central1-b"))
    found = known(cloud, gcp_plan(cluster="mine", zone="us-central1-a"))
    assert found.place.details[LOCATION] == "us-central1-b"
    assert "/locations/us-central1-b/clusters/mine" in found.steps[2].find


def test_spot_needs_a_cluster_whose_nodes_give_time_to_save(google, cloud, make):
    google.engine.version = "1.33.1-gke.5"
    make(gcp_plan(name="first"))
    with pytest.raises(PlanError, match=r"upgrade it to 1\.35"):
        cloud.known(gcp_plan(market="spot"))
    assert cloud.known(gcp_plan())["<zone>"] == "us-central1-a"


def test_a_cluster_without_workload_identity_is_refused_before_anything_is_made(
    google, cloud, make
):
    make(gcp_plan(name="first"))
    for kept in google.engine.clusters.values():
        del kept.body["workloadIdentityConfig"]
    with pytest.raises(PlanError, match="no workload identity"):
        cloud.known(gcp_plan())


def test_setup_prepares_a_project_twice_without_harm_and_goes_without_a_trace(
    google, remove, cloud
):
    google.identity.accounts.clear()
    google.identity.apis_off = {"container.googleapis.com"}
    google.server.hidden_ticks = 5  # an account that was just made is not known everywhere
    maker = Maker(cloud, lambda _: None, POLL_SECONDS)
    plan = gcp_plan(project="lab")
    made = [maker.ensure(step, plan) for step in setup_steps(PLACE)]
    assert all(made)
    assert not any(maker.ensure(step, plan) for step in setup_steps(PLACE))
    assert not google.identity.apis_off
    assert len(google.identity.policies["project"]["bindings"]) == 4
    remove(thing for thing in cloud.things() if (thing.shared or "") in ("identity", "bucket"))
    assert not google.identity.accounts
    assert not google.storage.buckets
    assert not google.identity.policies["project"]["bindings"]


def test_setup_adds_to_what_a_project_allows_and_takes_nothing_away(google, cloud):
    theirs = {"role": "roles/owner", "members": ["user:marie@example.org"]}
    google.identity.policies["project"]["bindings"].append(theirs)
    maker = Maker(cloud, lambda _: None, POLL_SECONDS)
    for step in setup_steps(PLACE):
        maker.ensure(step, gcp_plan(project="lab"))
    assert theirs in google.identity.policies["project"]["bindings"]


def findings(cloud, plan):
    return {one.subject: one for one in cloud.check(plan)}


def test_check_says_all_that_is_missing_and_makes_nothing(google, cloud):
    google.identity.apis_off = {"container.googleapis.com"}
    google.identity.lacking = {"container.clusters.create", "iam.serviceAccounts.actAs"}
    google.identity.accounts.pop("cloudgan-trainer@lab.iam.gserviceaccount.com")
    found = findings(cloud, known(cloud, gcp_plan(nodes=9)))
    missing = {subject: one.says for subject, one in found.items() if one.verdict == "missing"}
    assert "gcloud services enable container.googleapis.com" in missing.pop("APIs")
    assert "container.clusters.create" in missing.pop("rights")
    assert "actAs" in missing.pop("service account cloudgan-nodes")
    assert "cloudgan setup" in missing.pop("service account cloudgan-trainer")
    assert "9 needed" in missing.pop("quota NVIDIA_L4_GPUS in us-central1")
    assert set(missing) == {"quota GPUS_ALL_REGIONS in all regions together"}
    assert not [one for one in google.server.methods() if one.endswith(("create", "insert"))]


def test_check_finds_nothing_missing_where_nothing_is(cloud):
    found = cloud.check(known(cloud, gcp_plan(nodes=2)))
    assert {one.verdict for one in found} == {"ok"}


def test_quota_of_spot_and_of_new_gpus_is_asked_by_its_own_name(cloud):
    found = findings(cloud, known(cloud, gcp_plan("n1-standard-8+1xV100", market="spot")))
    assert found["quota PREEMPTIBLE_NVIDIA_V100_GPUS in us-central1"].verdict == "unknown"
    plan = known(cloud, gcp_plan("a3-highgpu-8g", region="europe-west4"))
    (subject,) = (one for one in findings(cloud, plan) if "FAMILY" in one)
    assert "gpu_family NVIDIA_H100" in subject
    spot = known(cloud, gcp_plan("a3-highgpu-8g", region="europe-west4", market="spot"))
    assert "quota PREEMPTIBLE_NVIDIA_H100_GPUS in europe-west4" in findings(cloud, spot)


def test_the_images_that_cloudgan_built_are_listed_with_a_fee_and_go_when_asked(google, cloud):
    name = google.registry.add("cloudgan", {"cloudgan-shared": "registry"}, "europe-west4")
    other = google.registry.add("theirs", {})
    (found,) = (one for one in cloud.things() if one.kind == "image repository")
    assert (found.name, found.region, found.shared) == (name, "europe-west4", "registry")
    assert found.fee
    assert not found.is_free
    assert not [one for one in cloud.things("gan") if one.kind == "image repository"]
    cloud.delete(found)
    cloud.delete(found)
    assert cloud.look(found) is None
    assert list(google.registry.repositories) == [other]


@pytest.mark.parametrize("reason", ["SERVICE_DISABLED", "IAM_PERMISSION_DENIED"])
def test_who_may_not_look_at_images_sees_the_rest(google, cloud, reason):
    listing = "artifactregistry.projects.locations.repositories.list"
    google.server.refuse(listing, Refusal(403, "not you", reason=reason))
    assert {one.kind for one in cloud.things()} == {"service account"}


MINE = {"labels": {"cloudgan-run": "gan", "cloudgan-owner": "physicist"}}
V100 = {
    "machineType": "https://www.googleapis.com/compute/v1/projects/lab/zones/z/machineTypes/n1-standard-8",
    "guestAccelerators": [
        {"acceleratorCount": 1, "acceleratorType": "projects/lab/zones/z/nvidia-tesla-v100"}
    ],
    "scheduling": {"provisioningModel": "SPOT"},
}


def test_machines_and_disks_whose_pool_is_gone_are_listed_and_go_in_this_order(google, cloud):
    google.compute.leave("disks", "loose", **MINE, type="zones/z/diskTypes/pd-balanced")
    google.compute.leave("disks", "used", **MINE, users=["somebody"])
    google.compute.leave("disks", "theirs", labels={"team": "x"})
    google.compute.leave("instances", "node", "europe-west4-a", **MINE, **V100)
    google.compute.leave("instances", "theirs", **V100)
    google.compute.leave("instances", "other", labels={"cloudgan-run": "other"}, **V100)
    assert {one.name.rpartition("/")[2] for one in cloud.things() if one.run} == {
        "loose",
        "node",
        "other",
    }
    node, disk = cloud.things("gan")
    assert (node.node_type, node.nodes, node.market) == ("n1-standard-8+1xV100", 1, "spot")
    assert (node.region, disk.region) == ("europe-west4-a", "us-central1-a")
    assert disk.fee == "pd-balanced", "without a price by the hour its cost is unknown"
    gone = list(Remover(cloud, lambda _: None, POLL_SECONDS).remove(cloud.things("gan")))
    assert [one.rpartition("/")[2] for one in gone] == ["node", "loose"]
    assert cloud.things("gan") == ()
    assert len(google.compute.left["instances"]) == len(google.compute.left["disks"]) == 2


def test_a_machine_that_is_off_costs_its_disks_and_no_machine(google, cloud):
    google.compute.leave("instances", "node", **MINE, **V100 | {"status": "TERMINATED"})
    (found,) = cloud.things("gan")
    assert found.nodes == 0
    assert found.fee


def test_machines_of_a_pool_that_is_there_are_the_pools(google, cloud, make):
    make(gcp_plan())
    google.compute.leave("instances", "node", **MINE, **V100)
    google.compute.leave("disks", "new", **MINE)
    assert [one.kind for one in cloud.things("gan")] == ["GKE node pool"]


def test_who_may_not_list_machines_sees_the_pools_and_is_told(google, cloud, make):
    make(gcp_plan())
    google.compute.leave("instances", "node", labels={"cloudgan-run": "other"}, **V100)
    refused = Refusal(403, "not you", reason="IAM_PERMISSION_DENIED")
    google.server.refuse("compute.instances.aggregatedList", refused)
    assert [one.kind for one in cloud.things() if one.run] == ["GKE node pool"]
