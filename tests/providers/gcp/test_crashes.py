"""A deploy that is killed at each single call leaves nothing that is not found, and nothing for ever.

The pods are stubs that sleep: what is tested is who knows afterwards what exists.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil

import pytest

from cloudgan.kubernetes.access import connect_by_token
from cloudgan.kubernetes.api import ClusterApi
from cloudgan.launching.intents import Intents
from cloudgan.launching.ledger import Ledger
from cloudgan.launching.rented import RentedProvider
from cloudgan.launching.starting import start
from cloudgan.planning.renting import all_steps
from cloudgan.providers.kubernetes.provider import KubernetesProvider
from cloudgan.run_folder import RunFolder
from cloudgan.stores.folder import FolderStore
from cluster import Image, local_cluster
from crashing import AT_EACH, DIED, moments, run_killed
from google_cloud.project import project
from providers.gcp.kubernetes_nodes import join
from providers.gcp.lab import OWN_IMAGE, POLL_SECONDS, cloud_of, gcp_plan, known

KINDS = ("pods", "jobs", "services", "configmaps", "networkpolicies")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster without nodes, whose containers sleep until they are told to end."""
    root = tmp_path_factory.mktemp("crashes")
    program = root / "python"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    images = {OWN_IMAGE.partition("@")[0]: Image({"python": str(program)})}
    with local_cluster(nodes=0, images=images, root=root) as made:
        yield made


class Lab:
    """One try: a project of Google's, a store, and what a user's process does with them."""

    def __init__(self, google, cluster, folder):
        self.google, self.cluster, self.folder = google, cluster, folder
        self.token = cluster.token()
        google.server.tokens[self.token] = None
        join(google, cluster)

    def provider(self):
        """As a new process on any machine opens it."""
        cloud = cloud_of(self.google, self.token)

        def inner(plan):
            api = cloud.cluster(plan)
            return KubernetesProvider(api, "cloudgan") if api else None

        return RentedProvider(
            cloud,
            Intents(FolderStore(self.folder / "store"), "a test"),
            inner=inner,
            all_steps=all_steps,
            poll_seconds=POLL_SECONDS,
        )

    def deploy(self):
        cloud = cloud_of(self.google, self.token)
        plan = known(cloud, gcp_plan())
        ledger = Ledger(RunFolder(self.folder / "runs" / plan.run), plan)
        assert start(plan, self.provider(), ledger, lambda _: None)

    def things(self):
        """What a new process finds, beside what every project of cloudgan has."""
        found = cloud_of(self.google, self.token).things()
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
        # A cluster of Google's takes its namespaces along when it goes.
        admin.delete("/api/v1/namespaces/cloudgan")
        cluster.wait_for(lambda: not cluster.find("namespaces", None, "cloudgan"))
        shutil.rmtree(folder)

    yield opened
    client.close()


@AT_EACH
def test_a_deploy_that_is_killed_at_any_call_is_found_and_removed(lab_of, capsys, at_each):
    with lab_of() as lab:
        whole = run_killed(lab.deploy, lab.folder)
        assert whole.code == 0, whole.said
        assert lab.things() == ["cluster cloudgan", f"pool {gcp_plan().rental.pool}"]
        list(lab.provider().remove("gan"))
        assert (lab.google.left(), lab.in_cluster()) == ([], [])
    crashes = moments(whole.calls, at_each=at_each)
    found, left = 0, 0
    for number, when in crashes:
        with lab_of() as lab:
            outcome = run_killed(lab.deploy, lab.folder, number, when)
            assert outcome.code == DIED, outcome.said
            exists = sorted(lab.google.left())
            assert lab.things() == exists, f"call {number} {when}: {outcome.calls[-1]}"
            found += len(exists)
            list(lab.provider().remove("gan"))
            left += len(lab.google.left()) + len(lab.in_cluster())
            assert not left, f"call {number} {when}: {outcome.calls[-1]}"
    with capsys.disabled():
        print(
            f"\ngcp: {len(whole.calls)} calls, {len(crashes)} crashes, {found} leftovers found,"
            f" {left} left after down"
        )
