"""What a builder gets."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zipfile

import pytest

from cloudgan import assets
from cloudgan.launching.image_context import image_context


@pytest.fixture(scope="module")
def context():
    return image_context("gpu")


def unpacked(packed):
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return {one.name: archive.extractfile(one).read() for one in archive}


def test_it_is_exactly_what_the_dockerfile_copies(context):
    text = assets.read_text("deploy/Dockerfile")
    copied = set(re.findall(r"(?m)^COPY (?!--from)(\S+)", text))
    others = set(context.files) - {"deploy/Dockerfile"}
    assert {name.partition("/")[0] for name in others} == copied
    wheel, *locks = sorted(others)
    assert wheel.startswith("dist/cloudgan-")
    assert locks == ["requirements/gpu.txt", "requirements/pod.txt"]


def test_each_kind_brings_the_lock_that_the_dockerfile_takes_for_it():
    for kind, lock in (("cpu", "train"), ("tpu", "tpu")):
        assert f"requirements/{lock}.txt" in image_context(kind).files
    assert "cpu) lock=train ;;" in assets.read_text("deploy/Dockerfile")


def test_the_same_content_makes_the_same_bytes(context):
    again = image_context("gpu")
    assert again.digits == context.digits
    assert again.tar_gz() == context.tar_gz()
    assert again.zip() == context.zip()
    assert image_context("cpu").digits != context.digits


def test_both_archives_hold_the_same_files_of_nobody_and_no_day(context):
    packed = context.tar_gz()
    assert unpacked(packed) == dict(context.files)
    with zipfile.ZipFile(io.BytesIO(context.zip())) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == dict(context.files)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert {(one.uid, one.uname, one.mtime, one.mode) for one in archive} == {(0, "", 0, 0o644)}
    assert gzip.decompress(packed)
    assert packed[4:8] == b"\0\0\0\0", "no time in the header"


def test_it_holds_no_secret_and_stays_small(context):
    assert len(context.tar_gz()) < 2**21
    assert not [name for name in context.files if "test" in name or name.startswith(".")]
