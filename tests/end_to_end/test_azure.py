"""From `setup` to the deletion of all resources on the emulated Azure: the real command line, the real
trainer, Azurite's blobs.

The program connects to Azure's own names over TLS; a proxy connects these to servers of this machine. The
image of the pods has the variables and files that workload identity's webhook adds on Azure.
"""

import base64
import contextlib
import json
import os
import secrets
import shutil
import subprocess

import pytest

from emulators.azure.cloud import SUBSCRIPTION
from emulators.azure.entra import SECRET, TENANT
from storage.servers import free_port, wait_for

pytestmark = pytest.mark.slow

REGION = "eastus"


@pytest.fixture
def azure(tmp_path, monkeypatch):
    """An emulated Azure; this process and the pods reach it by Azure's own names, with a login."""
    from cloudgan.launch.clouds.azure.ids import account_name
    from emulators.azure import small_azure
    from emulators.azure.connect_proxy import Gate
    from emulators.kubernetes import (
        RCLONE,
        local_cluster,
        python_image,
        rclone_image,
        with_gpus,
    )

    azurite = shutil.which("azurite-blob")
    if not azurite:
        pytest.skip("needs azurite-blob: make azurite")
    account, key = account_name(SUBSCRIPTION, REGION), base64.b64encode(secrets.token_bytes(32))
    token_file = tmp_path / "token"
    token_file.write_text("a token of the cluster")
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(small_azure(tmp_path))
        cluster = stack.enter_context(local_cluster(nodes=0, images={}, root=tmp_path))
        made.tie(cluster)
        made.aks.has_entra = True
        made.faults.slow_gets = 0  # the command line polls each 5 s
        port = free_port()
        process = subprocess.Popen(
            (
                azurite,
                *("--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence"),
                *("--silent", "--skipApiVersionCheck", "--disableTelemetry", "--oauth", "basic"),
                *("--cert", str(made.files.certificate), "--key", str(made.files.key)),
            ),
            env=os.environ | {"AZURITE_ACCOUNTS": f"{account}:{key.decode()}"},
            stdout=subprocess.DEVNULL,
        )
        stack.callback(process.wait)
        stack.callback(process.terminate)
        hosts = {"management.azure.com": made.server.port}
        hosts |= {"login.microsoftonline.com": made.server.port, f"{account}.blob.*": port}
        gate = stack.enter_context(contextlib.closing(Gate(hosts)))
        there = {
            "HTTPS_PROXY": gate.url,
            "NO_PROXY": "127.0.0.1,localhost",
            "REQUESTS_CA_BUNDLE": str(made.files.authority),
            "SSL_CERT_FILE": str(made.files.authority),
            "AZURE_TENANT_ID": TENANT,
            "AZURE_AUTHORITY_HOST": "https://login.microsoftonline.com/",
        }
        person = {"AZURE_CLIENT_ID": "a-physicist", "AZURE_CLIENT_SECRET": SECRET}
        pod = {"AZURE_CLIENT_ID": "the-pods", "AZURE_FEDERATED_TOKEN_FILE": str(token_file)}
        cluster.images["python:3.11-slim"] = with_gpus(python_image(**there | pod))
        cluster.images[RCLONE] = rclone_image(**there | pod)
        for name, value in (there | person).items():
            monkeypatch.setenv(name, value)
        blobs = (f"https://127.0.0.1:{port}/{account}", account, key.decode())
        authority = str(made.files.authority)
        made.arm.on_made = lambda kind, body: make_container(kind, body, blobs, authority)
        made.gate = gate
        wait_for(port, process)
        yield made


def make_container(kind, body, blobs, authority):
    """The container that the Resource Manager makes is one in Azurite."""
    if not kind.endswith("/containers"):
        return
    from azure.storage.blob import BlobServiceClient

    address, account, key = blobs
    login = {"account_name": account, "account_key": key}
    with BlobServiceClient(address, credential=login, connection_verify=authority) as client:
        client.create_container(body["name"])


def test_a_run_on_rented_nodes_trains_is_priced_and_leaves_nothing(
    azure, here, shards, cloudgan_here
):
    from cloudgan.launch.clouds.azure import planner as requests

    where = ("--provider=azure", f"--region={REGION}")
    flags = (
        "--config=plain.yaml",
        f"--data={shards}",
        "--nodes=1",
        "--epochs=1",
        "--name=gan",
    )
    flags += (*where, "--accelerator=t4:1", "--cpus=1", "--yes", "--allow-stale-price", "--json")
    refused = cloudgan_here("deploy", *flags, exits=2).stderr
    assert "cloudgan setup --provider=azure --region=eastus" in refused
    assert "6 created" in cloudgan_here("setup", *where, "--yes").stdout
    result = json.loads(cloudgan_here("deploy", *flags).stdout)
    assert result["state"] == "finished"
    assert not [one for one in azure.arm.held() if "/agentPools/" in one], "nodes go by themselves"
    cost = json.loads(cloudgan_here("cost", here / "runs" / "gan", "--json").stdout)
    assert cost["run"] == "gan"
    cloudgan_here("down", "gan")
    assert not [one for one in azure.arm.held() if "/managedClusters/" in one]
    left = {
        one.shared
        for one in azure.cloud(requests.target(None, REGION, None, None)).list_resources()
    }
    assert left == {"bucket", "identity", "group"}
    cloudgan_here("doctor", *where)
    cloudgan_here("setup", *where, "--teardown", "--purge", "--yes")
    assert azure.arm.held() == []
    assert ("the-pods", "https://storage.azure.com") in azure.entra.given, "by their own identity"
    assert azure.gate.refused == [], "no request was for another name"
