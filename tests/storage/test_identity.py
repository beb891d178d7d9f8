"""Logins of pods that are not ready, or fail later."""

import contextlib
import time

import pytest

from cloudgan.core.errors import CredentialsError
from cloudgan.storage.store import StoreError, open_store
from storage.identity_double import IdentityDouble

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # see conftest


@pytest.fixture
def identity():
    with contextlib.closing(IdentityDouble()) as found:
        yield found


@pytest.fixture
def on_eks(s3, identity, monkeypatch):
    """A pod with Pod Identity."""
    s3.make_bucket(bucket := f"pod-{time.monotonic_ns()}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0.01)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.address)
    where = f"{identity.address}/v1/credentials"
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", where)
    return open_store(f"s3://{bucket}/x")


@pytest.fixture
def on_gke(gcs, identity, monkeypatch):
    """A pod with Workload Identity Federation."""
    gcs.make_bucket(bucket := f"pod-{time.monotonic_ns()}")
    monkeypatch.setenv("API_ENDPOINT_OVERRIDE", gcs.address)
    here = identity.address.removeprefix("http://")
    # google-auth reads GCE_METADATA_HOST and NO_GCE_CHECK when it is imported.
    metadata = pytest.importorskip("google.auth.compute_engine._metadata")
    monkeypatch.setattr(metadata, "_GCE_METADATA_HOST", here)
    monkeypatch.setattr(metadata, "_NO_GCE_CHECK", False)
    monkeypatch.setenv("GCE_METADATA_IP", here)
    return open_store(f"gs://{bucket}/x")


def fails(store):
    """Whether a pod takes this for a failure of the store; a person reads how to log in."""
    try:
        store.put("a", b"a")
    except StoreError as error:
        return isinstance(error, CredentialsError) and "it needs" in str(error)
    return False


@pytest.mark.parametrize(
    ("pod", "status"),
    [
        ("on_eks", 500),
        pytest.param("on_eks", 404, marks=pytest.mark.slow),
        ("on_gke", 404),
        pytest.param("on_gke", 503, marks=pytest.mark.slow),
    ],
)
def test_a_login_that_is_not_ready_or_fails_later_is_a_failure_of_the_store_that_ends(
    request, identity, pod, status
):
    store = request.getfixturevalue(pod)
    for found in (status, 200, status, 200):
        identity.status = found
        assert fails(store) is (found != 200)
    assert store.list() == ("a",)


def test_a_federated_token_that_is_not_there_yet_is_a_failure_of_the_store(
    on_eks, monkeypatch, tmp_path
):
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/pods")
    with pytest.raises(StoreError, match="token"):
        on_eks.list()


UNKNOWN = "AADSTS70021: No matching federated identity record found for presented assertion."
NO_APPLICATION = "AADSTS700016: Application with identifier 'x' was not found in the directory."


@pytest.mark.parametrize("said", [UNKNOWN, NO_APPLICATION, None])
def test_a_federated_credential_that_azure_does_not_know_yet_is_a_failure_of_the_store(said):
    errors = pytest.importorskip("azure.core.exceptions")
    identity = pytest.importorskip("azure.identity")
    from cloudgan.storage.azure import AzureStore, blob_client

    class Pod:
        """As WorkloadIdentityCredential or, without it, ManagedIdentityCredential."""

        def get_token(self, *_, **__):
            if said:
                raise errors.ClientAuthenticationError(said)
            raise identity.CredentialUnavailableError("no response from the IMDS endpoint")

    client = blob_client("https://account.blob.core.windows.net", Pod(), attempts=1)
    store = AzureStore("box", client=client)
    assert fails(store)
    with pytest.raises(CredentialsError, match=said or "IMDS"):
        store.read("a")
