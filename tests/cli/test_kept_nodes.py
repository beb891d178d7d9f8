"""`deploy --keep-nodes` twice: a control plane over HTTP, the test cluster, the real client, one node pool.

The control plane is Google's in tests/emulators/gcp; its node pools become nodes of the test cluster. The
pods train nothing. docs/what-is-not-tested.md lists what this does not prove.
"""

import json

import pytest

from cli.provisioned import few_showers
from cloudgan.schema import launch

pytestmark = pytest.mark.slow

FLAGS = ("--provider=gcp", "--region=us-central1", "--accelerator=l4:1", "--market=on_demand")
FLAGS += ("--nodes=2", "--cpus=1", "--preset=smoke", "--yes", "--allow-stale-price", "--json")
L4_USD = 0.70682
"""Per hour of g2-standard-4 on demand in us-central1, in the shipped prices."""


@pytest.fixture
def google(tmp_path, monkeypatch, user_folder, trainer_image):
    """A project after `setup`, whose node pools are nodes of the test cluster."""
    pytest.importorskip("google.auth", reason="needs pip install '.[gcp]'")
    from emulators.gcp.key_file import write_key_file
    from emulators.gcp.project import project
    from emulators.kubernetes import local_cluster

    monkeypatch.setattr(
        "google.auth.credentials.CredentialsWithRegionalAccessBoundary"
        "._is_regional_access_boundary_lookup_required",
        lambda _: False,
    )
    few_showers(user_folder / "showers")
    images = {"*": trainer_image}
    with project() as made, local_cluster(nodes=0, images=images, root=tmp_path) as cluster:
        made.tie(cluster)
        made.server.issued = cluster.token()
        made.server.tokens = {made.server.issued: None}
        made.engine.operation_ticks = 1
        key = write_key_file(tmp_path / "key.json", made.server)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
        monkeypatch.setenv("CLOUDGAN_GCP_ENDPOINT", made.server.url)
        made.cluster = cluster
        yield made


@pytest.fixture
def deploy(google, cloudgan_here, user_folder, tmp_path):
    """Runs `deploy` in the project; returns what it printed."""

    def run(*more):
        where = (f"--store={tmp_path / 'store'}", f"--data={user_folder / 'showers'}")
        return cloudgan_here("deploy", *FLAGS, *where, *more).json()

    return run


def created(google):
    return [name for name in google.server.methods() if name.endswith("nodePools.create")]


def test_the_second_run_creates_no_pool_and_each_is_priced_for_its_own_time(
    google, deploy, cloudgan_here, user_folder
):
    def attempt(run):
        (found,) = launch.read(user_folder / "runs" / run / "launch.json").attempts
        return found

    def waiting(run):
        said = cloudgan_here("cost", user_folder / "runs" / run, "--json").stdout
        items = {item["name"]: item for item in json.loads(said)["line_items"]}
        return items["waiting for the next run"]

    deploy("--name=one-train", "--keep-nodes=30m")
    assert waiting("one-train")["node_seconds"] == pytest.approx(3600), "two nodes, until their end"
    assert len(google.cluster.select("nodes")) == 2
    deploy("--name=two-train", "--keep-nodes=30m")
    assert len(created(google)) == 1, "no new pool"
    one, two = attempt("one-train"), attempt("two-train")
    begins = min(node.started_at for node in two.nodes)
    assert {node.name for node in one.nodes} == {node.name for node in two.nodes}
    assert begins >= one.kept.since, "no moment of a node is billed twice"
    seconds = 2 * (begins - one.kept.since).total_seconds()
    assert waiting("one-train")["node_seconds"] == pytest.approx(seconds)
    assert waiting("one-train")["usd"] == pytest.approx(seconds / 3600 * L4_USD)
    assert waiting("two-train")["usd"] == pytest.approx(L4_USD)
    assert "deleted: GKE node pool" in cloudgan_here("down", "two-train").stderr
    assert waiting("two-train")["usd"] < 0.1 * L4_USD, "it ended at once"
    assert (google.left(), google.cluster.select("nodes")) == ([], [])
