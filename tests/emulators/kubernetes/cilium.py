"""The kind that Cilium adds to a cluster, with the fields of it that cloudgan uses; the policies have no effect here.

Of cilium/cilium, pkg/k8s/apis/cilium.io/client/crds/v2/ciliumnetworkpolicies.yaml, read 2026-11-25.
"""

from __future__ import annotations

from typing import Any, Final

from emulators.kubernetes.resources import Resource

POLICY: Final = Resource("cilium.io", "v2", "ciliumnetworkpolicies", "CiliumNetworkPolicy")
_ENTITIES: Final = ("all", "world", "cluster", "host", "remote-node", "kube-apiserver", "none")
_PORT: Final = {
    "type": "object",
    "required": ["port"],
    "properties": {
        "port": {"type": "string", "maxLength": 63},
        "protocol": {"type": "string", "enum": ["TCP", "UDP", "SCTP", "ANY"]},
    },
}
_EGRESS: Final = {
    "type": "object",
    "properties": {
        "toEntities": {"type": "array", "items": {"type": "string", "enum": list(_ENTITIES)}},
        "toPorts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"ports": {"type": "array", "maxItems": 40, "items": _PORT}},
            },
        },
    },
}
_SPEC: Final = {
    "type": "object",
    "required": ["endpointSelector", "egress"],
    "properties": {
        "endpointSelector": {
            "type": "object",
            "properties": {
                "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}}
            },
        },
        "egress": {"type": "array", "items": _EGRESS},
    },
}
DEFINITION: Final[dict[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ciliumnetworkpolicies.cilium.io"},
    "spec": {
        "group": "cilium.io",
        "scope": "Namespaced",
        "names": {
            "plural": "ciliumnetworkpolicies",
            "singular": "ciliumnetworkpolicy",
            "kind": "CiliumNetworkPolicy",
            "listKind": "CiliumNetworkPolicyList",
        },
        "versions": [
            {
                "name": "v2",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC}},
                },
            }
        ],
    },
}
