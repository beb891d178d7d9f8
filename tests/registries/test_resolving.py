"""From a tag to a digest, against a real registry on loopback."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import ConfigError, CredentialsError, UnknownNameError
from cloudgan.registries.failure import RegistryError
from cloudgan.registries.login import Login
from cloudgan.registries.resolving import resolve
from registry.content import digest_of

MARIE = Login("marie", "radium")
DIGEST = "sha256:" + "0a" * 32


def test_a_tag_becomes_the_digest_of_the_image(registry, opened):
    digest = registry.put_image("lab/gan", "1", "linux/arm64")
    found = resolve(f"{registry.host}/lab/gan:1", opened())
    assert found == (f"{registry.host}/lab/gan:1@{digest}", ("linux/arm64",))


def test_of_several_platforms_the_index_is_pinned(registry, opened):
    digest = registry.put_index("lab/gan", "1", "linux/arm64", "linux/amd64")
    found = resolve(f"{registry.host}/lab/gan:1", opened())
    assert found.image.endswith(f"@{digest}")
    assert found.platforms == ("linux/amd64", "linux/arm64"), "an attestation is no platform"


def test_an_image_with_a_digest_is_left_alone(registry, opened):
    for image in (f"{registry.host}/lab/gan@{DIGEST}", f"{registry.host}/lab/gan:1@{DIGEST}"):
        assert resolve(image, opened()).image == image
    assert registry.asked == []


def test_names_of_docker_hub_are_asked_at_its_mirror(registry, opened, monkeypatch):
    monkeypatch.setenv("CLOUDGAN_DOCKER_MIRROR", f"{registry.url}/")
    digest = registry.put_image("library/python", "3.11")
    assert resolve("python:3.11", opened()).image == f"python:3.11@{digest}"


def test_a_registry_that_tells_no_digest_is_believed_by_the_bytes_of_its_manifest(registry, opened):
    digest = registry.put_image("lab/gan", "1")
    registry.names_digest = False
    assert resolve(f"{registry.host}/lab/gan:1", opened()).image.endswith(f"@{digest}")


def test_a_registry_that_sends_something_else_than_it_says_is_not_believed(registry, opened):
    registry.put_image("lab/gan", "1")
    registry.lies_about_digest = True
    with pytest.raises(RegistryError, match="and then has it not"):
        resolve(f"{registry.host}/lab/gan:1", opened())
    other = registry.manifest("lab/gan", "1")[1]._replace(content=b"{}")
    registry.manifests["lab/gan"][digest_of(b"")] = other
    with pytest.raises(RegistryError, match=r"is sha256:e3b0\w+, and what it sends is sha256:4413"):
        resolve(f"{registry.host}/lab/gan:1", opened())


def test_a_tag_that_does_not_exist_is_answered_with_the_nearest(registry, opened):
    registry.page_size = 2
    for tag in ("2.19.0", "2.20.0", "2.20.0-gpu", "2.21.0", "2.21.0-gpu"):
        registry.put_image("lab/gan", tag)
    with pytest.raises(UnknownNameError, match=r"Did you mean '2\.21\.0-gpu'\?.*2\.19\.0") as told:
        resolve(f"{registry.host}/lab/gan:2.21.0-gpus", opened())
    assert told.value.exit_code == 2


def test_a_repository_that_does_not_exist_is_a_question_of_its_name(registry, opened):
    with pytest.raises(ConfigError, match=r"has no lab/gam:1.*is the name right\?"):
        resolve(f"{registry.host}/lab/gam:1", opened())


def test_anybody_gets_a_token_for_what_is_public(registry, opened):
    registry.access, registry.public = "token", {"lab/gan"}
    digest = registry.put_image("lab/gan", "1")
    assert resolve(f"{registry.host}/lab/gan:1", opened()).image.endswith(digest)


def test_what_is_private_needs_a_login_and_says_so(registry, opened):
    registry.access, registry.users = "token", {"marie": "radium"}
    digest = registry.put_image("lab/gan", "1")
    with pytest.raises(CredentialsError, match=r"wants a login, and none was found here.*401"):
        resolve(f"{registry.host}/lab/gan:1", opened())
    with pytest.raises(CredentialsError, match="refuses this login") as told:
        resolve(f"{registry.host}/lab/gan:1", opened(Login("marie", "polonium")))
    assert "polonium" not in str(told.value)
    assert resolve(f"{registry.host}/lab/gan:1", opened(MARIE)).image.endswith(digest)


def test_a_password_is_shown_where_the_registry_asks_for_one(registry, opened):
    registry.access, registry.users = "basic", {"marie": "radium"}
    digest = registry.put_image("lab/gan", "1")
    assert resolve(f"{registry.host}/lab/gan:1", opened(MARIE)).image.endswith(digest)
    with pytest.raises(CredentialsError, match="wants a login"):
        resolve(f"{registry.host}/lab/gan:1", opened())
    with pytest.raises(CredentialsError, match="refuses this login"):
        resolve(f"{registry.host}/lab/gan:1", opened(Login("marie", "polonium")))


def test_a_token_that_expires_between_two_requests_is_renewed(registry, opened):
    registry.access, registry.public, registry.token_seconds = "token", {"lab/gan"}, 60
    registry.put_image("lab/gan", "1")
    client = opened()(registry.host)
    assert client.digest("lab/gan", "1")
    registry.expire_tokens()
    assert client.manifest("lab/gan", "1")
    assert sum(one.startswith("GET /token") for one in registry.asked) == 2


def test_a_busy_registry_is_asked_again_when_it_says_so(registry, opened, waits):
    digest = registry.put_image("lab/gan", "1")
    registry.failures.extend([(429, {"Retry-After": "7"}), (503, {})])
    assert resolve(f"{registry.host}/lab/gan:1", opened()).image.endswith(digest)
    assert waits == [7.0, 2.0]


def test_a_registry_that_stays_busy_is_given_up_with_its_own_words(registry, opened, waits):
    registry.failures.extend([(429, {})] * 3)
    with pytest.raises(RegistryError, match="HTTP 429"):
        resolve(f"{registry.host}/lab/gan:1", opened())
    registry.failures.clear()
    waits.clear()
    registry.failures.append((429, {"Retry-After": "3600"}))
    with pytest.raises(RegistryError, match="HTTP 429"):
        resolve(f"{registry.host}/lab/gan:1", opened())
    assert waits == [], "nobody waits an hour for a digest"


def test_a_registry_that_does_not_answer_is_said_so(registry, opened, waits):
    port = registry.port
    with pytest.raises(RegistryError, match=r"does not answer \(.*refused"):
        resolve(f"127.0.0.1:{1 if port != 1 else 2}/lab/gan:1", opened())
    assert len(waits) == 2


def test_no_login_travels_without_encryption_beyond_this_machine(registry, opened):
    registry.access, registry.users = "token", {"marie": "radium"}
    registry.realm = "http://tokens.example/token"
    registry.put_image("lab/gan", "1")
    with pytest.raises(RegistryError, match="without encryption"):
        resolve(f"{registry.host}/lab/gan:1", opened(MARIE))
