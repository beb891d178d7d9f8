"""Parsing of image references."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.launch.container_registry.image_reference import parse

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("text", "host", "repository", "tag", "digest"),
    [
        ("python", "docker.io", "library/python", "latest", None),
        ("python:3.11-slim", "docker.io", "library/python", "3.11-slim", None),
        ("tensorflow/tensorflow:2.21.0", "docker.io", "tensorflow/tensorflow", "2.21.0", None),
        ("docker.io/python", "docker.io", "library/python", "latest", None),
        ("index.docker.io/lab/gan:1", "docker.io", "lab/gan", "1", None),
        ("localhost/gan", "localhost", "gan", "latest", None),
        ("localhost:5000/lab/gan:1", "localhost:5000", "lab/gan", "1", None),
        ("ghcr.io/lab/gan", "ghcr.io", "lab/gan", "latest", None),
        ("registry.example:5000/a/b/c:t", "registry.example:5000", "a/b/c", "t", None),
        (f"lab/gan@{DIGEST}", "docker.io", "lab/gan", None, DIGEST),
        (f"lab/gan:1@{DIGEST}", "docker.io", "lab/gan", "1", DIGEST),
        (
            "123456789012.dkr.ecr.eu-west-1.amazonaws.com/cloudgan:1",
            "123456789012.dkr.ecr.eu-west-1.amazonaws.com",
            "cloudgan",
            "1",
            None,
        ),
    ],
)
def test_references_parse_as_docker_parses_them(text, host, repository, tag, digest):
    found = parse(text)
    assert (found.host, found.repository) == (host, repository)
    assert (found.tag, found.digest) == (tag, digest)


def test_a_digest_is_added_and_the_rest_stays_as_given():
    assert parse("tensorflow/tensorflow:2.21.0").with_digest(DIGEST) == (
        f"tensorflow/tensorflow:2.21.0@{DIGEST}"
    )
    assert parse("python").with_digest(DIGEST) == f"python:latest@{DIGEST}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Lab/gan", "lower case"),
        ("", "not a valid image name"),
        ("lab/gan:", "not a valid tag"),
        ("lab/gan:a b", "not a valid tag"),
        ("lab//gan", "not a valid"),
        ("https://ghcr.io/lab/gan:1", "not a valid"),
        ("lab/gan@sha256:12", "64 hexadecimal digits"),
        ("lab/gan@md5:0123", "64 hexadecimal digits"),
        ("ghcr.io/", "not a valid image name"),
    ],
)
def test_an_invalid_reference_is_refused_with_an_example(text, message):
    with pytest.raises(ConfigError, match=message):
        parse(text)
