"""GKE's queued provisioning: all nodes of a ProvisioningRequest at once, and only for the pods that name it.

Refuses what Google's page says is not supported: more than one pod set, a template without the label
cloud.google.com/apply-warden-policies, more than seven days, a missing template
(https://docs.cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest, as of 2026-04-08, read 2026-11-23).
"""

from __future__ import annotations

from typing import Final

from emulators.kubernetes.objects import Object, Resource, at, set_condition
from emulators.kubernetes.store import Store

REQUEST: Final = Resource(
    "autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest"
)
CLASS: Final = "queued-provisioning.gke.io"
CONSUME: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS_NAME: Final = "autoscaling.x-k8s.io/provisioning-class-name"
FLEX: Final = "cloud.google.com/gke-flex-start"
WARDEN: Final = "cloud.google.com/apply-warden-policies"
TAINTS: Final = (
    {"key": "cloud.google.com/gke-queued", "value": "true", "effect": "NoSchedule"},
    {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
)
OF_REQUEST: Final = "autoscaling.gke.io/provisioning-request"
"""Label of the nodes of a request; GKE's webhook adds it to the selector of the pods that name it."""
LONGEST_SECONDS: Final = 7 * 24 * 3600


def admit(pod: Object) -> None:
    """Restricts pods that name a request to its nodes, as GKE does if both annotations are set."""
    annotations = pod["metadata"].get("annotations") or {}
    if annotations.get(CLASS_NAME) == CLASS and CONSUME in annotations:
        selector = pod["spec"].setdefault("nodeSelector", {})
        selector[OF_REQUEST] = annotations[CONSUME]


def answer_requests(store: Store) -> None:
    """Accepts new requests, or fails them."""
    for request in store.select(REQUEST):
        if at(request, "status", "conditions"):
            continue
        if why := _problem(store, request):
            set_condition(request, "Failed", "True", "InvalidRequest", why)
        else:
            set_condition(request, "Accepted", "True", "Accepted")
            why = "capacity is not available yet"
            set_condition(request, "Provisioned", "False", "NotProvisioned", why)
        store.replace(REQUEST, request)


def _problem(store: Store, request: Object) -> str:
    spec, namespace = request["spec"], request["metadata"]["namespace"]
    name = spec["podSets"][0]["podTemplateRef"]["name"]
    template = store.find("podtemplates", namespace, name)
    seconds = int(at(spec, "parameters", "maxRunDurationSeconds", default=0))
    rules = {
        f"unknown class {spec['provisioningClassName']}": spec["provisioningClassName"] != CLASS,
        "queued provisioning supports only one PodSet": len(spec["podSets"]) != 1,
        "maxRunDurationSeconds is longer than seven days": seconds > LONGEST_SECONDS,
        f"PodTemplate {name} does not exist": template is None,
        f"PodTemplate {name} has no label {WARDEN}": at(template, "metadata", "labels", WARDEN)
        != "true",
    }
    return next((text for text, is_broken in rules.items() if is_broken), "")
