"""Resolution of a tag to a digest, against a registry on loopback."""

from __future__ import annotations

from email.message import Message

import pytest

from cloudgan.core.errors import ConfigError, CredentialsError, UnknownNameError
from cloudgan.launch.container_registry.client import (
    Registry,
    RegistryError,
    may_receive_login,
)
from cloudgan.launch.container_registry.image_reference import resolve
from cloudgan.launch.container_registry.login import RegistryLogin
from cloudgan.launch.container_registry.transport import Answer
from emulators.registry.content import digest_of

MARIE = RegistryLogin("marie", "radium")
DIGEST = "sha256:" + "0a" * 32


def test_a_tag_becomes_the_digest_of_the_image(registry, opened):
    digest = registry.put_image("lab/gan", "1", "linux/arm64")
    found = resolve(f"{registry.host}/lab/gan:1", opened())
    assert found == (f"{registry.host}/lab/gan:1@{digest}", ("linux/arm64",))


def test_the_index_of_several_platforms_is_pinned(registry, opened):
    digest = registry.put_index("lab/gan", "1", "linux/arm64", "linux/amd64")
    found = resolve(f"{registry.host}/lab/gan:1", opened())
    assert found.image.endswith(f"@{digest}")
    assert found.platforms == ("linux/amd64", "linux/arm64"), "an attestation is no platform"


def test_an_image_with_a_digest_stays_unchanged(registry, opened):
    for image in (f"{registry.host}/lab/gan@{DIGEST}", f"{registry.host}/lab/gan:1@{DIGEST}"):
        assert resolve(image, opened()).image == image
    assert registry.asked == []


def test_docker_hub_images_resolve_at_the_configured_mirror(registry, opened, monkeypatch):
    monkeypatch.setenv("CLOUDGAN_DOCKER_MIRROR", f"{registry.url}/")
    digest = registry.put_image("library/python", "3.11")
    assert resolve("python:3.11", opened()).image == f"python:3.11@{digest}"


def test_without_a_digest_header_the_manifests_hash_is_the_digest(registry, opened):
    digest = registry.put_image("lab/gan", "1")
    registry.names_digest = False
    assert resolve(f"{registry.host}/lab/gan:1", opened()).image.endswith(f"@{digest}")


def test_content_with_another_digest_is_refused(registry, opened):
    registry.put_image("lab/gan", "1")
    registry.lies_about_digest = True
    with pytest.raises(RegistryError, match="but does not have it"):
        resolve(f"{registry.host}/lab/gan:1", opened())
    other = registry.manifest("lab/gan", "1")[1]._replace(content=b"{}")
    registry.manifests["lab/gan"][digest_of(b"")] = other
    with pytest.raises(RegistryError, match=r"is sha256:e3b0\w+, but the content has sha256:4413"):
        resolve(f"{registry.host}/lab/gan:1", opened())


def test_an_unknown_tag_suggests_the_nearest(registry, opened):
    registry.page_size = 2
    for tag in ("2.19.0", "2.20.0", "2.20.0-gpu", "2.21.0", "2.21.0-gpu"):
        registry.put_image("lab/gan", tag)
    with pytest.raises(UnknownNameError, match=r"Did you mean '2\.21\.0-gpu'\?.*2\.19\.0") as error:
        resolve(f"{registry.host}/lab/gan:2.21.0-gpus", opened())
    assert error.value.exit_code == 2


def test_an_unknown_repository_is_reported(registry, opened):
    with pytest.raises(ConfigError, match=r"has no lab/gam:1.*check the name"):
        resolve(f"{registry.host}/lab/gam:1", opened())


def test_a_public_image_needs_an_anonymous_token_only(registry, opened):
    registry.access, registry.public = "token", {"lab/gan"}
    digest = registry.put_image("lab/gan", "1")
    assert resolve(f"{registry.host}/lab/gan:1", opened()).image.endswith(digest)


def test_a_private_image_requires_a_login(registry, opened):
    registry.access, registry.users = "token", {"marie": "radium"}
    digest = registry.put_image("lab/gan", "1")
    with pytest.raises(CredentialsError, match=r"requires a login, and none was found.*401"):
        resolve(f"{registry.host}/lab/gan:1", opened())
    with pytest.raises(CredentialsError, match="refuses this login") as error:
        resolve(f"{registry.host}/lab/gan:1", opened(RegistryLogin("marie", "polonium")))
    assert "polonium" not in str(error.value)
    assert resolve(f"{registry.host}/lab/gan:1", opened(MARIE)).image.endswith(digest)


def test_a_basic_challenge_gets_the_password(registry, opened):
    registry.access, registry.users = "basic", {"marie": "radium"}
    digest = registry.put_image("lab/gan", "1")
    assert resolve(f"{registry.host}/lab/gan:1", opened(MARIE)).image.endswith(digest)
    with pytest.raises(CredentialsError, match="requires a login"):
        resolve(f"{registry.host}/lab/gan:1", opened())
    with pytest.raises(CredentialsError, match="refuses this login"):
        resolve(f"{registry.host}/lab/gan:1", opened(RegistryLogin("marie", "polonium")))


def test_a_token_that_expires_between_two_requests_is_renewed(registry, opened):
    registry.access, registry.public, registry.token_seconds = "token", {"lab/gan"}, 60
    registry.put_image("lab/gan", "1")
    client = opened()(registry.host)
    assert client.digest("lab/gan", "1")
    registry.expire_tokens()
    assert client.manifest("lab/gan", "1")
    assert sum(one.startswith("GET /token") for one in registry.asked) == 2


def test_a_busy_registry_is_retried_after_retry_after(registry, opened, waits):
    digest = registry.put_image("lab/gan", "1")
    registry.failures.extend([(429, {"Retry-After": "7"}), (503, {})])
    assert resolve(f"{registry.host}/lab/gan:1", opened()).image.endswith(digest)
    assert waits == [7.0, 2.0]


def test_a_registry_that_stays_busy_is_an_error(registry, opened, waits):
    registry.failures.extend([(429, {})] * 3)
    with pytest.raises(RegistryError, match="HTTP 429"):
        resolve(f"{registry.host}/lab/gan:1", opened())
    registry.failures.clear()
    waits.clear()
    registry.failures.append((429, {"Retry-After": "3600"}))
    with pytest.raises(RegistryError, match="HTTP 429"):
        resolve(f"{registry.host}/lab/gan:1", opened())
    assert waits == [], "an hour is too long to wait"


def test_a_registry_without_response_is_an_error(registry, opened, waits):
    port = registry.port
    with pytest.raises(RegistryError, match=r"does not answer \(.*refused"):
        resolve(f"127.0.0.1:{1 if port != 1 else 2}/lab/gan:1", opened())
    assert len(waits) == 2


@pytest.mark.parametrize(
    ("host", "url", "expected"),
    [
        ("docker.io", "https://registry-1.docker.io", True),
        ("docker.io", "https://auth.docker.io/token", True),
        ("docker.io", "https://mirror.example.org", False),
        ("docker.io", "https://auth.docker.io.example.org/token", False),
        ("docker.io", "https://auth.docker.io@example.org/token", False),
        ("docker.io", "http://127.0.0.1:5000", False),
        ("ghcr.io", "https://ghcr.io/token", True),
        ("quay.io", "https://evil.io/token", False),
        ("registry.gitlab.com", "https://gitlab.com/jwt/auth", True),
        ("registry.example.org", "https://gitlab.example.org/jwt/auth", True),
        ("registry.example.org", "https://tokens.registry.example.org", True),
        ("registry.example.org", "https://example.org.evil.net/", False),
        ("registry.example.org", "https://notexample.org/", False),
        ("registry.co.uk", "https://tokens.evil.co.uk/", False),
        ("myregistry.azurecr.io", "https://myregistry.azurecr.io/oauth2/token", True),
        ("myregistry.azurecr.io", "https://theirs.azurecr.io/oauth2/token", False),
        ("europe-docker.pkg.dev", "https://evil.pkg.dev/token", False),
        ("127.0.0.1:5000", "http://127.0.0.1:6000/token", True),
        ("10.0.0.1", "https://11.0.0.1/token", False),
        ("registry", "https://tokens/", False),
        ("registry.example.org:5000", "https://registry.example.org/token", True),
    ],
)
def test_a_login_is_sent_to_hosts_of_its_registry_only(host, url, expected):
    assert may_receive_login(host, url) is expected


def test_the_login_of_docker_hub_is_not_sent_to_a_mirror(registry, opened, monkeypatch):
    monkeypatch.setenv("CLOUDGAN_DOCKER_MIRROR", registry.url)
    registry.access, registry.users = "basic", {"marie": "radium"}
    registry.put_image("lab/gan", "1")
    with pytest.raises(CredentialsError, match=r"login of docker\.io is not sent to 127\.0\.0\.1"):
        resolve("lab/gan:1", opened(MARIE))
    assert not any(registry.logins)
    registry.access, registry.public = "token", {"lab/gan"}
    assert "@sha256:" in resolve("lab/gan:1", opened(MARIE)).image, "public images need no login"


def test_a_login_is_not_sent_to_a_token_service_of_another_domain():
    class Answers:
        def __init__(self):
            self.sent = []

        def send(self, method, url, headers, body=None):
            self.sent.append((url, headers.get("Authorization", "")))
            if "/token" in url:
                return Answer(200, Message(), b'{"token": "anonymous"}')
            if "Bearer" in headers.get("Authorization", ""):
                return Answer(401, Message(), b"")
            asked = Message()
            asked["WWW-Authenticate"] = 'Bearer realm="https://evil.example.net/token"'
            return Answer(401, asked, b"")

    answers = Answers()
    client = Registry("registry.example.org", MARIE, transport=answers)
    with pytest.raises(CredentialsError, match=r"is not sent to evil\.example\.net"):
        client.digest("lab/gan", "1")
    assert not any("Basic" in authorization for _, authorization in answers.sent)


def test_a_registry_elsewhere_cannot_have_its_token_fetched_from_this_machine():
    class Answers:
        def send(self, method, url, headers, body=None):
            assert "127.0.0.1" not in url
            asked = Message()
            asked["WWW-Authenticate"] = 'Bearer realm="http://127.0.0.1:8080/token"'
            return Answer(401, asked, b"")

    with pytest.raises(RegistryError, match="here"):
        Registry("registry.example.org", transport=Answers()).digest("lab/gan", "1")


def test_a_login_is_never_sent_unencrypted_to_another_machine(registry, opened):
    registry.access, registry.users = "token", {"marie": "radium"}
    registry.realm = "http://tokens.example/token"
    registry.put_image("lab/gan", "1")
    with pytest.raises(RegistryError, match="without encryption"):
        resolve(f"{registry.host}/lab/gan:1", opened(MARIE))
