"""Kubernetes manifests of a run: the files of k8s/, merged with overlays and completed from the plan."""

from __future__ import annotations

import base64
import copy
import functools
import math
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import yaml

from cloudgan.core import assets, clouds
from cloudgan.core.documents import parse_package_yaml
from cloudgan.core.labels import RUN
from cloudgan.core.run_secret import SECRET_NAMES, new_secret, secret_key, secret_value
from cloudgan.launch.kubernetes.extensions import (
    asks_agent,
    capacity_request,
    cilium_policy,
    metadata_rules,
    queue_labels,
    request_annotations,
)
from cloudgan.schema.plan import Plan, Step, Wheel

CLAIM = "pvc:"
"""Prefix of a --store that is a PersistentVolumeClaim."""
CLAIM_FOLDER = "/cloudgan/store"
TRAINER = "trainer"
FETCH_WHEELS = "fetch-wheels"
"""Init container with an image of its own, of rclone; the next one installs what it copies."""
WHEEL_FILES: Final = ("fetch_wheels.sh", "install_wheels.py")
"""Programs of k8s/ for the nodes."""
PYTHON_IMAGE: Final = "python:3.11-slim"
"""Default image of workers with accelerators, which install TensorFlow and its libraries as wheels.

TensorFlow's public image for GPUs has cuDNN 8 and no NCCL, and TensorFlow has needed cuDNN 9 since 2.18,
so it finds no GPU there: https://github.com/tensorflow/build/issues/221 (open, read 2026-11-22). Its
image for CPUs has no libraries of accelerators.
"""
PLAN_PLACEHOLDER = "<this plan>"
KEY_PLACEHOLDER = "<new secret>"
VALUE_PLACEHOLDER = "<of your environment>"

GPU_NODE: Final[Mapping[str, str]] = {"cloudgan-accelerator": "nvidia"}
"""Labels of the nodes on which NVIDIA's device plugin runs; set when a GPU node pool is created."""

KEEP: Final = "cloudgan-keep-nodes"
"""Label of the pods that hold nodes for the next run."""
COMPONENT: Final = "app.kubernetes.io/component"
PORT_PROBE: Final = "port-probe"
"""Component of the objects that test whether the cluster enforces NetworkPolicy objects."""
PROBE: Final = "PROBE"
"""Method of the step that waits for the result of that test."""

_HTTPS = 443
_PORT = 2222
_PLURALS = {
    "CiliumNetworkPolicy": "ciliumnetworkpolicies",
    "ConfigMap": "configmaps",
    "DaemonSet": "daemonsets",
    "Job": "jobs",
    "Namespace": "namespaces",
    "NetworkPolicy": "networkpolicies",
    "PodTemplate": "podtemplates",
    "ProvisioningRequest": "provisioningrequests",
    "Secret": "secrets",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
}


def manifest_steps(plan: Plan, *, gang: bool = False) -> tuple[Step, ...]:
    """Returns the steps that create a run's objects.

    The ConfigMap with the plan is first; the Job is last, but for what it owns.
    """
    namespace = load_manifest("namespace")  # it belongs to no run
    namespace["metadata"]["name"] = plan.target.namespace
    made = [_step(body) for body in (namespace, *manifests(plan, gang=gang))]
    last = next(index for index, step in enumerate(made) if step.path.endswith("/jobs"))
    return (*made[:last], *_port_probe_steps(plan), *made[last:])


def must_guard_ports(plan: Plan) -> bool:
    """Whether others must not reach the workers' ports: the peers of TensorFlow and MPI are trusted there."""
    return (plan.has_peers or plan.config.has_ranks) and not plan.workers.allow_open_ports


def has_secret(plan: Plan) -> bool:
    """Whether workers get a secret: that with which they sign, or variables of the user."""
    return plan.has_peers or bool(plan.workers.secrets)


def _port_probe_steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the steps that test whether pods outside the run are kept from the workers' ports.

    TensorFlow and MPICH listen only if there are several trainers. A cluster that cloudgan creates enforces
    NetworkPolicy objects: its creation requests it.
    """
    name, workers = f"{plan.run}-ports", plan.workers
    if not must_guard_ports(plan) or plan.target.cluster == clouds.CLUSTER:
        return ()
    kinds = ("networkpolicy", "service", "job")
    policy, service, body = (_of_port_probe(kind, plan) for kind in kinds)
    if workers.has_gpus:
        body = merge_overlay(body, load_manifest("overlays/accelerator"))
    if plan.target.queue:
        body = merge_overlay(body, load_manifest("overlays/queue"))
    body["metadata"]["labels"] |= queue_labels(plan)
    # Ends the pods of a launcher that died; a live one stops waiting earlier.
    body["spec"]["activeDeadlineSeconds"] = round(plan.limits.gang_timeout_seconds) + 60
    pod = body["spec"]["template"]["spec"]
    pod["subdomain"] = name
    (container,) = pod["containers"]
    if workers.image:
        container["image"] = workers.image
    container["command"][2] = assets.read_text("k8s/port_probe.py")
    container["env"][0]["value"] = f"{name}-{{index}}.{name}:{_PORT}"
    _fill_placement(pod, plan)
    steps = [_step(_owned(one, plan, name)) for one in (policy, service, body)]
    ensure = "NetworkPolicy is enforced for the ports of the workers"
    return (*steps, Step(ensure=ensure, method=PROBE, path=str(steps[-1].find)))


def _of_port_probe(kind: str, plan: Plan) -> dict[str, Any]:
    """Returns a manifest of the probe with the run in the label of its pods."""

    def fill(part: Any) -> Any:
        if isinstance(part, dict):
            return {
                key: plan.run if key == "cloudgan-port-probe" else fill(value)
                for key, value in part.items()
            }
        return [fill(one) for one in part] if isinstance(part, list) else part

    filled: dict[str, Any] = fill(load_manifest(f"port-probe-{kind}"))
    return filled


def hold_step(plan: Plan) -> Step:
    """Returns the step that creates the Job which holds a run's nodes for the next run.

    Its pods keep the cluster autoscaler from removing the nodes, until the deadline of the Job:
    https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md, "What types of pods
    can prevent CA from removing a node?" (read 2026-11-22).
    """
    assert plan.node_pool is not None  # noqa: S101  only created nodes are kept
    body, workers = load_manifest("keep-nodes-job"), plan.workers
    if workers.has_gpus:
        body = merge_overlay(body, load_manifest("overlays/accelerator"))
    seconds = round(plan.node_pool.keep_seconds)
    counts = {"completions": workers.nodes, "parallelism": workers.nodes}
    body["spec"] |= {"activeDeadlineSeconds": seconds} | counts
    template = body["spec"]["template"]
    template["metadata"]["labels"][KEEP] = plan.run
    pod = template["spec"]
    (term,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    term["labelSelector"]["matchLabels"] = {KEEP: plan.run}
    (container,) = pod["containers"]
    container["image"] = workers.image or PYTHON_IMAGE
    container["command"] = ["sleep", str(seconds)]
    _fill_placement(pod, plan)
    return _step(_owned(body, plan, f"{plan.run}-keep"))


def device_plugin_step() -> Step:
    """Returns the step that ensures NVIDIA's device plugin, for clouds that do not install it.

    The DaemonSet belongs to no run and is not deleted with one.
    """
    return _step(load_manifest("device-plugin"))


def _step(body: dict[str, Any]) -> Step:
    version, metadata, kind = body["apiVersion"], body["metadata"], _PLURALS[body["kind"]]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = metadata.get("namespace")
    path = f"{root}/namespaces/{namespace}/{kind}" if namespace else f"{root}/{kind}"
    name = metadata["name"]
    return Step(
        ensure=f"{body['kind']} {name}", method="POST", path=path, find=f"{path}/{name}", body=body
    )


def manifests(plan: Plan, *, gang: bool = False) -> tuple[dict[str, Any], ...]:
    """Returns the objects of a run in the order of creation; the steps of the plan are not used."""
    config, service, own_job = (
        load_manifest("configmap"),
        load_manifest("service"),
        job(plan, gang=gang),
    )
    files = {"run.yaml": run_yaml(plan), "plan.json": PLAN_PLACEHOLDER}
    config["data"] = files | wheel_files(plan.wheels)
    service["spec"]["selector"] = {RUN: plan.run}
    owned = [config, _network_policy(plan), service, own_job]
    if has_secret(plan):
        secret = load_manifest("secret")
        secret["metadata"]["ownerReferences"][0]["name"] = plan.run
        named = {secret_key(name): VALUE_PLACEHOLDER for name in plan.workers.secrets}
        secret["data"] = {"key": KEY_PLACEHOLDER} | named
        owned.append(secret)
    owned += capacity_request(plan, own_job)
    if asks_agent(plan):
        owned.append(cilium_policy(plan))
    account = (_service_account(plan),) if plan.node_pool else ()
    return (*account, *(_owned(body, plan) for body in owned))


def job(plan: Plan, *, gang: bool = False) -> dict[str, Any]:
    """Returns the Indexed Job."""
    body, workers = load_manifest("job"), plan.workers
    overlays = {
        "accelerator": workers.has_gpus,
        "driver": workers.has_gpus,
        "claim": plan.store.startswith(CLAIM),
        "queue": plan.target.queue is not None,
        "gang": gang,
        "cloud": plan.target.is_provisioned,
        "secret": has_secret(plan),
    }
    for name, applies in overlays.items():
        body = merge_overlay(body, load_manifest(f"overlays/{name}")) if applies else body
    spec: dict[str, Any] = body["spec"]
    spec |= {"completions": workers.nodes, "parallelism": workers.nodes}
    spec["activeDeadlineSeconds"] = plan.limits.deadline_seconds
    body["metadata"]["labels"] |= queue_labels(plan)
    if gang:
        spec["scheduling"]["schedulingPolicy"]["gang"]["minCount"] = workers.nodes
    if not plan.wheels:
        _remove_wheels(spec)
    _fill_pod(spec["template"], plan)
    return body


def trainer(job_body: dict[str, Any]) -> dict[str, Any]:
    """Returns the trainer container of a Job's manifest."""
    containers = job_body["spec"]["template"]["spec"]["containers"]
    container: dict[str, Any] = next(one for one in containers if one["name"] == TRAINER)
    return container


def store_in_pod(store: str) -> str:
    """Returns the store's URL or mount path inside a pod."""
    return CLAIM_FOLDER if store.startswith(CLAIM) else store


def run_yaml(plan: Plan) -> str:
    """Returns the run.yaml that the pods read."""
    text: str = yaml.safe_dump(plan.config.model_dump(mode="json"), sort_keys=False)
    return text


def wheel_files(wheels: tuple[Wheel, ...]) -> dict[str, str]:
    """Returns the files with which a node gets its wheels; empty if it needs none."""
    if not wheels:
        return {}
    programs = {name: assets.read_text(f"k8s/{name}") for name in WHEEL_FILES}
    return {"wheels.txt": wheel_list(wheels)} | programs


def wheel_list(wheels: tuple[Wheel, ...]) -> str:
    """Returns the text of wheels.txt, which the programs of `WHEEL_FILES` read."""
    return "".join(f"{one.file_name} {one.sha256} {one.bytes}\n" for one in wheels)


def _fill_pod(template: dict[str, Any], plan: Plan) -> None:
    pod, workers = template["spec"], plan.workers
    template["metadata"]["labels"] |= plan.labels().as_dict() | workers.pod_labels
    if consumed := request_annotations(plan):
        template["metadata"]["annotations"] = consumed
    pod["subdomain"] = plan.run
    pod["terminationGracePeriodSeconds"] = workers.grace_seconds
    _fill_placement(pod, plan)
    if plan.target.service_account:
        pod["serviceAccountName"] = plan.target.service_account
    term = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]
    term["podAffinityTerm"]["labelSelector"]["matchLabels"] = {"cloudgan-run": plan.run}
    for volume in pod["volumes"]:
        if volume["name"] == "config":
            volume["configMap"]["name"] = plan.run
        if volume["name"] == "secret":
            volume["secret"]["secretName"] = plan.run
        if volume["name"] == "store":
            volume["persistentVolumeClaim"]["claimName"] = plan.store.removeprefix(CLAIM)
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        _fill_container(container, plan)


def _fill_placement(pod: dict[str, Any], plan: Plan) -> None:
    """Sets on which nodes a pod may run, and the login for its image."""
    workers = plan.workers
    selector = workers.node_selector | ({RUN: plan.node_run} if plan.node_pool else {})
    if selector:
        pod["nodeSelector"] = selector
    taints = [one.model_dump(exclude_none=True) for one in workers.tolerations]
    if taints:
        operators = [{"operator": "Equal" if "value" in one else "Exists"} | one for one in taints]
        pod["tolerations"] = [*pod.get("tolerations", ()), *operators]
    if workers.pull_secret:
        pod["imagePullSecrets"] = [{"name": workers.pull_secret}]


def _fill_container(container: dict[str, Any], plan: Plan) -> None:
    workers = plan.workers
    if container["name"] == FETCH_WHEELS:
        container["command"][-1] = unquote(store_in_pod(plan.store))
    elif workers.image:
        container["image"] = workers.image
    values = {
        "CLOUDGAN_RUN": plan.run,
        "CLOUDGAN_IMAGE": workers.image or "",
        "CLOUDGAN_WORLD": str(workers.nodes),
        "CLOUDGAN_ACCELERATORS": str(workers.accelerators_per_node),
        "CLOUDGAN_PEERS": f"{plan.run}-{{index}}.{plan.run}:{_PORT}",
        "CLOUDGAN_STORE": store_in_pod(plan.store),
        "CLOUDGAN_CLOUD": plan.target.provider,
    }
    for variable in container["env"]:
        variable["value"] = values.get(variable["name"], variable["value"])
    own = workers.env | (workers.environment if container["name"] == TRAINER else {})
    container["env"] += [
        {"name": name, "value": literal(value)} for name, value in own.items() if value is not None
    ]
    container["env"] += [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": plan.run, "key": secret_key(name)}}}
        for name in workers.secrets
    ]
    if workers.kubernetes_secrets:
        named = workers.kubernetes_secrets
        container["envFrom"] = [{"secretRef": {"name": name}} for name in named]
    if container["name"] != TRAINER:
        return
    if workers.secrets:
        container["env"].append({"name": SECRET_NAMES, "value": ",".join(workers.secrets)})
    # The worker's part of the pod's grace period: SIGTERM arrives late.
    grace = max(1, workers.grace_seconds - max(1, workers.grace_seconds // 12))
    container["command"][-1] = f"--grace-seconds={grace}"
    cpus = int(workers.cpus)
    amounts = {
        "cpu": str(cpus) if cpus == workers.cpus else f"{max(1, round(workers.cpus * 1000))}m",
        "memory": f"{max(1, round(workers.memory_gib * 1024))}Mi",
    }
    if workers.accelerators_per_node:
        amounts[workers.resource] = str(workers.accelerators_per_node)
    container["resources"] = {"limits": amounts, "requests": dict(amounts)}
    size = sum(wheel.bytes for wheel in plan.wheels)
    if size and not plan.target.queue:
        # The wheels and their unpacked copies are on the node's disk; without a request a pod is placed
        # where they do not fit, and evicted there, again and again. A queue of Kueue admits no resource
        # of which it has no quota ("resource ephemeral-storage unavailable in ClusterQueue"), and few
        # have one of disks.
        storage = {"ephemeral-storage": f"{math.ceil(3 * size / 2**20)}Mi"}
        container["resources"]["requests"] |= storage


def _remove_wheels(spec: dict[str, Any]) -> None:
    """Removes the init containers: an image with cloudgan needs no wheels."""
    pod, policy = spec["template"]["spec"], spec["podFailurePolicy"]
    removed = [one["name"] for one in pod.pop("initContainers")]
    policy["rules"] = [
        rule
        for rule in policy["rules"]
        if (rule.get("onExitCodes") or {}).get("containerName") not in removed
    ]
    pod["volumes"] = [one for one in pod["volumes"] if one["name"] != "site"]
    for container in pod["containers"]:
        container["volumeMounts"] = [m for m in container["volumeMounts"] if m["name"] != "site"]
        container["env"] = [one for one in container["env"] if one["name"] != "PYTHONPATH"]


def filled_secret(body: Mapping[str, Any], job_uid: str | None) -> dict[str, Any]:
    """Returns the Secret of a run with a new key, and the values of variables of this environment.

    Without the UID of its Job it has no owner: the Job does not exist yet.
    """
    metadata = {key: value for key, value in body["metadata"].items() if key != "ownerReferences"}
    if job_uid is not None:
        (owner,) = body["metadata"]["ownerReferences"]
        metadata["ownerReferences"] = [owner | {"uid": job_uid}]
    values = {
        key: new_secret() if held == KEY_PLACEHOLDER else secret_value(key)
        for key, held in body["data"].items()
    }
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {**body, "metadata": metadata, "data": data}


def _network_policy(plan: Plan) -> dict[str, Any]:
    body = load_manifest("networkpolicy")
    spec: dict[str, Any] = body["spec"]
    for one in (spec, spec["ingress"][0]["from"][0], spec["egress"][0]["to"][0]):
        one["podSelector"] = {"matchLabels": {"cloudgan-run": plan.run}}
    spec["egress"] += metadata_rules(plan)
    if plan.store_port != _HTTPS:
        spec["egress"].append({"ports": [{"protocol": "TCP", "port": plan.store_port}]})
    return body


def _service_account(plan: Plan) -> dict[str, Any]:
    """Returns the ServiceAccount of the pods, which all runs share."""
    body = load_manifest("serviceaccount")
    body["metadata"] |= {"name": plan.target.service_account, "namespace": plan.target.namespace}
    if plan.node_pool and plan.node_pool.identity:
        body["metadata"]["annotations"] = dict(plan.node_pool.identity)
    return body


def _owned(body: dict[str, Any], plan: Plan, name: str | None = None) -> dict[str, Any]:
    metadata = body["metadata"]
    metadata |= {"name": name or plan.run, "namespace": plan.target.namespace}
    metadata["labels"] |= plan.labels().as_dict()
    return body


def literal(value: str) -> str:
    """Returns a value of which Kubernetes expands nothing.

    It replaces ``$(NAME)`` by the variable and ``$$`` by ``$``:
    https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
    (read 2026-11-25).
    """
    return value.replace("$", "$$")


def load_manifest(name: str) -> dict[str, Any]:
    """Returns a copy of a manifest of k8s/, such as ``job`` or ``overlays/claim``."""
    return copy.deepcopy(_parsed(name))


@functools.cache
def _parsed(name: str) -> dict[str, Any]:
    manifest: dict[str, Any] = parse_package_yaml(assets.read_text(f"k8s/{name}.yaml"))
    return manifest


def merge_overlay(base: Any, overlay: Any) -> Any:
    """Merges `overlay` into `base` as kustomize does.

    Merges mappings by key and lists of objects with names by name; replaces all other values.
    """
    if isinstance(base, dict) and isinstance(overlay, dict):
        return base | {key: merge_overlay(base.get(key), value) for key, value in overlay.items()}
    if _has_names(base) and _has_names(overlay):
        names = [one["name"] for one in base]
        by_name = {one["name"]: one for one in overlay}
        kept = [merge_overlay(one, by_name.get(one["name"], one)) for one in base]
        return kept + [one for one in overlay if one["name"] not in names]
    return overlay


def _has_names(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, dict) and "name" in one for one in value)
    )
