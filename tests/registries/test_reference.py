"""Names of images."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.registries.reference import parse

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
def test_a_name_means_what_it_means_to_docker(text, host, repository, tag, digest):
    found = parse(text)
    assert (found.host, found.repository) == (host, repository)
    assert (found.tag, found.digest) == (tag, digest)


def test_a_digest_is_added_and_the_rest_stays_as_it_was_typed():
    assert parse("tensorflow/tensorflow:2.21.0").with_digest(DIGEST) == (
        f"tensorflow/tensorflow:2.21.0@{DIGEST}"
    )
    assert parse("python").with_digest(DIGEST) == f"python:latest@{DIGEST}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Lab/gan", "lower case"),
        ("", "can be no name"),
        ("lab/gan:", "can be no tag"),
        ("lab/gan:a b", "can be no tag"),
        ("lab//gan", "can be no"),
        ("https://ghcr.io/lab/gan:1", "can be no"),
        ("lab/gan@sha256:12", "64 hexadecimal digits"),
        ("lab/gan@md5:0123", "64 hexadecimal digits"),
        ("ghcr.io/", "can be no name"),
    ],
)
def test_what_is_no_name_is_refused_with_how_to_write_one(text, says):
    with pytest.raises(ConfigError, match=says):
        parse(text)
