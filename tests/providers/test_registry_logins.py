"""Who one is to the registry of each cloud."""

from __future__ import annotations

import base64
import json
from typing import NamedTuple

import pytest

from cloudgan.core.errors import CredentialsError
from cloudgan.providers.registry_logins import cloud_of, registry_login
from cloudgan.registries.client import Registry
from cloudgan.registries.login import Login

ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"


@pytest.mark.parametrize(
    ("host", "cloud"),
    [
        ("europe-west4-docker.pkg.dev", "gcp"),
        ("europe-docker.pkg.dev", "gcp"),
        ("gcr.io", "gcp"),
        ("eu.gcr.io", "gcp"),
        (ECR, "aws"),
        ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", "aws"),
        ("lab42.azurecr.io", "azure"),
        ("public.ecr.aws", None),
        ("docker.io", None),
        ("ghcr.io", None),
        ("gcr.io.example", None),
        ("evil-lab.azurecr.io.example", None),
    ],
)
def test_a_private_registry_is_known_by_its_host(host, cloud):
    assert cloud_of(host) == cloud


def test_what_somebody_logged_in_to_goes_first(tmp_path, monkeypatch):
    entry = {"auth": base64.b64encode(b"marie:radium").decode()}
    (tmp_path / "config.json").write_text(json.dumps({"auths": {ECR: entry, "ghcr.io": entry}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert registry_login("ghcr.io") == registry_login(ECR) == Login("marie", "radium")
    assert registry_login("docker.io") is None


def test_without_any_login_each_cloud_says_how_to_make_one():
    for host, how in ((ECR, "AWS_ACCESS_KEY_ID"), ("europe-docker.pkg.dev", "gcloud auth")):
        with pytest.raises(CredentialsError, match=how):
            registry_login(host)


def test_google_takes_a_token_as_password():
    from google.oauth2.credentials import Credentials

    from cloudgan.providers.gcp.registry_login import login

    assert login("europe-docker.pkg.dev", Credentials("ya29")) == Login("oauth2accesstoken", "ya29")


def test_ecr_gives_a_password(monkeypatch):
    boto3 = pytest.importorskip("boto3")
    moto = pytest.importorskip("moto")
    from cloudgan.providers.aws.registry_login import login

    with moto.mock_aws():
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        found = login(ECR)
        assert found == login(ECR, boto3.client("ecr", region_name="eu-west-1"))
    assert found.user == "AWS"
    assert found.password


class Token(NamedTuple):
    token: str


class Azure:
    """A credential of azure-identity."""

    def get_token(self, *scopes):
        assert scopes == ("https://management.azure.com/.default",)
        return Token("eyJ-of-azure")


def test_azure_exchanges_its_token_for_one_of_the_registry(registry, monkeypatch):
    from cloudgan.providers.azure.registry_login import login

    registry.access = "token"
    digest = registry.put_image("cloudgan", "1")
    registry.exchanged = {"eyJ-of-azure": "of-the-registry"}
    found = login(registry.host, Azure())
    assert found == Login("00000000-0000-0000-0000-000000000000", "of-the-registry")
    registry.users = {found.user: found.password}
    assert Registry(registry.host, found).digest("cloudgan", "1") == digest
    registry.exchanged = {}
    with pytest.raises(
        CredentialsError, match=r"refuses this login of Azure \(HTTP 401\).*AcrPull"
    ):
        login(registry.host, Azure())
