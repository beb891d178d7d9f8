"""A deploy that is killed at any call leaves only resources that `down` finds; the pods only sleep."""

from __future__ import annotations

import contextlib
import itertools
import shutil

import pytest

from cloudgan.core.errors import CredentialsError
from cloudgan.launch.backends.kubernetes.backend import KubernetesBackend
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.launch.kubernetes.kubeconfig import connect_by_token
from cloudgan.launch.lifecycle.apply import apply
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.lifecycle.provisioned_backend import ProvisionedBackend
from cloudgan.launch.lifecycle.run_registry import RunRegistry
from cloudgan.launch.plan.build import all_steps
from cloudgan.schema.run_folder import RunFolder
from cloudgan.storage.folder import FolderStore
from crashing import AT_EACH, DIED, moments, run_killed
from emulators.gcp.project import project
from emulators.kubernetes import Image, local_cluster
from launch.clouds.gcp.kubernetes_nodes import join
from launch.clouds.gcp.lab import OWN_IMAGE, POLL_SECONDS, cloud_of, gcp_plan, known

pytestmark = pytest.mark.slow

NEW_CLUSTER = "cloudgan.launch.lifecycle.provisioned_backend._NEW_CLUSTER_SECONDS"
KINDS = ("pods", "jobs", "services", "configmaps", "networkpolicies")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster without nodes, whose containers sleep until SIGTERM."""
    root = tmp_path_factory.mktemp("crashes")
    program = root / "python"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    images = {OWN_IMAGE.partition("@")[0]: Image({"python": str(program)})}
    with local_cluster(nodes=0, images=images, root=root) as cluster:
        yield cluster


class Lab:
    """One attempt: an emulated project, a store, and the user's process."""

    def __init__(self, google, cluster, folder):
        self.google, self.cluster, self.folder = google, cluster, folder
        self.token = cluster.token()
        google.server.tokens[self.token] = None
        google.compute.reserve("week", "g2-standard-4", 1, "us-central1-b")
        join(google, cluster)

    def provider(self):
        """Opens the backend as a new process on any machine does."""
        cloud = cloud_of(self.google, self.token)

        def inner(plan):
            api = cloud.cluster_api(plan.target)
            return KubernetesBackend(api, "cloudgan") if api else None

        return ProvisionedBackend(
            cloud,
            RunRegistry(FolderStore(self.folder / "store"), "a test"),
            inner=inner,
            all_steps=all_steps,
            poll_seconds=POLL_SECONDS,
        )

    def deploy(self):
        cloud = cloud_of(self.google, self.token)
        plan = known(cloud, gcp_plan(reservation="week"))
        ledger = LaunchLog(RunFolder(self.folder / "runs" / plan.run), plan)
        assert apply(plan, self.provider(), ledger, lambda _: None)

    def list_resources(self):
        """Returns the resources that a new process finds, except those of `setup`."""
        found = cloud_of(self.google, self.token).list_resources()
        return sorted(
            f"{one.kind.removeprefix('GKE ').replace('node ', '')} {one.name.rpartition('/')[2]}"
            for one in found
            if one.shared in (None, "cluster")
        )

    def in_cluster(self):
        return [
            f"{kind}/{one['metadata']['name']}"
            for kind in KINDS
            for one in self.cluster.select(kind, "cloudgan")
            if one["metadata"]["name"] != "kube-root-ca.crt"
        ]


@pytest.fixture
def lab_of(cluster, tmp_path):
    """Opens a fresh try; the cluster is the same for all, and empty at the end of each."""
    number = itertools.count()
    client = connect_by_token(cluster.url, cluster.ca.read_text(), cluster.token)
    admin = ClusterApi(client)

    @contextlib.contextmanager
    def opened():
        folder = tmp_path / str(next(number))
        folder.mkdir()
        with project() as google:
            yield Lab(google, cluster, folder)
        # Deleting a GKE cluster deletes its namespaces.
        admin.delete("/api/v1/namespaces/cloudgan")
        cluster.wait_for(lambda: not cluster.find("namespaces", None, "cloudgan"))
        shutil.rmtree(folder)

    yield opened
    client.close()


@AT_EACH
def test_resources_of_a_deploy_killed_at_any_call_are_found_and_deleted(lab_of, capsys, at_each):
    with lab_of() as lab:
        whole = run_killed(lab.deploy, lab.folder)
        assert whole.code == 0, whole.said
        assert lab.list_resources() == ["cluster cloudgan", f"pool {gcp_plan().node_pool.name}"]
        list(lab.provider().destroy("gan"))
        assert (lab.google.left(), lab.in_cluster()) == ([], [])
    crashes = moments(whole.calls, at_each=at_each)
    found, left = 0, 0
    for number, when in crashes:
        with lab_of() as lab:
            outcome = run_killed(lab.deploy, lab.folder, number, when)
            assert outcome.code == DIED, outcome.said
            exists = sorted(lab.google.left())
            assert lab.list_resources() == exists, f"call {number} {when}: {outcome.calls[-1]}"
            found += len(exists)
            list(lab.provider().destroy("gan"))
            left += len(lab.google.left()) + len(lab.in_cluster())
            assert not left, f"call {number} {when}: {outcome.calls[-1]}"
    with capsys.disabled():
        print(
            f"\ngcp: {len(whole.calls)} calls, {len(crashes)} crashes, {found} leftovers found,"
            f" {left} left after down"
        )


def test_without_rights_in_the_cluster_no_nodes_are_created_and_nothing_is_left(
    lab_of, cluster, monkeypatch
):
    monkeypatch.setattr(NEW_CLUSTER, 0.1)
    reader = {"apiGroups": ["", "batch"], "resources": ["*"], "verbs": ["get", "list"]}
    with lab_of() as lab:
        lab.token = cluster.token([reader])
        lab.google.server.tokens[lab.token] = None
        with pytest.raises(CredentialsError) as refused:
            lab.deploy()
        why = str(refused.value)
        assert "may not create namespaces, create serviceaccounts in namespace cloudgan" in why
        assert "create jobs in namespace cloudgan, delete jobs in namespace cloudgan" in why
        assert "deploy/gcp/resources.yaml" in why
        assert "list pods" not in why, "it may"
        asked = lab.google.server.methods()
        assert not [one for one in asked if one.endswith("nodePools.create")]
        assert (lab.google.left(), lab.in_cluster()) == ([], [])
