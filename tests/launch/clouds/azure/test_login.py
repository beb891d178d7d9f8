"""The logins of Azure's parts: all ask the same places, and the same Resource Manager."""

import contextlib

import pytest

pytest.importorskip("azure.mgmt.core")

from cloudgan.core.errors import CredentialsError
from cloudgan.launch.clouds.azure import planner
from cloudgan.launch.clouds.azure.client import AzureClient
from cloudgan.storage.azure import AzureStore, blob_client, find_login
from emulators.azure.cloud import SUBSCRIPTION
from emulators.azure.entra import SECRET, TENANT
from emulators.http import Answer, HttpServer

ACCOUNT = "https://lab.blob.core.windows.net"
PLACE = planner.target(None, "eastus", None, None)
PARTS = {
    "client": lambda: AzureClient.open(PLACE).identify(),
    "store": lambda: AzureStore("cloudgan", client=blob_client(ACCOUNT, attempts=1)).list(),
}


@contextlib.contextmanager
def metadata_service():
    """A metadata service without an identity; yields the requests that it got."""
    asked = []

    def answer(request):
        asked.append(request.target)
        return Answer(400)

    with contextlib.closing(HttpServer(answer)) as server:
        yield server.url, asked


@pytest.mark.parametrize("part", PARTS)
def test_no_part_waits_for_a_managed_identity_where_none_answers(monkeypatch, tmp_path, part):
    monkeypatch.setenv("PATH", str(tmp_path))  # without az
    monkeypatch.setenv("CLOUDGAN_NO_METADATA_SERVER", "true")
    with metadata_service() as (url, asked):
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", url)
        with pytest.raises(CredentialsError):
            PARTS[part]()
        assert asked == []


def test_a_managed_identity_is_asked_for_where_one_may_answer(monkeypatch):
    monkeypatch.setenv("CLOUDGAN_NO_METADATA_SERVER", "")
    kinds = {type(one).__name__ for one in find_login().credentials}
    assert "ManagedIdentityCredential" in kinds


def test_the_endpoint_variable_replaces_the_resource_manager_everywhere(monkeypatch, tmp_path):
    pytest.importorskip("azure.mgmt.containerservice")
    from emulators.azure import small_azure
    from emulators.azure.connect_proxy import Gate

    with small_azure(tmp_path) as azure:
        gate = Gate({"login.microsoftonline.com": azure.server.port})
        for name, value in {
            "AZURE_CLIENT_ID": "a-physicist",
            "AZURE_CLIENT_SECRET": SECRET,
            "AZURE_TENANT_ID": TENANT,
            "CLOUDGAN_AZURE_ENDPOINT": f"https://127.0.0.1:{azure.server.port}",
            "HTTPS_PROXY": gate.url,
            "NO_PROXY": "127.0.0.1",
            "REQUESTS_CA_BUNDLE": str(azure.files.authority),
        }.items():
            monkeypatch.setenv(name, value)
        with contextlib.closing(gate):
            found = PARTS["client"]()
        assert SUBSCRIPTION in found["subscription"]
        assert gate.refused == [], "such as management.azure.com"
