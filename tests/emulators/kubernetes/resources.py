"""The kinds of objects that the API serves, and where custom ones come from."""

from __future__ import annotations

from typing import Any, NamedTuple

SUBRESOURCES = {"pods": ("binding", "eviction", "exec", "log")}
RBAC = "rbac.authorization.k8s.io"


class Resource(NamedTuple):
    """One kind, under one version of its group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    status: bool = False
    short: tuple[str, ...] = ()
    stored_only: bool = False
    """Has no schema here: objects are stored without checks."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """As the messages name it: `pods`, `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def collection(self) -> tuple[str, str]:
        return self.group, self.plural


BUILT_IN = (
    Resource("", "v1", "namespaces", "Namespace", namespaced=False, status=True, short=("ns",)),
    Resource("", "v1", "nodes", "Node", namespaced=False, status=True, short=("no",)),
    Resource("", "v1", "pods", "Pod", status=True, short=("po",)),
    Resource("", "v1", "podtemplates", "PodTemplate"),
    Resource("", "v1", "services", "Service", status=True, short=("svc",)),
    Resource("", "v1", "configmaps", "ConfigMap", short=("cm",)),
    Resource("", "v1", "secrets", "Secret"),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", short=("sa",)),
    Resource("", "v1", "events", "Event", short=("ev",)),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", status=True),
    Resource("", "v1", "resourcequotas", "ResourceQuota", status=True, short=("quota",)),
    Resource("apps", "v1", "daemonsets", "DaemonSet", status=True, short=("ds",)),
    Resource("batch", "v1", "jobs", "Job", status=True),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short=("netpol",)),
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    Resource(RBAC, "v1", "roles", "Role"),
    Resource(RBAC, "v1", "rolebindings", "RoleBinding"),
    Resource(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
        status=True,
        short=("crd",),
    ),
)
GANG = (
    Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", status=True),
    Resource("scheduling.k8s.io", "v1beta1", "workloads", "Workload"),
)
KUEUE = tuple(
    Resource("kueue.x-k8s.io", "v1beta1", plural, kind, namespaced, True, (), True)
    for plural, kind, namespaced in (
        ("clusterqueues", "ClusterQueue", False),
        ("localqueues", "LocalQueue", True),
        ("workloads", "Workload", True),
    )
)


def custom(definition: dict[str, Any]) -> list[tuple[Resource, dict[str, Any]]]:
    """Returns the kinds that a CustomResourceDefinition makes, each with its schema."""
    spec = definition["spec"]
    made = []
    for version in spec["versions"]:
        resource = Resource(
            spec["group"],
            version["name"],
            spec["names"]["plural"],
            spec["names"]["kind"],
            namespaced=spec["scope"] == "Namespaced",
            status="status" in (version.get("subresources") or {}),
        )
        made.append((resource, (version.get("schema") or {}).get("openAPIV3Schema", {})))
    return made
