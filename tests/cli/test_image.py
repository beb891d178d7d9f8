"""`cloudgan image`: its plan, confirmation and output; the builders have their own tests."""

from __future__ import annotations

import json
import tarfile

import pytest

from cloudgan.launch.container_registry.client import Registry
from cloudgan.launch.ops.image_build import image_context
from cloudgan.schema.image_order import Build

pytestmark = pytest.mark.slow

DIGEST = "sha256:" + "1a" * 32
CLOUDS = ["gcp", "aws", "azure"]


class Builder:
    """A cloud's builder that records its calls and returns a scripted result."""

    account = "lab"

    def __init__(self):
        self.began = []
        self.build = Build("done", "Step 1/9\n", digest=DIGEST)

    def prepare(self, order):
        return iter(())

    def start(self, order, archive):
        self.began.append(archive)
        return "b-1"

    def poll(self, order, build):
        return self.build


@pytest.fixture
def builder(monkeypatch, docker_hub):
    made = Builder()
    monkeypatch.setattr("cloudgan.api.image_builds.open_image_builder", lambda place: made)
    # Every registry is the emulated Docker Hub.
    monkeypatch.setattr(
        "cloudgan.api.image_builds.open_registry",
        lambda host: Registry(host, address=docker_hub.url),
    )
    return made


def test_the_output_file_has_the_context_of_the_clouds(cloudgan_here, tmp_path):
    path = tmp_path / "context.tar.gz"
    said = json.loads(cloudgan_here("image", "--kind=cpu", f"--output={path}", "--json").stdout)
    assert said["bytes"] == path.stat().st_size
    assert "--build-arg KIND=cpu" in said["build"]
    with tarfile.open(path) as archive:
        assert set(archive.getnames()) == set(image_context("cpu").files)


def test_a_missing_provider_or_region_is_refused_with_the_flag(cloudgan_here):
    assert "--provider=aws, azure or gcp" in cloudgan_here("image", exits=2).stderr
    said = cloudgan_here("image", "--provider=gcp", exits=2)
    assert "--region=us-central1" in said.stderr


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_dry_run_shows_every_request_and_needs_no_login(cloudgan_here, cloud):
    flags = (f"--provider={cloud}", "--region=us-central1", "--dry-run")
    lines = cloudgan_here("image", *flags).stdout.splitlines()
    assert lines[0].startswith("image      ")
    assert "MiB" in lines[1]
    assert "unknown" in lines[2], "an unknown cost is not zero"
    found = json.loads(cloudgan_here("image", *flags, "--json").stdout)
    shown = zip(lines[4:], found["steps"], strict=True)
    assert all(line.startswith(f"  {step['ensure']} ") for line, step in shown)
    assert image_context("gpu").sha256[:8] in found["image"], "the same content, the same tag"


@pytest.mark.parametrize("cloud", CLOUDS[:1])
def test_a_build_needs_confirmation_and_prints_the_image_flag(cloudgan_here, builder, cloud):
    flags = (f"--provider={cloud}", "--region=us-central1", "--tag=new")
    said = cloudgan_here("image", *flags, exits=3)
    assert "Confirmation required" in said.stderr
    assert builder.began == []
    said = json.loads(cloudgan_here("image", *flags, "--yes", "--json").stdout)
    assert said["state"] == "built"
    assert said["use"] == f"--image={said['image']}@{DIGEST}"
    assert builder.began == [image_context("gpu").tar_gz()]


@pytest.mark.parametrize("cloud", CLOUDS[:1])
def test_a_failed_build_ends_with_1_and_its_last_lines(cloudgan_here, builder, cloud):
    builder.build = Build("failed", "Step 1/9\nno space left\n", "FAILURE")
    flags = (f"--provider={cloud}", "--region=us-central1", "--tag=new", "--yes")
    said = cloudgan_here("image", *flags, exits=1)
    assert "b-1 failed: FAILURE" in said.stderr
    assert "  no space left" in said.stderr


@pytest.mark.parametrize("cloud", CLOUDS[:1])
def test_an_existing_image_is_not_built_again(cloudgan_here, builder, docker_hub, cloud):
    flags = (f"--provider={cloud}", "--region=us-central1")
    found = json.loads(
        cloudgan_here("image", *flags, "--project=lab", "--dry-run", "--json").stdout
    )
    _, _, rest = found["image"].partition("/")
    repository, _, tag = rest.rpartition(":")
    digest = docker_hub.put_image(repository, tag)
    said = json.loads(cloudgan_here("image", *flags, "--json").stdout)
    assert (said["state"], said["digest"], builder.began) == ("exists", digest, [])
