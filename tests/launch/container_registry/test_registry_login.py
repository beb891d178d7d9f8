"""Logins of each cloud's container registry."""

from __future__ import annotations

import base64
import json
from typing import NamedTuple

import pytest

from cloudgan.core.clouds import of_registry
from cloudgan.core.errors import CredentialsError
from cloudgan.launch.container_registry.client import Registry
from cloudgan.launch.container_registry.login import RegistryLogin, registry_login

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
def test_the_cloud_of_a_registry_follows_from_its_host(host, cloud):
    assert of_registry(host) == cloud


def test_a_saved_login_takes_precedence(tmp_path, monkeypatch):
    entry = {"auth": base64.b64encode(b"marie:radium").decode()}
    (tmp_path / "config.json").write_text(json.dumps({"auths": {ECR: entry, "ghcr.io": entry}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert registry_login("ghcr.io") == registry_login(ECR) == RegistryLogin("marie", "radium")
    assert registry_login("docker.io") is None


def test_without_a_login_the_error_names_the_login_command(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(
            name, raising=False
        )  # a moto mock of another file may have left its keys
    for host, how in ((ECR, "AWS_ACCESS_KEY_ID"), ("europe-docker.pkg.dev", "gcloud auth")):
        with pytest.raises(CredentialsError, match=how):
            registry_login(host)


def test_artifact_registry_accepts_a_token_as_password():
    from google.oauth2.credentials import Credentials

    from cloudgan.launch.clouds.gcp.login import registry_login as login

    assert login("europe-docker.pkg.dev", Credentials("ya29")) == RegistryLogin(
        "oauth2accesstoken", "ya29"
    )


def test_ecr_returns_a_password(monkeypatch):
    boto3 = pytest.importorskip("boto3")
    moto = pytest.importorskip("moto")
    from cloudgan.launch.clouds.aws.login import registry_login as login

    # Set before the mock: inside it the patch would keep the mock's own keys and restore those.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with moto.mock_aws():
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


def test_azure_exchanges_its_token_for_a_registry_token(registry, monkeypatch):
    from cloudgan.launch.clouds.azure.registry_login import registry_login as login

    registry.access = "token"
    digest = registry.put_image("cloudgan", "1")
    registry.exchanged = {"eyJ-of-azure": "of-the-registry"}
    found = login(registry.host, Azure())
    assert found == RegistryLogin("00000000-0000-0000-0000-000000000000", "of-the-registry")
    registry.users = {found.user: found.password}
    assert Registry(registry.host, found).digest("cloudgan", "1") == digest
    registry.exchanged = {}
    with pytest.raises(CredentialsError, match=r"rejects this Azure login \(HTTP 401\).*AcrPull"):
        login(registry.host, Azure())
