"""What a run consists of on a cluster."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudgan.kubernetes.manifests import (
    PLAN_PLACEHOLDER,
    job,
    manifests,
    namespace,
    store_in_pod,
    trainer,
)

OWN_IMAGE = {"workers": {"image": "registry.example/gan@sha256:" + "0" * 64}, "wheels": ()}


def pod_of(plan, **asked):
    return job(plan, **asked)["spec"]["template"]["spec"]


def env_of(container):
    return {one["name"]: one["value"] for one in container["env"]}


@pytest.mark.parametrize("nodes", [1, 4, 100])
def test_each_node_has_one_worker_that_knows_how_many_there_are(plan_of, nodes):
    body = job(plan_of(workers={"nodes": nodes}))
    assert body["spec"]["completionMode"] == "Indexed"
    assert body["spec"]["completions"] == body["spec"]["parallelism"] == nodes
    known = env_of(trainer(body))
    assert known["CLOUDGAN_WORLD"] == str(nodes)
    assert known["CLOUDGAN_RUN"] == "gan"
    assert known["CLOUDGAN_PEERS"] == "gan-{index}.gan:2222"


def test_a_pod_is_found_by_the_name_of_its_service(plan_of):
    _, policy, service, body = manifests(plan_of(name="my-run"))
    assert body["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"] == "my-run"
    assert service["spec"]["clusterIP"] == "None"
    own = {"cloudgan-run": "my-run"}
    assert service["spec"]["selector"] == own
    assert policy["spec"]["podSelector"]["matchLabels"] == own
    (term,) = body["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"].popitem()[1]
    assert term["podAffinityTerm"]["labelSelector"]["matchLabels"] == own
    pod = body["spec"]["template"]["metadata"]["labels"]
    assert own.items() <= pod.items(), "the pods carry what is selected by"


def test_everything_of_a_run_carries_its_labels_and_the_namespace_none(plan_of):
    plan = plan_of(place={"namespace": "physics"})
    for body in manifests(plan):
        assert body["metadata"]["name"] == "gan"
        assert body["metadata"]["namespace"] == "physics"
        assert plan.labels().as_dict().items() <= body["metadata"]["labels"].items()
    template = job(plan)["spec"]["template"]["metadata"]["labels"]
    assert plan.labels().as_dict().items() <= template.items()
    shared = namespace(plan)
    assert shared["metadata"]["name"] == "physics"
    assert not plan.labels().as_dict().keys() & shared["metadata"]["labels"].keys()


def test_the_intent_is_made_first_and_the_job_last(plan_of):
    kinds = [body["kind"] for body in manifests(plan_of())]
    assert kinds[0] == "ConfigMap"
    assert kinds[-1] == "Job"
    assert sorted(kinds) == ["ConfigMap", "Job", "NetworkPolicy", "Service"]


def test_the_pods_read_the_run_yaml_of_the_plan(plan_of):
    plan = plan_of(training={"epochs": 7, "seed": 3})
    data = manifests(plan)[0]["data"]
    assert yaml.safe_load(data["run.yaml"]) == plan.config.model_dump(mode="json")
    assert data["plan.json"] == PLAN_PLACEHOLDER


def test_wheels_are_named_with_their_hashes_and_the_program_that_fetches_them(plan_of):
    plan = plan_of()
    data = manifests(plan)[0]["data"]
    lines = [line.split() for line in data["wheels.txt"].splitlines()]
    assert lines == [[w.file_name, w.sha256, str(w.bytes)] for w in plan.wheels]
    compile(data["fetch_wheels.py"], "fetch_wheels.py", "exec")
    assert [one["name"] for one in pod_of(plan)["initContainers"]] == ["wheels"]


def test_an_image_of_ones_own_installs_nothing(plan_of):
    plan = plan_of(**OWN_IMAGE)
    pod, data = pod_of(plan), manifests(plan)[0]["data"]
    assert "initContainers" not in pod
    assert set(data) == {"run.yaml", "plan.json"}
    assert "site" not in {one["name"] for one in pod["volumes"]}
    (container,) = pod["containers"]
    assert container["image"] == plan.workers.image
    assert "PYTHONPATH" not in env_of(container)
    assert "/cloudgan/site" not in json.dumps(pod)


def test_a_claim_is_mounted_where_the_worker_looks_for_its_store(plan_of):
    plan = plan_of(store="pvc:results", **OWN_IMAGE)
    pod = pod_of(plan)
    (container,) = pod["containers"]
    assert env_of(container)["CLOUDGAN_STORE"] == store_in_pod(plan.store) == "/cloudgan/store"
    places = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert places["store"] == "/cloudgan/store"
    claims = [one.get("persistentVolumeClaim") for one in pod["volumes"]]
    assert {"claimName": "results"} in claims


def test_a_bucket_is_named_and_nothing_mounted(plan_of):
    pod = pod_of(plan_of(store="s3://lab/runs"))
    for container in (*pod["initContainers"], *pod["containers"]):
        assert env_of(container)["CLOUDGAN_STORE"] == "s3://lab/runs"
    assert "store" not in {one["name"] for one in pod["volumes"]}


def test_accelerators_are_asked_for_and_their_taint_is_tolerated(plan_of):
    plan = plan_of(workers={"accelerator": "V100", "accelerators_per_node": 8})
    pod = pod_of(plan)
    assert trainer(job(plan))["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert pod["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    ]
    assert "nvidia.com/gpu" not in pod["initContainers"][0]["resources"]["limits"]
    assert "tolerations" not in pod_of(plan_of())


def test_a_queue_starts_the_job_when_it_has_room(plan_of):
    body = job(plan_of(place={"queue": "physics"}))
    assert body["spec"]["suspend"] is True
    assert body["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "physics"
    assert "suspend" not in job(plan_of())["spec"]


def test_a_gang_is_all_workers(plan_of):
    plan = plan_of(workers={"nodes": 3})
    wanted = job(plan, gang=True)["spec"]["scheduling"]["schedulingPolicy"]
    assert wanted == {"gang": {"minCount": 3}}
    assert "scheduling" not in job(plan)["spec"]


def test_secrets_are_named_for_every_container_and_never_held(plan_of):
    pod = pod_of(plan_of(workers={"secrets": ("s3-login", "other")}))
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["envFrom"] == [
            {"secretRef": {"name": "s3-login"}},
            {"secretRef": {"name": "other"}},
        ]
    assert "envFrom" not in trainer(job(plan_of()))


def test_nodes_service_account_and_grace_are_as_asked(plan_of):
    plan = plan_of(
        workers={"node_selector": {"pool": "gpu"}, "grace_seconds": 25},
        place={"service_account": "gan-store"},
    )
    pod = pod_of(plan)
    assert pod["nodeSelector"] == {"pool": "gpu"}
    assert pod["serviceAccountName"] == "gan-store"
    assert pod["terminationGracePeriodSeconds"] == 25
    assert pod["automountServiceAccountToken"] is False
    assert {"nodeSelector", "serviceAccountName"}.isdisjoint(pod_of(plan_of()))


def test_the_deadline_ends_the_job_on_the_side_of_the_cluster(plan_of):
    assert job(plan_of(max_hours=1.5))["spec"]["activeDeadlineSeconds"] == 5400


def test_a_store_on_another_port_can_be_reached_and_nothing_else_is_opened(plan_of):
    usual = manifests(plan_of(store="s3://lab"))[1]["spec"]["egress"]
    other = manifests(plan_of(store="s3://lab", store_port=9000))[1]["spec"]["egress"]
    assert other == [*usual, {"ports": [{"protocol": "TCP", "port": 9000}]}]


def test_every_container_is_kept_small_by_its_rights(plan_of):
    for plan in (plan_of(), plan_of(**OWN_IMAGE)):
        pod = pod_of(plan)
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            rights = container["securityContext"]
            assert rights["allowPrivilegeEscalation"] is False
            assert rights["readOnlyRootFilesystem"] is True
            assert rights["capabilities"] == {"drop": ["ALL"]}


@settings(deadline=None)
@given(
    st.floats(1e-4, 1e5, allow_nan=False),
    st.floats(1e-4, 1e5, allow_nan=False),
    st.integers(0, 16),
)
def test_a_pods_limits_are_its_requests_and_above_nothing(plan_of, cpus, memory_gib, gpus):
    workers = {"cpus": cpus, "memory_gib": memory_gib, "accelerators_per_node": gpus}
    found = trainer(job(plan_of(workers=workers)))["resources"]
    assert found["limits"] == found["requests"]
    assert found["limits"] is not found["requests"], "YAML would write an alias"
    text = found["limits"]["cpu"]
    cores = float(text.removesuffix("m")) / (1000 if text.endswith("m") else 1)
    assert cores == pytest.approx(cpus, rel=1e-3, abs=1e-3)
    assert cores > 0
    mebibytes = int(found["limits"]["memory"].removesuffix("Mi"))
    assert mebibytes >= 1
    assert mebibytes == pytest.approx(memory_gib * 1024, abs=1)


@pytest.mark.parametrize("gang", [False, True])
def test_manifests_are_values_that_do_not_share_parts(plan_of, gang):
    plan = plan_of(place={"queue": "q"}, store="pvc:results", **OWN_IMAGE)
    bodies = manifests(plan, gang=gang)
    assert "&id" not in yaml.safe_dump_all(bodies), "an alias: one change would be two"
    assert bodies == manifests(plan, gang=gang)
