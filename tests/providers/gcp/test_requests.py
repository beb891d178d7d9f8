"""From what is wanted to what Google is asked for, without asking it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cloudgan.core.errors import ConfigError, PlanError
from cloudgan.core.labels import EXPIRES, OWNER, RUN, SPEC
from cloudgan.providers.gcp.ground import LOCATION
from cloudgan.providers.gcp.machines import GPUS
from cloudgan.providers.gcp.requests import place
from providers.gcp.lab import cloud_steps, gcp_plan

PLACEHOLDERS = {"<project>", "<zone>"}


def pool_of(plan):
    return cloud_steps(plan)[-1].body["nodePool"]


def test_no_sdk_is_needed_to_plan():
    code = (
        "import sys, cloudgan.providers.gcp.requests;"
        "print({'google', 'kubernetes', 'requests'} & {n.partition('.')[0] for n in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_bucket_and_intent_come_before_anything_that_bills_and_the_nodes_are_waited_for():
    plan = gcp_plan(nodes=2)
    kinds = [step.ensure.partition(" ")[0] for step in plan.steps[:5]]
    assert kinds == ["bucket", "intent", "cluster", "pool", "2"]
    assert [step.at for step in plan.steps[:5]] == ["cloud", "store", "cloud", "cloud", "cluster"]
    assert plan.steps[1].path == f"{plan.store}/runs/gan/intent/"


def test_a_store_of_ones_own_is_not_made():
    plan = gcp_plan(store="gs://lab-data/gan")
    assert plan.steps[0].ensure == "intent of run gan"


def test_a_run_owns_its_pool_by_labels_that_are_in_the_request_itself():
    plan = gcp_plan()
    config = pool_of(plan)["config"]
    assert set(config["resourceLabels"]) == {RUN, OWNER, EXPIRES, SPEC}
    assert config["labels"][RUN] == "gan"
    assert len(pool_of(plan)["name"]) <= 40
    assert len(pool_of(gcp_plan(name="n" * 48))["name"]) <= 40


def test_nobody_elses_pods_come_to_the_nodes_and_the_workers_do():
    plan = gcp_plan()
    (taint,) = pool_of(plan)["config"]["taints"]
    assert (taint["key"], taint["value"]) == (RUN, "gan")
    pod = plan.steps[-1].body["spec"]["template"]["spec"]
    assert RUN in {one["key"] for one in pod["tolerations"]}
    assert pod["nodeSelector"] == {RUN: "gan"}


def test_two_switches_end_the_nodes_when_nobody_is_there_to_do_it():
    plan = gcp_plan(nodes=3, max_hours=2)
    pool = pool_of(plan)
    assert pool["initialNodeCount"] == 3
    assert pool["autoscaling"] == {"enabled": True, "minNodeCount": 0, "maxNodeCount": 3}
    life = int(pool["config"]["maxRunDuration"].removesuffix("s"))
    assert 2 * 3600 + plan.limits.gang_timeout_seconds < life < 3 * 3600


@pytest.mark.parametrize("gpu", ["P100", "V100", "T4"])
def test_old_gpus_get_the_driver_of_the_node_image(gpu):
    (one,) = pool_of(gcp_plan(f"n1-standard-8+1x{gpu}"))["config"]["accelerators"]
    assert one["acceleratorType"] == GPUS[gpu].name
    assert one["gpuDriverInstallationConfig"] == {"gpuDriverVersion": "DEFAULT"}


def test_spot_nodes_have_the_longer_grace_and_the_workers_know_it():
    plan = gcp_plan(market="spot")
    config = pool_of(plan)["config"]
    assert config["spot"]
    grace = config["kubeletConfig"]
    left = grace["shutdownGracePeriodSeconds"] - grace["shutdownGracePeriodCriticalPodsSeconds"]
    assert plan.workers.grace_seconds == left
    assert "kubeletConfig" not in pool_of(gcp_plan())["config"]


def test_a_tpu_is_asked_for_by_type_and_topology_of_its_node_never_of_its_pool():
    plan = gcp_plan("v6e-4")
    pool, worker = pool_of(plan), plan.workers
    assert "placementPolicy" not in pool
    assert "accelerators" not in pool["config"]
    assert worker.node_selector == {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
        "cloud.google.com/gke-tpu-topology": "2x2",
    }
    trainer = plan.steps[-1].body["spec"]["template"]["spec"]["containers"][0]
    assert trainer["resources"]["limits"]["google.com/tpu"] == "4"


def test_flex_start_nodes_come_when_pods_wait_for_them():
    plan = gcp_plan("a3-highgpu-1g", flex_start=True, max_hours=10, nodes=2)
    pool = pool_of(plan)
    assert pool["initialNodeCount"] == 0
    assert pool["autoscaling"]["maxNodeCount"] == 2
    assert pool["config"]["flexStart"]
    assert not [step for step in plan.steps if step.method == "WAIT"]


def test_pods_are_the_trainers_account_and_machines_another():
    plan = gcp_plan()
    account = next(step for step in plan.steps if step.ensure.startswith("ServiceAccount"))
    (who,) = account.body["metadata"]["annotations"].values()
    assert who == "cloudgan-trainer@<project>.iam.gserviceaccount.com"
    assert pool_of(plan)["config"]["serviceAccount"].startswith("cloudgan-nodes@")
    assert pool_of(plan)["config"]["workloadMetadataConfig"] == {"mode": "GKE_METADATA"}


def test_the_cluster_is_small_shared_and_has_the_projects_identity_pool():
    cluster = cloud_steps(gcp_plan(project="lab"))[1].body["cluster"]
    assert cluster["resourceLabels"] == {"cloudgan-shared": "cluster"}
    assert cluster["workloadIdentityConfig"] == {"workloadPool": "lab.svc.id.goog"}
    assert cluster["costManagementConfig"] == {"enabled": True}


def test_a_cluster_that_was_named_may_be_anywhere_in_the_region():
    assert place(None, "us-central1", None, "mine").details == {LOCATION: "<cluster-location>"}
    assert place(None, "us-central1", None, None).details == {LOCATION: "<zone>"}
    assert place(None, "us-central1", "us-central1-b", None).details == {LOCATION: "us-central1-b"}


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"node_type": "a4-highgpu-8g", "own_image": False}, "Blackwell"),
        ({"node_type": "v6e-8", "nodes": 2}, "one TPU slice"),
        ({"node_type": "a3-highgpu-1g"}, "spot or flex-start only"),
        ({"market": "spot", "flex_start": True}, "never spot"),
        ({"flex_start": True, "max_hours": 200}, "end after 7 days"),
        ({"node_type": "v6e-16"}, "several hosts"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_in_one_sentence_that_says_what_can(asked, why):
    with pytest.raises(PlanError, match=why) as refused:
        gcp_plan(**asked)
    assert "\n" not in str(refused.value)


def test_a_blackwell_gpu_is_taken_with_an_image_for_it():
    assert gcp_plan("a4-highgpu-8g").workers.accelerators_per_node == 8


def test_a_zone_of_another_region_is_refused():
    with pytest.raises(ConfigError, match="--region=europe-west4"):
        place(None, "us-central1", "europe-west4-a", None)


def test_what_only_google_knows_has_placeholders_and_nothing_else_has():
    text = gcp_plan().model_dump_json()
    found = {part.partition(">")[0] for part in text.split("<")[1:]}
    assert {f"<{one}>" for one in found} - {"<this plan>"} <= PLACEHOLDERS
