"""GKE's queued provisioning: all nodes of a ProvisioningRequest at once, and only for the pods that name it.

Refuses what Google's page says is not supported: more than one pod set, a template without the label
cloud.google.com/apply-warden-policies, more than seven days, a missing template
(https://docs.cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest, as of 2026-04-08, read 2026-11-23).
"""

from __future__ import annotations

from typing import Any, Final

from emulators.kubernetes.controller import Controller
from emulators.kubernetes.resources import Resource
from emulators.kubernetes.store import set_condition

Object = dict[str, Any]
REQUEST: Final = Resource(
    "autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest", status=True
)
CLASS: Final = "queued-provisioning.gke.io"
CONSUME: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS_NAME: Final = "autoscaling.x-k8s.io/provisioning-class-name"
FLEX: Final = "cloud.google.com/gke-flex-start"
WARDEN: Final = "cloud.google.com/apply-warden-policies"
TAINT: Final = {"key": "cloud.google.com/gke-queued", "value": "true", "effect": "NoSchedule"}
GPU_TAINT: Final = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
OF_REQUEST: Final = "autoscaling.gke.io/provisioning-request"
"""Label of the nodes of a request; GKE's webhook adds it to the selector of the pods that name it."""
LONGEST_SECONDS: Final = 7 * 24 * 3600
_NAME: Final = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 253}
SCHEMA: Final = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["podSets", "provisioningClassName"],
            "properties": {
                "provisioningClassName": {"type": "string", "maxLength": 253},
                "parameters": {
                    "type": "object",
                    "maxProperties": 100,
                    "additionalProperties": {"type": "string", "maxLength": 255},
                },
                "podSets": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 32,
                    "items": {
                        "type": "object",
                        "required": ["count", "podTemplateRef"],
                        "properties": {
                            "count": {"type": "integer", "minimum": 1},
                            "podTemplateRef": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {"name": _NAME},
                            },
                        },
                    },
                },
            },
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
"""Of kubernetes/autoscaler, cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1/types.go."""


def admit(pod: Object) -> None:
    """Restricts pods that name a request to its nodes, as GKE does if both annotations are set."""
    annotations = pod["metadata"].get("annotations") or {}
    if annotations.get(CLASS_NAME) == CLASS and CONSUME in annotations:
        selector = pod["spec"].setdefault("nodeSelector", {})
        selector[OF_REQUEST] = annotations[CONSUME]


class QueuedProvisioning(Controller):
    """Accepts requests, or fails them; `provide` starts their nodes."""

    def sync(self) -> None:
        """Answers new requests."""
        for request in self.store.select(REQUEST):
            if (request.get("status") or {}).get("conditions"):
                continue
            if why := self._problem(request):
                set_condition(request, "Failed", "True", "InvalidRequest", why)
            else:
                set_condition(request, "Accepted", "True", "Accepted", "")
                why = "capacity is not available yet"
                set_condition(request, "Provisioned", "False", "NotProvisioned", why)
            self.store.replace(REQUEST, request)

    def _problem(self, request: Object) -> str:
        spec, namespace = request["spec"], request["metadata"]["namespace"]
        if spec["provisioningClassName"] != CLASS:
            return f"unknown class {spec['provisioningClassName']}"
        if len(spec["podSets"]) != 1:
            return "queued provisioning supports only one PodSet"
        if int(spec.get("parameters", {}).get("maxRunDurationSeconds", 0)) > LONGEST_SECONDS:
            return "maxRunDurationSeconds is longer than seven days"
        name = spec["podSets"][0]["podTemplateRef"]["name"]
        template = self.store.find("podtemplates", namespace, name)
        if template is None:
            return f"PodTemplate {name} does not exist"
        if (template["metadata"].get("labels") or {}).get(WARDEN) != "true":
            return f"PodTemplate {name} has no label {WARDEN}"
        return ""

    def end(
        self, name: str, condition: str, reason: str, message: str, status: str = "True"
    ) -> None:
        """Sets a condition of a request."""
        (request,) = [one for one in self.store.select(REQUEST) if one["metadata"]["name"] == name]
        set_condition(request, condition, status, reason, message)
        self.store.replace(REQUEST, request)
