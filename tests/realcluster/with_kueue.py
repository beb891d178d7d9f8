"""Kueue as a second program beside the real control plane, with its own manifests, webhooks and certificates."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
from pathlib import Path

import yaml

from emulators.kubernetes.containers import WITH_TESTS, free_pair
from realcluster.cluster import built

SYSTEM, SERVICE, CERTIFICATE = "kueue-system", "kueue-webhook-service", "kueue-webhook-server-cert"
CONVERTED = ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
"""Their versions are converted by Kueue."""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"


@contextlib.contextmanager
def kueue(cluster, **settings):
    """Runs Kueue until the context ends; its ClusterQueues can be created as soon as this returns.

    `settings` are those of its Configuration.
    """
    program, port = Path(built("kueue")), free_pair(set())
    root = cluster.root / "kueue"
    certificates = root / "certificates"
    certificates.mkdir(parents=True)
    _install(cluster, program.parent / "components", port)
    config = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": "0"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "integrations": {"frameworks": ["batch/job", "pod"]},
    } | settings
    (root / "config.yaml").write_text(json.dumps(config))
    words = [*WITH_TESTS, str(program), f"--config={root / 'config.yaml'}"]
    words += [f"--kubeconfig={cluster.kubeconfig(root / 'kubeconfig')}"]
    words += ["--feature-gates=VisibilityOnDemand=false"]
    with (
        (root / "log").open("wb") as log,
        subprocess.Popen(words, stdout=log, stderr=log) as running,
    ):
        try:
            _mount(cluster, certificates)
            flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor"}
            flavor |= {"metadata": {"name": "nodes"}, "spec": {}}
            cluster.wait_for(lambda: _answers(cluster, running, flavor))
            yield
        finally:
            running.kill()  # it would wait up to 30 s for its watches


def _install(cluster, manifests, port):
    """Applies the manifests as kustomize writes them, with a service that is a port of this machine."""
    cluster.put("namespaces", {"metadata": {"name": SYSTEM}})
    cluster.put("secrets", {"metadata": {"name": CERTIFICATE, "namespace": SYSTEM}})
    here = {"type": "ExternalName", "externalName": "localhost"}
    cluster.put("services", {"metadata": {"name": SERVICE, "namespace": SYSTEM}, "spec": here})
    service = {"namespace": SYSTEM, "name": SERVICE, "port": port}
    for path in (manifests / "crd" / "bases").iterdir():
        cluster._ask("POST", DEFINITIONS, path.read_text())
    client = {"clientConfig": {"service": service | {"path": "/convert"}}}
    conversion = {"strategy": "Webhook", "webhook": client | {"conversionReviewVersions": ["v1"]}}
    for name in CONVERTED:
        path = f"{DEFINITIONS}/{name}.kueue.x-k8s.io"
        cluster._ask("PATCH", path, {"spec": {"conversion": conversion}}, patch="merge-patch")
    text = (manifests / "webhook" / "manifests.yaml").read_text()
    for body in yaml.load_all(text, yaml.CSafeLoader):
        body["metadata"]["name"] = f"kueue-{body['metadata']['name']}"
        for each in body["webhooks"]:
            each["clientConfig"]["service"] |= service
            outside = {"key": "kubernetes.io/metadata.name", "operator": "NotIn"}
            outside |= {"values": ["kube-system", SYSTEM]}
            each["namespaceSelector"] = {"matchExpressions": [outside]}
        cluster._ask("POST", f"{WEBHOOKS}/{body['kind'].lower()}s", body)


def _mount(cluster, folder):
    """Writes the certificate that Kueue made where its pod would have the secret as a volume."""
    made = cluster.wait_for(lambda: cluster.find("secrets", SYSTEM, CERTIFICATE).get("data"))
    for name in sorted(made, key="tls.crt".__eq__):  # Kueue waits for this one
        (folder / name).write_bytes(base64.b64decode(made[name]))


def _answers(cluster, running, flavor):
    assert running.poll() is None, "Kueue has ended; see its log"
    try:
        cluster._ask("POST", "/apis/kueue.x-k8s.io/v1beta2/resourceflavors", flavor)
    except AssertionError:  # its webhook does not answer yet
        return False
    return True
