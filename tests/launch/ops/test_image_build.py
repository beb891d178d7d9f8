"""Following a build of any builder."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zipfile

import pytest

from cloudgan.core import assets
from cloudgan.core.errors import LaunchError
from cloudgan.launch.ops.image_build import build_image, image_context
from cloudgan.schema.image_order import Build, ImageBuildRequest
from cloudgan.schema.plan import Target

ORDER = ImageBuildRequest(Target(provider="gcp", account="lab"), "gs://lab", "gpu", "1", "ab" * 32)


class Double:
    """A builder whose builds a test scripts."""

    def __init__(self, *looks):
        self.looks = list(looks)

    def prepare(self, order):
        yield "registry cloudgan"

    def start(self, order, archive):
        assert (order, archive) == (ORDER, b"packed")
        return "b-1"

    def poll(self, order, build):
        assert build == "b-1"
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]


@pytest.fixture
def build():
    def run(*looks, **more):
        run.said, run.shown = [], []
        how = {"poll_seconds": 0.0} | more
        return build_image(
            Double(*looks), ORDER, b"packed", run.said.append, run.shown.append, **how
        )

    return run


def test_each_line_of_the_log_is_shown_once_and_when_it_is_whole(build):
    digest = build(
        Build("running"),
        Build("running", "one\ntw"),
        Build("running", "one\ntwo\n"),
        Build("done", "one\ntwo\nend", digest="sha256:1"),
    )
    assert digest == "sha256:1"
    assert build.shown == ["one", "two", "end"]
    assert build.said == ["made registry cloudgan", "build b-1 began"]


def test_a_failed_build_ends_with_its_last_lines(build):
    log = "".join(f"line {number}\n" for number in range(50))
    with pytest.raises(LaunchError, match=r"FAILURE: step 0") as error:
        build(Build("failed", log, "FAILURE: step 0"))
    assert error.value.exit_code == 1
    lines = str(error.value).splitlines()
    assert (lines[1], lines[-1], len(lines)) == ("  line 30", "  line 49", 21)


def test_a_build_without_log_or_image_says_so(build):
    with pytest.raises(LaunchError, match="TIMEOUT; no log"):
        build(Build("failed", reason="TIMEOUT"))
    with pytest.raises(LaunchError, match="the image is not in the registry"):
        build(Build("done", "well\n"))


def test_a_build_that_never_ends_is_left_alone(build):
    with pytest.raises(LaunchError, match="did not end within"):
        build(Build("running"), patience_seconds=-1.0)


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
    assert again.sha256 == context.sha256
    assert again.tar_gz() == context.tar_gz()
    assert again.zip() == context.zip()
    assert image_context("cpu").sha256 != context.sha256


def test_both_archives_hold_the_same_files_without_owner_and_date(context):
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
