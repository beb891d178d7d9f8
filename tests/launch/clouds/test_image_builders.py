"""The first command of an image build, run in a real shell on a real context."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from cloudgan.launch.clouds.aws import image_requests as aws
from cloudgan.launch.clouds.gcp import image_requests as gcp
from cloudgan.launch.ops.image_build import ImageContext
from cloudgan.schema.image_order import ImageBuildRequest
from cloudgan.schema.plan import Target

CONTEXT = ImageContext(
    {
        "deploy/Dockerfile": b"FROM scratch\n",
        "requirements/pod.txt": b"a==1\n",
        "dist/cloudgan-1.0-py3-none-any.whl": b"PK",
    }
)


def of_gcp():
    """Command and variables of the first step; Cloud Build reads $$ as $."""
    order = ImageBuildRequest(
        Target(provider="gcp", account="lab", region="r"), "gs://b", "cpu", "t", CONTEXT.sha256
    )
    first = gcp.build_step(order).body["steps"][0]
    (flag, text) = first["args"]
    assert (first["entrypoint"], flag) == ("bash", "-c")
    assert "$" not in text.replace("$$", "")
    return text.replace("$$", "$"), dict(each.split("=") for each in first["env"])


def of_aws():
    """The commands before the build, and the variables."""
    order = ImageBuildRequest(
        Target(provider="aws", account="1", region="r"), "s3://b", "cpu", "t", CONTEXT.sha256
    )
    body = aws.build_step(order).body
    commands = json.loads(body["buildspecOverride"])["phases"]["build"]["commands"]
    variables = {one["name"]: one["value"] for one in body["environmentVariablesOverride"]}
    docker = next(at for at, command in enumerate(commands) if "docker" in command)
    return "\n".join(commands[:docker]), variables


def replaced(folder):
    (folder / "requirements/pod.txt").write_bytes(b"b==1\n")


def added(folder):
    (folder / "dist" / "other.whl").write_bytes(b"PK")


def hidden(folder):
    """A name that looks like two lines of the list of files."""
    (folder / "dist" / "a\n.").mkdir()
    (folder / "dist" / "a\n." / "deploy").write_bytes(b"")


def linked(folder):
    (folder / "dist" / "other.whl").symlink_to("/etc/hostname")


def removed(folder):
    (folder / "requirements/pod.txt").unlink()


@pytest.mark.parametrize("builder", [of_gcp, of_aws])
@pytest.mark.parametrize("change", [None, replaced, added, hidden, linked, removed])
def test_a_build_ends_before_it_reads_a_context_that_another_writer_changed(
    builder, change, tmp_path
):
    for name, content in CONTEXT.files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    if change:
        change(tmp_path)
    command, variables = builder()
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        env=variables | {"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )
    assert done.returncode == (1 if change else 0), done.stdout + done.stderr
    assert ("another writer of the bucket" in done.stdout) is bool(change)
