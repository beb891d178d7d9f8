"""A run on AWS from `deploy` to the deletion of all resources: the real trainer on two emulated nodes.

The account is tests/emulators/aws, its clusters are one of tests/emulators/kubernetes, whose nodes are the
account's machines. Pods get their login from a secret: EKS' agent is not emulated.
"""

import base64
import json

import pytest

from cloudgan.schema import launch, record
from emulators.aws.iam_policies import is_allowed
from launch.clouds.aws.used_permissions import document

pytestmark = pytest.mark.slow

RUN, REGION = "rented", "us-west-2"
FLAGS = (
    "--provider=aws",
    "--accelerator=t4:1",
    f"--region={REGION}",
    "--nodes=2",
    "--config=plain.yaml",
    "--epochs=2",
    "--global-batch=160",  # an epoch of two steps
    "--cpus=1",
    "--memory-gib=2",
    "--kubernetes-secrets=s3-login",
    f"--name={RUN}",
)


@pytest.fixture
def account(monkeypatch):
    """An account in which nothing is prepared; this process is logged in to it."""
    pytest.importorskip("boto3")
    pytest.importorskip("moto")
    from emulators.aws import amazon
    from emulators.aws.server import LOGIN

    monkeypatch.setenv("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
    with amazon() as made:
        login = {name.upper(): value for name, value in LOGIN.items()}
        login |= {"AWS_ENDPOINT_URL": made.url, "AWS_DEFAULT_REGION": REGION}
        for name, value in login.items():
            monkeypatch.setenv(name, value)
        made.state.quotas["L-3819A6DF"] = 64.0
        made.state.pending = 0
        yield made, login


@pytest.fixture
def cluster(tmp_path, account, monkeypatch):
    """The cluster behind the account's clusters; it has no node, and the bucket's login."""
    from emulators.kubernetes import (
        RCLONE,
        local_cluster,
        python_image,
        rclone_image,
        with_gpus,
    )

    aws, login = account
    images = {"python:3.11-slim": with_gpus(python_image()), RCLONE: rclone_image()}
    with local_cluster(nodes=0, images=images, root=tmp_path) as made:
        aws.tie(made)
        monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path / "data"))  # deploy asks for today's price
        data = {key: base64.b64encode(value.encode()).decode() for key, value in login.items()}
        made.put("namespaces", {"metadata": {"name": "cloudgan"}})
        secret = {"metadata": {"name": "s3-login", "namespace": "cloudgan"}, "data": data}
        made.put("secrets", secret)
        yield made


def test_a_run_rents_two_nodes_trains_reports_and_leaves_nothing(
    here, shards, account, cluster, cloudgan_here
):
    aws, login = account
    flags = (*FLAGS, f"--data={shards}", "--yes", "--json")
    assert "cloudgan setup --provider=aws" in cloudgan_here("deploy", *flags, exits=2).stderr
    assert aws.state.left() == []
    cloudgan_here("setup", "--provider=aws", f"--region={REGION}", "--yes")
    result = json.loads(cloudgan_here("deploy", *flags).stdout)
    assert result["state"] == "finished"
    assert aws.state.left() == [], "what bills by the hour goes when the run is over"
    folder = here / "runs" / RUN
    epochs = record.read(folder / "record.jsonl").epochs()
    assert [(one.epoch, one.steps) for one in epochs] == [(0, 2), (1, 2)]
    (attempt,) = launch.read(folder / "launch.json").attempts
    assert (attempt.region, attempt.node_type, attempt.market) == (REGION, "g4dn.xlarge", "spot")
    assert [one.terminated_at is not None for one in attempt.nodes] == [True, True]
    assert attempt.billed_seconds() > 0
    sent = [one.operation for one in attempt.requests]
    assert "CreateNodegroup eks/us-west-2" in sent
    cost = json.loads(cloudgan_here("cost", folder, "--json").stdout)
    assert cost["run"] == RUN
    cloudgan_here("down", RUN)
    cloudgan_here("down", RUN)
    cloudgan_here("setup", "--provider=aws", "--teardown", "--purge", "--yes")
    found = json.loads(cloudgan_here("doctor", "--provider=aws", "--json").stdout)
    assert "cloudgan-" not in json.dumps(found), "not even a role or a bucket"
    granted = [document("policy.json"), document("setup-policy.json")]
    denied = {one.action for one in aws.authorized if not is_allowed(granted, one)}
    assert denied == {"iam:CreatePolicy", "iam:TagPolicy"}, "the boundary is an administrator's"
    for path in (one for one in here.rglob("*") if one.is_file() and one.suffix != ".npz"):
        assert login["AWS_SECRET_ACCESS_KEY"].encode() not in path.read_bytes(), path
