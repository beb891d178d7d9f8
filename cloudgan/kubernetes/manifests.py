"""The manifests of a run: k8s/ as it stands, one overlay for each thing asked for, and the leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from cloudgan import assets
from cloudgan.core.labels import RUN
from cloudgan.kubernetes.metadata_rules import metadata_rules
from cloudgan.kubernetes.overlay import base, merged

if TYPE_CHECKING:
    from cloudgan.core.plan import Plan, Wheel

CLAIM = "pvc:"
"""How --store names a persistent volume claim."""
CLAIM_FOLDER = "/cloudgan/store"
TRAINER = "trainer"
WHEELS = "wheels"
GPU = "nvidia.com/gpu"
PLAN_PLACEHOLDER = "<this plan>"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

_HTTPS = 443
_PORT = 2222


def manifests(plan: Plan, *, gang: bool = False) -> tuple[dict[str, Any], ...]:
    """Returns what a run consists of, in the order in which it is created.

    Args:
        plan: What is wanted; its steps are not looked at.
        gang: Whether the cluster places all pods of a job together or none.
    """
    account = (_service_account(plan),) if plan.rental else ()
    return (
        *account,
        _owned(_config_map(plan), plan),
        _owned(_network_policy(plan), plan),
        _owned(_service(plan), plan),
        _owned(job(plan, gang=gang), plan),
    )


def namespace(plan: Plan) -> dict[str, Any]:
    """Returns the namespace, which no run owns."""
    body = base("namespace")
    body["metadata"]["name"] = plan.place.namespace
    return body


def job(plan: Plan, *, gang: bool = False) -> dict[str, Any]:
    """Returns the Indexed Job."""
    body, workers = base("job"), plan.workers
    wanted = {
        "accelerator": workers.accelerators_per_node > 0 and workers.resource == GPU,
        "claim": plan.store.startswith(CLAIM),
        "queue": plan.place.queue is not None,
        "gang": gang,
        "cloud": plan.place.is_rented,
    }
    for name, is_wanted in wanted.items():
        body = merged(body, base(f"overlays/{name}")) if is_wanted else body
    spec: dict[str, Any] = body["spec"]
    spec |= {"completions": workers.nodes, "parallelism": workers.nodes}
    spec["activeDeadlineSeconds"] = plan.limits.deadline_seconds
    if plan.place.queue:
        body["metadata"]["labels"][QUEUE_LABEL] = plan.place.queue
    if gang:
        spec["scheduling"]["schedulingPolicy"]["gang"]["minCount"] = workers.nodes
    if not plan.wheels:
        _use_own_image(spec)
    _fill_pod(spec["template"], plan)
    return body


def trainer(job_body: dict[str, Any]) -> dict[str, Any]:
    """Returns the container that trains, of a job's manifest."""
    containers = job_body["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = next(one for one in containers if one["name"] == TRAINER)
    return found


def store_in_pod(store: str) -> str:
    """Returns the store's address as a pod sees it."""
    return CLAIM_FOLDER if store.startswith(CLAIM) else store


def run_yaml(plan: Plan) -> str:
    """Returns the run.yaml that the pods read."""
    text: str = yaml.safe_dump(plan.config.model_dump(mode="json"), sort_keys=False)
    return text


def wheel_list(wheels: tuple[Wheel, ...]) -> str:
    """Returns the text of wheels.txt, which k8s/fetch_wheels.py reads in the pod."""
    return "".join(f"{one.file_name} {one.sha256} {one.bytes}\n" for one in wheels)


def _fill_pod(template: dict[str, Any], plan: Plan) -> None:
    pod, workers = template["spec"], plan.workers
    template["metadata"]["labels"] |= plan.labels().as_dict() | workers.pod_labels
    pod["subdomain"] = plan.run
    pod["terminationGracePeriodSeconds"] = workers.grace_seconds
    selector = workers.node_selector | ({RUN: plan.run} if plan.rental else {})
    if selector:
        pod["nodeSelector"] = selector
    taints = [one.model_dump(exclude_none=True) for one in workers.tolerations]
    if taints:
        operators = [{"operator": "Equal" if "value" in one else "Exists"} | one for one in taints]
        pod["tolerations"] = [*pod.get("tolerations", ()), *operators]
    if workers.pull_secret:
        pod["imagePullSecrets"] = [{"name": workers.pull_secret}]
    if plan.place.service_account:
        pod["serviceAccountName"] = plan.place.service_account
    term = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]
    term["podAffinityTerm"]["labelSelector"]["matchLabels"] = {"cloudgan-run": plan.run}
    for volume in pod["volumes"]:
        if volume["name"] == "config":
            volume["configMap"]["name"] = plan.run
        if volume["name"] == "store":
            volume["persistentVolumeClaim"]["claimName"] = plan.store.removeprefix(CLAIM)
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        _fill_container(container, plan)


def _fill_container(container: dict[str, Any], plan: Plan) -> None:
    workers = plan.workers
    if workers.image:
        container["image"] = workers.image
    values = {
        "CLOUDGAN_RUN": plan.run,
        "CLOUDGAN_IMAGE": workers.image or "",
        "CLOUDGAN_WORLD": str(workers.nodes),
        "CLOUDGAN_PEERS": f"{plan.run}-{{index}}.{plan.run}:{_PORT}",
        "CLOUDGAN_STORE": store_in_pod(plan.store),
        "CLOUDGAN_CLOUD": plan.place.provider,
    }
    for variable in container["env"]:
        variable["value"] = values.get(variable["name"], variable["value"])
    if workers.secrets:
        container["envFrom"] = [{"secretRef": {"name": name}} for name in workers.secrets]
    if container["name"] != TRAINER:
        return
    container["command"][-1] = f"--grace_seconds={_grace_seconds(workers.grace_seconds)}"
    amounts = {
        "cpu": _quantity(workers.cpus),
        "memory": f"{max(1, round(workers.memory_gib * 1024))}Mi",
    }
    if workers.accelerators_per_node:
        amounts[workers.resource] = str(workers.accelerators_per_node)
    container["resources"] = {"limits": amounts, "requests": dict(amounts)}


def _use_own_image(spec: dict[str, Any]) -> None:
    """An image that has cloudgan needs no wheels."""
    pod, policy = spec["template"]["spec"], spec["podFailurePolicy"]
    policy["rules"] = [
        rule
        for rule in policy["rules"]
        if (rule.get("onExitCodes") or {}).get("containerName") != WHEELS
    ]
    pod.pop("initContainers", None)
    pod["volumes"] = [one for one in pod["volumes"] if one["name"] != "site"]
    for container in pod["containers"]:
        container["volumeMounts"] = [m for m in container["volumeMounts"] if m["name"] != "site"]
        container["env"] = [one for one in container["env"] if one["name"] != "PYTHONPATH"]


def _config_map(plan: Plan) -> dict[str, Any]:
    body = base("configmap")
    body["data"] = {"run.yaml": run_yaml(plan), "plan.json": PLAN_PLACEHOLDER}
    if plan.wheels:
        body["data"]["wheels.txt"] = wheel_list(plan.wheels)
        body["data"]["fetch_wheels.py"] = assets.read_text("k8s/fetch_wheels.py")
    return body


def _network_policy(plan: Plan) -> dict[str, Any]:
    body = base("networkpolicy")
    spec: dict[str, Any] = body["spec"]
    for one in (spec, spec["ingress"][0]["from"][0], spec["egress"][0]["to"][0]):
        one["podSelector"] = {"matchLabels": {"cloudgan-run": plan.run}}
    spec["egress"] += metadata_rules(plan)
    if plan.store_port != _HTTPS:
        spec["egress"].append({"ports": [{"protocol": "TCP", "port": plan.store_port}]})
    return body


def _service_account(plan: Plan) -> dict[str, Any]:
    """Who the pods are to the cloud: the same for all runs, so no run owns it."""
    body = base("serviceaccount")
    body["metadata"] |= {"name": plan.place.service_account, "namespace": plan.place.namespace}
    if plan.rental and plan.rental.identity:
        body["metadata"]["annotations"] = dict(plan.rental.identity)
    return body


def _service(plan: Plan) -> dict[str, Any]:
    body = base("service")
    body["spec"]["selector"] = {"cloudgan-run": plan.run}
    return body


def _owned(body: dict[str, Any], plan: Plan) -> dict[str, Any]:
    metadata = body["metadata"]
    metadata |= {"name": plan.run, "namespace": plan.place.namespace}
    metadata["labels"] |= plan.labels().as_dict()
    return body


def _grace_seconds(pod_seconds: int) -> int:
    """What the program may count on: SIGTERM arrives late, and its last word takes a moment."""
    return max(1, pod_seconds - max(1, pod_seconds // 12))


def _quantity(cpus: float) -> str:
    return str(int(cpus)) if cpus == int(cpus) else f"{max(1, round(cpus * 1000))}m"
