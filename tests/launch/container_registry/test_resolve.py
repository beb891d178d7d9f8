"""Resolution of a tag to a digest, against a registry on loopback."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import ConfigError, CredentialsError, UnknownNameError
from cloudgan.launch.container_registry.client import RegistryError
from cloudgan.launch.container_registry.image_reference import resolve
from cloudgan.launch.container_registry.login import RegistryLogin
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


def test_a_login_is_never_sent_unencrypted_to_another_machine(registry, opened):
    registry.access, registry.users = "token", {"marie": "radium"}
    registry.realm = "http://tokens.example/token"
    registry.put_image("lab/gan", "1")
    with pytest.raises(RegistryError, match="without encryption"):
        resolve(f"{registry.host}/lab/gan:1", opened(MARIE))
