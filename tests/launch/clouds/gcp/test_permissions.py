"""The permissions in deploy/gcp are exactly those that the calls need."""

import re

import pytest
import yaml
from google.auth.credentials import AnonymousCredentials

from cloudgan.core import assets
from cloudgan.core.labels import RUN
from cloudgan.launch.clouds.gcp.planner import setup_steps
from cloudgan.launch.clouds.gcp.preflight import ACT_AS
from emulators.gcp.iam_conditions import Binding, Resource, resource_of
from launch.clouds.gcp.lab import PLACE, gcp_plan
from storage.servers import gcs_server

storage = pytest.importorskip("google.cloud.storage", reason="needs pip install '.[gcp]'")
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


def everything(lab):
    """Runs all operations of a launcher: check, deploy, state, logs, list, stop, down."""
    plan = lab.plan(nodes=2)
    lab.plan("n1-standard-8+1xV100")
    lab.plan(reservation="week")
    launcher = lab.launcher()
    launcher.check(plan)
    lab.start(plan)
    for _ in range(20):
        launcher.state("gan")
        if sources := launcher.log_sources("gan"):
            break
        launcher.wait_for_change("gan", 1)
    for lines in sources.values():
        list(lines(False))
    in_cluster = launcher._reached(plan)
    in_cluster._why_no_pods("gan")  # the requests of `state` for a Job without pods
    later = lab.plan(nodes=2, max_hours=5)  # goes on with a start that was cut off
    in_cluster.ensure(next(one for one in later.steps if "/configmaps" in one.path), later)
    in_cluster.stop("gan")
    launcher.list_runs()
    lab.cloud().list_resources()
    list(launcher.destroy("gan"))
    list(launcher.destroy("gan"))  # after the pool's deletion
    queued = lab.plan(name="queued", nodes=2, flex_start=True, max_hours=2)
    lab.start(queued)  # nodes that are requested together, and deleted before they come
    launcher.state("queued")
    list(launcher.destroy("queued"))
    for name in lab.store().list("runs/gan/"):
        lab.store().delete(name)


def test_a_launcher_uses_exactly_the_permissions_of_its_policy(whole_lab, cluster):
    from cloudgan.storage.gcs import GcsStore

    lab, google = whole_lab, whole_lab.google
    google.server.tokens[lab.token] = (*LAUNCHER, Binding(frozenset({ACT_AS})))
    ours = {"labels": {RUN: "gan"}}
    google.compute.leave("instances", "gke-cloudgan-1", machineType="zones/z/g2-standard-4", **ours)
    google.compute.leave("disks", "gke-cloudgan-1", **ours)
    lab.reserve()
    with gcs_server() as objects:

        def store():
            login = {"project": "lab", "credentials": AnonymousCredentials()}
            there = {"api_endpoint": objects}
            return GcsStore(BUCKET, client=storage.Client(client_options=there, **login))

        lab.store = store
        login = {"project": "lab", "credentials": AnonymousCredentials()}
        storage.Client(client_options={"api_endpoint": objects}, **login).create_bucket(BUCKET)
        outcome = lab.killed(everything)
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


def test_setup_and_teardown_use_exactly_the_permissions_of_their_policy(lab, google):
    google.identity.accounts.clear()
    google.identity.apis_off = {"container.googleapis.com"}
    google.identity.enabling_ticks = 2
    lab.log_in("admin", (bound("setup"),))
    cloud = lab.cloud()
    for step in setup_steps(PLACE):
        lab.engine().ensure(step, gcp_plan(account="lab"))
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
