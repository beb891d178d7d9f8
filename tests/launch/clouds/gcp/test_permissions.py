"""The permissions in deploy/gcp are exactly those that the calls need."""

from __future__ import annotations

import re

import pytest
import yaml
from google.auth.credentials import AnonymousCredentials

from cloudgan.core import assets
from cloudgan.core.labels import RUN, SHARED
from cloudgan.launch.backends.kubernetes.backend import KubernetesBackend
from cloudgan.launch.clouds.gcp.planner import setup_steps
from cloudgan.launch.clouds.gcp.preflight import ACT_AS
from cloudgan.launch.planning.plan_builder import all_steps
from cloudgan.launch.provisioning.apply import apply
from cloudgan.launch.provisioning.launch_log import LaunchLog
from cloudgan.launch.provisioning.provisioned_backend import ProvisionedBackend
from cloudgan.launch.provisioning.provisioner import Provisioner
from cloudgan.launch.provisioning.run_registry import RunRegistry
from cloudgan.schema.plan import Target
from cloudgan.schema.run_folder import RunFolder
from crashing import run_killed
from emulators.kubernetes import Image, local_cluster
from launch.clouds.gcp.kubernetes_nodes import join
from launch.clouds.gcp.lab import OWN_IMAGE, POLL_SECONDS, cloud_of, gcp_plan, known
from storage.servers import gcs_server

storage = pytest.importorskip("google.cloud.storage", reason="needs pip install 'cloudgan[gcp]'")
PLACE = Target(provider="gcp", account="lab", region="us-central1", zone="us-central1-a")
BUCKET = "cloudgan-lab-us-central1"
CAMEL = {
    "configmaps": "configMaps",
    "networkpolicies": "networkPolicies",
    "serviceaccounts": "serviceAccounts",
}
"""IAM's names of Kubernetes kinds, from custom roles in public repositories."""
VERBS = {"POST": "create", "PATCH": "update", "PUT": "update", "DELETE": "delete"}


def listed(name):
    return set(yaml.safe_load(assets.read_text(f"deploy/gcp/{name}.yaml"))["includedPermissions"])


def of_cluster(request):
    """Returns the IAM permission of a request to a cluster; None if it needs none."""
    path = request.path.partition("?")[0]
    found = re.fullmatch(r"/apis?/(?:[^/]+/)?v1(?:/namespaces/[^/]+)?/(\w+)(/[^/]+)?(/log)?", path)
    if re.fullmatch(r"/api/v1/namespaces(/[^/]+)?", path):
        kind, name, log = "namespaces", path.count("/") > 3, None
    elif found:
        kind, name, log = found.groups()
    else:
        return None
    if log:
        return f"container.{kind}.getLogs"
    verb = VERBS.get(request.method) or ("get" if name else "list")
    return f"container.{CAMEL.get(kind, kind)}.{verb}"


def of_store(call):
    """Returns the permission of a call to Cloud Storage objects."""
    method, _, path = call.partition(" ")
    if "/storage/v1/b/" not in path or "storage.googleapis.com" in path:
        return None
    if method == "GET" and path.endswith("/o"):
        return "storage.objects.list"
    return f"storage.objects.{VERBS.get(method, 'get')}"


@pytest.fixture
def cluster(tmp_path):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho begun\nexec sleep 600\n")
    program.chmod(0o755)
    images = {OWN_IMAGE.partition("@")[0]: Image({"python": str(program)})}
    with local_cluster(nodes=0, images=images, root=tmp_path) as cluster:
        yield cluster


def test_a_launcher_uses_exactly_the_permissions_of_its_policy(google, cluster, tmp_path):
    token = cluster.token()
    google.server.tokens[token] = frozenset(listed("policy") | {ACT_AS})
    join(google, cluster)
    ours = {"labels": {RUN: "gan"}}
    google.compute.leave("instances", "gke-1", machineType="zones/z/g2-standard-4", **ours)
    google.compute.leave("disks", "gke-1", **ours)

    from cloudgan.storage.gcs import GcsStore

    def everything():
        cloud = cloud_of(google, token)
        client = storage.Client(
            project="lab",
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": objects},
        )
        client.create_bucket(BUCKET)
        store = GcsStore(BUCKET, client=client)

        def inner(plan):
            api = cloud.cluster_api(plan)
            return KubernetesBackend(api, "cloudgan") if api else None

        options = {"inner": inner, "all_steps": all_steps, "poll_seconds": POLL_SECONDS}
        provider = ProvisionedBackend(cloud, RunRegistry(store, "a test"), **options)
        cloud.resolve_placeholders(gcp_plan("n1-standard-8+1xV100"))
        plan = known(cloud, gcp_plan(nodes=2))
        provider.check(plan)
        apply(plan, provider, LaunchLog(RunFolder(tmp_path / "runs" / "gan"), plan), lambda _: None)
        for _ in range(20):
            provider.state("gan")
            if sources := provider.log_sources("gan"):
                break
            provider.wait_for_change("gan", 1)
        for lines in sources.values():
            list(lines(False))
        cluster_provider = inner(plan)
        cluster_provider._why_no_pods("gan")  # the requests of `state` for a Job without pods
        cluster_provider.stop("gan")
        provider.list_runs()
        cloud.list_resources()
        list(provider.destroy("gan"))
        list(provider.destroy("gan"))  # after the pool's deletion
        for name in store.list("runs/gan/"):
            store.delete(name)

    with gcs_server() as objects:
        outcome = run_killed(everything, tmp_path)
    assert outcome.code == 0, outcome.said
    asked = {right for call in google.server.seen for right in call.permissions}
    asked |= {of_cluster(request) for request in cluster.requests if request.status} - {None}
    asked |= {of_store(call) for call in outcome.calls} - {None}
    assert asked - {ACT_AS} == listed("policy")


def test_setup_and_teardown_use_exactly_the_permissions_of_their_policy(google, cloud):
    google.identity.accounts.clear()
    google.identity.apis_off = {"container.googleapis.com"}
    google.server.tokens["admin"] = frozenset(listed("setup"))
    cloud = cloud_of(google, token="admin")  # noqa: S106
    maker = Provisioner(cloud, lambda _: None, POLL_SECONDS)
    for step in setup_steps(PLACE):
        maker.ensure(step, gcp_plan(project="lab"))
    google.registry.add("cloudgan", {SHARED: "registry"})
    for resource in cloud.list_resources():
        cloud.delete(resource)
        assert cloud.refresh(resource) is None
    asked = {right for call in google.server.seen for right in call.permissions}
    assert asked == listed("setup")
    assert not google.registry.repositories


@pytest.mark.parametrize("name", ["image", "policy", "setup"])
def test_each_permission_is_listed_once(name):
    found = yaml.safe_load(assets.read_text(f"deploy/gcp/{name}.yaml"))["includedPermissions"]
    assert len(found) == len(set(found))
