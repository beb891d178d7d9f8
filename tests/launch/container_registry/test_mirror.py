"""An image is copied from one registry into another, for the platform of the nodes."""

from __future__ import annotations

import json

import pytest

from cloudgan.core.errors import ConfigError, CredentialsError
from cloudgan.launch.container_registry.client import RegistryError
from cloudgan.launch.container_registry.image_reference import parse
from cloudgan.launch.container_registry.login import RegistryLogin
from cloudgan.launch.container_registry.mirror import copy_image, platform_image
from cloudgan.launch.container_registry.transport import MOST_BYTES, WebTransport
from emulators.registry import local_registry
from emulators.registry.content import MANIFEST, Manifest

MARIE = RegistryLogin("marie", "planted-password")


@pytest.fixture
def own():
    """The registry of the cloud, which asks for a token with the right to push."""
    with local_registry() as made:
        made.access, made.users = "token", {MARIE.user: MARIE.password}
        yield made


@pytest.fixture
def copied(registry, own, opened):
    """Copies lab/python:3.11; returns whether it copied, and the sizes of the copied blobs."""

    def run(login=MARIE):
        found = platform_image(f"{registry.host}/lab/python:3.11", opened())
        sizes = []
        target = parse(f"{own.host}/lab/cloudgan:python-3.11")
        return copy_image(found, target, opened(login), sizes.append), found, sizes

    return run


def test_the_image_of_the_nodes_platform_has_the_same_digest_there(registry, own, copied):
    registry.put_index("lab/python", "3.11", "linux/arm64", "linux/amd64")
    did, found, sizes = copied()
    assert did
    digest, manifest = own.manifest("lab/cloudgan", "python-3.11")
    assert (digest, manifest.content) == (found.digest, found.manifest)
    assert own.missing_parts("lab/cloudgan", manifest) == []
    assert len(sizes) == 2, "configuration and layer"
    assert b"arm64" not in b"".join(own.blobs.values())


def test_a_second_copy_sends_nothing(registry, own, copied):
    registry.put_image("lab/python", "3.11")
    copied()
    own.asked.clear()
    assert copied()[0] is False
    assert not [line for line in own.asked if line.startswith(("POST", "PUT"))]


def test_an_interrupted_copy_is_continued(registry, own, copied, monkeypatch):
    registry.put_image("lab/python", "3.11")
    send = WebTransport.send

    def fail(self, method, url, *rest):
        if method == "PUT" and "/manifests/" in url:
            raise KeyboardInterrupt
        return send(self, method, url, *rest)

    monkeypatch.setattr(WebTransport, "send", fail)
    with pytest.raises(KeyboardInterrupt):
        copied()
    assert own.manifest("lab/cloudgan", "python-3.11") is None, "no image that lacks a part"
    monkeypatch.undo()
    did, _, sizes = copied()
    assert (did, sizes) == (True, []), "the blobs were there"


def test_a_login_that_may_not_push_is_named(registry, own, copied):
    registry.put_image("lab/python", "3.11")
    with pytest.raises(CredentialsError, match=r"registry 127\.0\.0\.1:\d+ refuses this login"):
        copied(RegistryLogin("marie", "wrong"))
    assert own.blobs == {}


def test_a_damaged_layer_is_not_written(registry, own, copied):
    registry.put_image("lab/python", "3.11")
    for digest in registry.blobs:
        registry.blobs[digest] = registry.blobs[digest][:-1] + b"X"
    with pytest.raises(RegistryError, match="sends a damaged layer"):
        copied()
    assert own.manifests == {}


def test_a_layer_larger_than_any_manifest_is_copied_whole(registry, own, copied):
    layer = bytes(MOST_BYTES + 1)
    body = {"schemaVersion": 2, "mediaType": MANIFEST}
    config, large = (
        {"digest": registry.put_blob(content), "size": len(content)} for content in (b"{}", layer)
    )
    body |= {"config": config, "layers": [large]}
    registry.put_manifest("lab/python", "3.11", Manifest(MANIFEST, json.dumps(body).encode()))
    assert copied()[2] == [2, MOST_BYTES + 1]
    assert own.blobs[large["digest"]] == layer


def test_an_image_of_another_platform_or_name_is_refused(registry, opened):
    registry.put_index("lab/python", "3.11", "linux/arm64")
    with pytest.raises(ConfigError, match="does not exist for linux/amd64"):
        platform_image(f"{registry.host}/lab/python:3.11", opened())
    with pytest.raises(ConfigError, match="cannot be copied"):
        platform_image(f"{registry.host}/lab/python:4", opened())
