"""What shows a node's GPUs to Kubernetes, on clouds that bring nothing which does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cloudgan.core.plan import Step
from cloudgan.kubernetes.overlay import base

if TYPE_CHECKING:
    from collections.abc import Mapping

GPU_NODE: Final[Mapping[str, str]] = {"cloudgan-accelerator": "nvidia"}
"""Labels of nodes on which it runs; a pool of GPUs carries them from its creation."""


def device_plugin_step() -> Step:
    """Returns the step that ensures NVIDIA's device plugin; no run owns it, and none removes it."""
    body = base("device-plugin")
    where = f"/apis/{body['apiVersion']}/namespaces/{body['metadata']['namespace']}/daemonsets"
    name = body["metadata"]["name"]
    return Step(
        ensure=f"{body['kind']} {name}",
        method="POST",
        path=where,
        find=f"{where}/{name}",
        body=body,
    )
