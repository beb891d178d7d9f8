"""Default values that the API server sets."""

from __future__ import annotations

import base64
import secrets
from typing import TYPE_CHECKING, Any

from emulators.kubernetes.selection import at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulators.kubernetes.resources import Resource

Object = dict[str, Any]
OUTAGE_TOLERATIONS = [
    {
        "key": f"node.kubernetes.io/{condition}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for condition in ("not-ready", "unreachable")
]


def fill(resource: Resource, found: Object) -> None:
    """Fills in an object that was decoded, before its rules are checked."""
    filler = {
        "namespaces": _namespace,
        "pods": _pod,
        "jobs": _job,
        "services": _service,
        "secrets": _secret,
        "persistentvolumeclaims": _claim,
        "nodes": _node,
    }.get(resource.plural)
    if filler and not resource.stored_only:
        filler(found)


def fill_required(found: Object) -> None:
    """Fills in the one field that the schema requires and the real server does not."""
    for rule in at(found, "spec", "podFailurePolicy", "rules", default=None) or []:
        for pattern in at(rule, "onPodConditions", default=None) or []:
            if isinstance(pattern, dict):
                pattern.setdefault("status", "True")


def start_status(resource: Resource, found: Object) -> None:
    """Gives a new object its first status, and ignores that of the request."""
    if not resource.status or resource.plural == "nodes":
        return
    found["status"] = {}
    if resource.plural == "pods":
        limits = [one.get("resources", {}).get("limits") for one in found["spec"]["containers"]]
        found["status"] = {
            "phase": "Pending",
            "qosClass": "Guaranteed" if all(limits) else "BestEffort",
        }
    elif resource.plural == "daemonsets":
        counts = ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled")
        found["status"] = dict.fromkeys((*counts, "numberReady"), 0)
    elif resource.plural == "namespaces":
        found["status"] = {"phase": "Active"}
    elif resource.plural == "services":
        found["status"] = {"loadBalancer": {}}
    elif resource.plural == "persistentvolumeclaims":
        capacity = found["spec"].get("resources", {}).get("requests", {})
        modes = found["spec"].get("accessModes", [])
        found["status"] = {"phase": "Bound", "accessModes": modes, "capacity": capacity}


def containers(spec: Object) -> Iterator[tuple[str, Object]]:
    """Yields each container of a pod's spec with its field, init containers first."""
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or []):
            yield f"{field}[{index}]", container


def fill_pod_spec(spec: Object) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    for _, container in containers(spec):
        image = container.get("image", "")
        latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
        container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        resources = container.setdefault("resources", {})
        if resources.get("limits"):
            resources["requests"] = resources["limits"] | (resources.get("requests") or {})
        for port in container.get("ports") or []:
            port.setdefault("protocol", "TCP")
        for name in ("livenessProbe", "startupProbe", "readinessProbe"):
            if probe := container.get(name):
                probe.setdefault("periodSeconds", 10)
                probe.setdefault("timeoutSeconds", 1)
                probe.setdefault("successThreshold", 1)
                probe.setdefault("failureThreshold", 3)
                if "httpGet" in probe:
                    probe["httpGet"].setdefault("scheme", "HTTP")
                    probe["httpGet"].setdefault("path", "/")


def _pod(found: Object) -> None:
    spec = found["spec"]
    fill_pod_spec(spec)
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("priority", 0)
    tolerations = spec.setdefault("tolerations", [])
    for toleration in OUTAGE_TOLERATIONS:
        if not any(one.get("key") == toleration["key"] for one in tolerations):
            tolerations.append(dict(toleration))


def _job(found: Object) -> None:
    spec = found["spec"]
    parallelism = spec.setdefault("parallelism", 1)
    spec.setdefault("completionMode", "NonIndexed")
    if spec["completionMode"] == "NonIndexed":
        spec.setdefault("completions", parallelism)
    spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    replaces = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", replaces)
    fill_pod_spec(spec["template"]["spec"])


def label_job(found: Object) -> None:
    """Sets the selector and the labels of a new Job, when its uid is known."""
    name, uid = found["metadata"]["name"], found["metadata"]["uid"]
    spec = found["spec"]
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    for label, value in (("job-name", name), ("controller-uid", uid)):
        labels[label] = labels[f"batch.kubernetes.io/{label}"] = value
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def _namespace(found: Object) -> None:
    own = found["metadata"]
    own.setdefault("labels", {})["kubernetes.io/metadata.name"] = own.get("name", "")
    found["spec"] = {"finalizers": ["kubernetes"]}


def _service(found: Object) -> None:
    spec = found.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    if "clusterIP" not in spec:
        spec["clusterIP"] = f"10.96.{secrets.randbelow(256)}.{1 + secrets.randbelow(254)}"
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    for port in spec.get("ports") or []:
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port["port"])


def _secret(found: Object) -> None:
    found.setdefault("type", "Opaque")
    for name, text in (found.pop("stringData", None) or {}).items():
        found.setdefault("data", {})[name] = base64.b64encode(text.encode()).decode()


def _claim(found: Object) -> None:
    found["spec"].setdefault("volumeMode", "Filesystem")
    found["spec"].setdefault("volumeName", f"pvc-{found['metadata'].get('name', '')}")


def _node(found: Object) -> None:
    found.setdefault("spec", {})
    found.setdefault("status", {})
