"""The permissions in deploy/gcp are exactly those that the calls need."""

from __future__ import annotations

import re

import pytest
import yaml
from google.auth.credentials import AnonymousCredentials

from cloudgan.core import assets
from cloudgan.core.labels import RUN
from cloudgan.launch.backends.kubernetes.backend import KubernetesBackend
from cloudgan.launch.clouds.engine import Engine
from cloudgan.launch.clouds.gcp.planner import setup_steps
from cloudgan.launch.clouds.gcp.preflight import ACT_AS
from cloudgan.launch.lifecycle.apply import apply
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.lifecycle.provisioned_backend import ProvisionedBackend
from cloudgan.launch.lifecycle.run_registry import RunRegistry
from cloudgan.launch.plan.build import all_steps
from cloudgan.schema.plan import Target
from cloudgan.schema.run_folder import RunFolder
from crashing import run_killed
from emulators.gcp.iam_conditions import Binding, Resource, resource_of
from emulators.kubernetes import Image, local_cluster
from launch.clouds.gcp.kubernetes_nodes import join
from launch.clouds.gcp.lab import OWN_IMAGE, POLL_SECONDS, cloud_of, gcp_plan, known
from storage.servers import gcs_server

storage = pytest.importorskip("google.cloud.storage", reason="needs pip install '.[gcp]'")
PLACE = Target(provider="gcp", account="lab", region="us-central1", zone="us-central1-a")
BUCKET = "cloudgan-lab-us-central1"
CLUSTER = Resource(
    "container.googleapis.com/Cluster", "projects/lab/locations/us-central1-a/clusters/cloudgan"
)
OBJECT = Resource(
    "storage.googleapis.com/Object", f"projects/_/buckets/{BUCKET}/objects/runs/gan/record.jsonl"
)
CAMEL = {
    "configmaps": "configMaps",
    "networkpolicies": "networkPolicies",
    "podtemplates": "podTemplates",
    "provisioningrequests": "thirdPartyObjects",
    "selfsubjectaccessreviews": "selfSubjectAccessReviews",
    "serviceaccounts": "serviceAccounts",
}
"""IAM's names of Kubernetes kinds, from custom roles in public repositories."""
VERBS = {"POST": "create", "PATCH": "update", "PUT": "update", "DELETE": "delete"}


def listed(name):
    return set(yaml.safe_load(assets.read_text(f"deploy/gcp/{name}.yaml"))["includedPermissions"])


def bound(name, *more):
    """Returns the binding of a role, on its condition if it has one."""
    file = f"deploy/gcp/{name}-condition.yaml"
    condition = ""
    if file in assets.names():
        condition = yaml.safe_load(assets.read_text(file))["expression"]
    return Binding(frozenset({*listed(name), *more}), condition.replace("PROJECT", "lab"))


TRAINER = Resource(
    "iam.googleapis.com/ServiceAccount",
    "projects/lab/serviceAccounts/cloudgan-trainer@lab.iam.gserviceaccount.com",
)
IDENTITY = bound("identity")
LAUNCHER = (
    bound("policy"),
    bound("resources"),
    # Granted on this account, so that it reaches no other.
    IDENTITY._replace(
        expression=f'{IDENTITY.expression} && resource.name == "{TRAINER.name}"',
    ),
)


def unused(name, asked):
    """Returns the permissions of a role that no request takes on a resource that it reaches."""
    binding = bound(name)
    return {
        one
        for one in listed(name)
        if not any(binding.grants(*each) and each[0] == one for each in asked)
    }


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


def run_on_requested_nodes(cloud, provider, folder):
    """Starts a run whose nodes are requested together, and deletes it before they come."""
    plan = known(cloud, gcp_plan(name="queued", nodes=2, flex_start=True, max_hours=2))
    log = LaunchLog(RunFolder(folder / "runs" / "queued"), plan)
    apply(plan, provider, log, lambda _: None)
    provider.state("queued")
    list(provider.destroy("queued"))


def test_a_launcher_uses_exactly_the_permissions_of_its_policy(google, cluster, tmp_path):
    token = cluster.token()
    google.server.tokens[token] = (*LAUNCHER, Binding(frozenset({ACT_AS})))
    join(google, cluster)
    ours = {"labels": {RUN: "gan"}}
    kind = {"machineType": "zones/z/g2-standard-4"}
    google.compute.reserve("week", "g2-standard-4", 1, "us-central1-b")
    google.compute.leave("instances", "gke-cloudgan-1", **kind, **ours)
    google.compute.leave("disks", "gke-cloudgan-1", **ours)

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
            api = cloud.cluster_api(plan.target)
            return KubernetesBackend(api, "cloudgan") if api else None

        options = {"inner": inner, "all_steps": all_steps, "poll_seconds": POLL_SECONDS}
        provider = ProvisionedBackend(cloud, RunRegistry(store, "a test"), **options)
        cloud.resolve_placeholders(gcp_plan("n1-standard-8+1xV100"))
        cloud.resolve_placeholders(gcp_plan(reservation="week"))
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
        run_on_requested_nodes(cloud, provider, tmp_path)
        for name in store.list("runs/gan/"):
            store.delete(name)

    with gcs_server() as objects:
        outcome = run_killed(everything, tmp_path)
    assert outcome.code == 0, outcome.said
    asked = requests_to(google)
    rights = {of_cluster(request) for request in cluster.requests if request.status} - {None}
    asked |= {(one, CLUSTER) for one in rights}
    rights = {of_store(call) for call in outcome.calls} - {None}
    asked |= {(one, OBJECT) for one in rights}
    denied = {one for one in asked if not any(each.grants(*one) for each in LAUNCHER)}
    assert {one for one, _ in denied} == {ACT_AS}
    assert unused("policy", asked) == unused("resources", asked) == set()
    assert unused("identity", asked) == set()
    assert listed("policy") & listed("resources") == set()


def requests_to(google):
    """Returns each permission that a request took, with its resource."""
    return {
        (right, resource_of(right, *call.path.lstrip("/").split("/", 1)))
        for call in google.server.seen
        for right in call.permissions
    }


def test_setup_and_teardown_use_exactly_the_permissions_of_their_policy(google, cloud):
    google.identity.accounts.clear()
    google.identity.apis_off = {"container.googleapis.com"}
    google.identity.enabling_ticks = 2
    google.server.tokens["admin"] = (bound("setup"),)
    cloud = cloud_of(google, token="admin")  # noqa: S106
    maker = Engine(cloud, lambda _: None, POLL_SECONDS)
    for step in setup_steps(PLACE):
        maker.ensure(step, gcp_plan(project="lab"))
    for resource in cloud.list_resources():
        cloud.delete(resource)
        assert cloud.refresh(resource) is None
    assert unused("setup", requests_to(google)) == set()


PROJECT = Resource("cloudresourcemanager.googleapis.com/Project", "projects/lab")
OTHER_CLUSTER = Resource(CLUSTER.type, "projects/lab/locations/us-central1-a/clusters/physics")
OTHER_BUCKET = Resource("storage.googleapis.com/Bucket", "projects/_/buckets/physics")
OTHER_OBJECT = Resource(OBJECT.type, "projects/_/buckets/physics/objects/showers.h5")
FOREIGN_OBJECT = Resource(OBJECT.type, "projects/_/buckets/cloudgan-evil/objects/weights")
MACHINE = Resource("compute.googleapis.com/Instance", "projects/lab/zones/z/instances/web-1")
OTHER_NODE = MACHINE._replace(name="projects/lab/zones/z/instances/gke-physics-pool-1")
DISK = Resource("compute.googleapis.com/Disk", "projects/lab/zones/z/disks/data")
ACCOUNT = Resource("iam.googleapis.com/ServiceAccount", "projects/lab/serviceAccounts/admin@lab")
LAUNCHER_DENIED = (
    ("container.clusters.delete", OTHER_CLUSTER),
    ("container.clusters.update", OTHER_CLUSTER),
    ("container.clusters.get", OTHER_CLUSTER),
    ("container.clusters.getCredentials", CLUSTER),
    ("container.jobs.create", OTHER_CLUSTER),
    ("container.configMaps.update", OTHER_CLUSTER),
    ("container.secrets.list", CLUSTER),
    ("container.pods.exec", CLUSTER),
    ("storage.objects.get", OTHER_OBJECT),
    ("storage.objects.list", OTHER_BUCKET),
    ("storage.objects.create", FOREIGN_OBJECT),
    ("storage.objects.delete", OTHER_OBJECT),
    ("storage.buckets.setIamPolicy", OTHER_BUCKET),
    ("compute.instances.delete", MACHINE),
    ("compute.instances.delete", OTHER_NODE),
    ("compute.instances.create", PROJECT),
    ("compute.disks.delete", DISK),
    ("iam.serviceAccounts.setIamPolicy", ACCOUNT, "roles/iam.workloadIdentityUser"),
    ("iam.serviceAccounts.setIamPolicy", TRAINER, "roles/iam.serviceAccountTokenCreator"),
    ("iam.serviceAccounts.getAccessToken", TRAINER),
    ("iam.serviceAccounts.actAs", ACCOUNT),
    ("resourcemanager.projects.setIamPolicy", PROJECT, "roles/owner"),
)
SETUP_DENIED = (
    ("resourcemanager.projects.setIamPolicy", PROJECT, "roles/owner"),
    ("resourcemanager.projects.setIamPolicy", PROJECT, "roles/iam.serviceAccountTokenCreator"),
    ("iam.serviceAccounts.setIamPolicy", ACCOUNT, "roles/iam.workloadIdentityUser"),
    ("iam.serviceAccounts.setIamPolicy", TRAINER, "roles/iam.serviceAccountTokenCreator"),
    ("iam.serviceAccounts.setIamPolicy", TRAINER, "roles/iam.workloadIdentityUser"),
    ("iam.serviceAccounts.delete", ACCOUNT),
    ("storage.buckets.delete", OTHER_BUCKET),
    ("storage.buckets.setIamPolicy", OTHER_BUCKET, "roles/storage.objectUser"),
    ("iam.serviceAccountKeys.create", TRAINER),
    ("container.clusters.delete", CLUSTER),
)
DENIED = (
    *((LAUNCHER, *one) for one in LAUNCHER_DENIED),
    *(((bound("setup"),), *one) for one in SETUP_DENIED),
)


@pytest.mark.parametrize(
    ("bindings", "permission", "on", "roles"),
    [(one[0], one[1], one[2], one[3:]) for one in DENIED],
    ids=[one[1] for one in DENIED],
)
def test_the_roles_deny(bindings, permission, on, roles):
    assert not any(one.grants(permission, on, roles) for one in bindings)


def test_the_conditions_reach_cloudgans_own_resources():
    assert bound("setup").grants(
        "resourcemanager.projects.setIamPolicy", PROJECT, ["roles/artifactregistry.reader"]
    )


@pytest.mark.parametrize("name", ["identity", "policy", "resources", "setup"])
def test_each_permission_is_listed_once(name):
    found = yaml.safe_load(assets.read_text(f"deploy/gcp/{name}.yaml"))["includedPermissions"]
    assert len(found) == len(set(found))
