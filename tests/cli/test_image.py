"""`cloudgan image`: the build context that it writes, and the build commands that it prints."""

import hashlib
import re
import shlex

import pytest

from cloudgan import __version__

TENSORFLOW = {"cpu": "tensorflow", "gpu": "nvidia-nccl-cu12", "tpu": "tensorflow-tpu"}


pytestmark = pytest.mark.usefixtures("here")


def contents(folder):
    """Returns the bytes of each file below a folder, by name."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize("kind", TENSORFLOW)
def test_the_folder_has_exactly_what_the_dockerfile_copies_for_its_kind(
    cloudgan_here, tmp_path, kind
):
    cloudgan_here("image", f"--kind={kind}")
    found = contents(tmp_path / f"image-{kind}")
    sums = found.pop("SHA256SUMS").decode().splitlines()
    assert sums == [f"{hashlib.sha256(found[name]).hexdigest()}  {name}" for name in sorted(found)]
    text = found.pop("Dockerfile").decode()
    assert set(found) == {
        f"dist/cloudgan-{__version__}-py3-none-any.whl",
        "requirements.txt",
    }
    locked = re.findall(r"(?m)^([a-z0-9-]+)==", found["requirements.txt"].decode())
    assert {TENSORFLOW[kind], "boto3"} <= set(locked)
    assert not {*TENSORFLOW.values()} - {"tensorflow", TENSORFLOW[kind]} & set(locked)
    copied = re.findall(r"(?m)^COPY (?!--from)(\S+)", text)
    assert {name.partition("/")[0] for name in found} == set(copied)
    assert "KIND" not in text, "gcloud passes no build argument"


def test_each_builder_has_one_command_and_the_image_flag_for_its_result(cloudgan_here, tmp_path):
    folder = tmp_path / "of the lab"
    found = cloudgan_here("image", folder, "--kind=tpu", "--json").json()
    assert found.pop("folder") == str(folder)
    found = found["builders"]
    assert set(found) == {"docker", "podman", "gcp", "aws", "azure"}
    tools = {"docker": "docker", "podman": "podman", "gcp": "gcloud", "aws": "aws", "azure": "az"}
    for builder, one in found.items():
        words = shlex.split(one["build"])
        assert (words[0], str(folder) in words) == (tools[builder], True)
        assert ("--platform=linux/amd64" in words) == (builder != "gcp"), "which has no other"
        image = one["use"].removeprefix("--image=")
        assert image.endswith(f"/cloudgan:{__version__}-tpu")
        pushed = [f"--image={image.partition('/')[2]}", "--registry=REGISTRY"]
        assert set(pushed if builder == "azure" else [f"--tag={image}"]) <= set(words)
    assert found["podman"]["build"].endswith(f" && podman push {found['podman']['use'][8:]}")


def test_a_context_is_replaced_and_leaves_nothing_beside_it(cloudgan_here, tmp_path):
    (tmp_path / "mine").mkdir()
    for kind in ("cpu", "gpu", "gpu"):
        cloudgan_here("image", "mine", f"--kind={kind}")
    assert b"nvidia-nccl-cu12==" in contents(tmp_path / "mine")["requirements.txt"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("mine")] == ["mine"]


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "SHA256SUMS").unlink(),
        lambda folder: (folder / "notes.txt").write_text("mine"),
        lambda folder: (folder / "Dockerfile").write_text("FROM scratch"),
        lambda folder: (folder / "requirements.txt").unlink(),
        lambda folder: (folder / "SHA256SUMS").write_bytes(b"\xff"),
        lambda folder: (folder / "link").symlink_to("nowhere"),
    ],
    ids=["not written by it", "one more", "edited", "one less", "damaged", "a dangling link"],
)
def test_a_folder_with_something_else_is_refused_and_left_as_it_is(cloudgan_here, tmp_path, change):
    cloudgan_here("image", "mine", "--kind=cpu")
    change(tmp_path / "mine")
    before = contents(tmp_path / "mine")
    said = cloudgan_here("image", "mine", "--kind=cpu", exits=2).stderr
    assert "not an unchanged build context of `cloudgan image`" in said
    assert contents(tmp_path / "mine") == before


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("notes.txt", "not an unchanged build context"),
        ("notes.txt/image", "a file is in place of a folder|Not a directory"),
        ("loop", "cannot be written"),
        ("gs://lab/image", "is a URL"),
    ],
)
def test_a_place_that_is_no_folder_is_refused(cloudgan_here, tmp_path, given, why):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "loop").symlink_to("loop")
    assert re.search(why, cloudgan_here("image", given, exits=2).stderr)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_long_command_has_its_flag_below_it_in_a_pipe(cloudgan_here):
    rows = cloudgan_here("image", "context").stdout.splitlines()
    assert [row.split()[0] for row in rows if row.startswith("      ")] == 5 * ["then"]
    assert not any("  " in row.strip() for row in rows), "no column as wide as the longest command"
