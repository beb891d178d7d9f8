"""deploy/Dockerfile, built and run without Docker: `python -m pytest -m image tests/deploy`.

It runs with `-m image` only, because building takes minutes, gigabytes and a package index. IMAGE_BASE
names another base than the one that is made here of Debian packages, IMAGE_BUILT an image that was
built before.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import cloudgan
from cloudgan.launch.operations.image_context import write_context

pytestmark = pytest.mark.image

ROOT = Path(__file__).parents[2]
USER = 10001
PACKAGES = "python3-minimal,python3-venv,python3-pip,ca-certificates"
# How pip finds its index here; the build sees these files and keeps none of them.
OF_THIS_MACHINE = ("/etc/pip.conf", "/etc/ssl/certs")


def buildah(*arguments, check=True):
    chroot = {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "overlay"}
    done = subprocess.run(
        ["buildah", *map(str, arguments)],
        env=chroot | os.environ,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 or not check, done.stdout[-4000:] + done.stderr[-4000:]
    return done


@pytest.fixture(scope="module", autouse=True)
def tools():
    if not shutil.which("buildah"):
        pytest.skip("needs buildah: apt-get install buildah mmdebstrap")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    if named := os.environ.get("IMAGE_BASE"):
        return named
    if not shutil.which("mmdebstrap"):
        pytest.skip("needs mmdebstrap, or IMAGE_BASE")
    archive = tmp_path_factory.mktemp("base") / "base.tar"
    make = ["mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", archive]
    if subprocess.run(make, capture_output=True).returncode:
        pytest.skip("no base: Debian's packages are out of reach; set IMAGE_BASE")
    container = buildah("from", "scratch").stdout.strip()
    buildah("add", "--quiet", container, archive, "/")
    buildah("commit", "--quiet", container, "localhost/cloudgan-test-base")
    buildah("rm", container)
    return "localhost/cloudgan-test-base"


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    folder = tmp_path_factory.mktemp("context")
    write_context(folder, "cpu")
    return folder


def build(base, context, *arguments, check=True):
    there = [path for path in OF_THIS_MACHINE if Path(path).exists()]
    volumes = [f"--volume={path}:{path}:ro" for path in there]
    how = ("--layers=false", "--network=host", f"--build-arg=BASE={base}")
    return buildah("bud", *how, *volumes, *arguments, context, check=check)


@pytest.fixture(scope="module")
def container(request):
    image = os.environ.get("IMAGE_BUILT")
    if not image:
        image = "localhost/cloudgan-test:cpu"
        base, context = map(request.getfixturevalue, ("base", "context"))
        build(base, context, f"--tag={image}")
    made = buildah("from", image).stdout.strip()
    yield made
    buildah("rm", made)


@pytest.fixture
def run(container, tmp_path):
    tmp_path.chmod(0o755)
    (work := tmp_path / "work").mkdir()
    os.chown(work, USER, USER)

    def run_(*command, check=True):
        volume = f"--volume={work}:/cloudgan/scratch"
        return buildah("run", volume, container, "--", *command, check=check)

    return run_


def test_the_image_starts_the_program_as_a_user_without_privileges(container, run):
    config = json.loads(buildah("inspect", container).stdout)["OCIv1"]["config"]
    assert config["Entrypoint"] == ["python", "-m", "cloudgan"]
    assert config["User"] == f"{USER}:{USER}"
    assert cloudgan.__version__ in run("python", "-m", "cloudgan", "--version").stdout
    assert run("id", "-u").stdout.strip() == str(USER)


def test_it_trains_and_writes_nowhere_but_in_its_work_folder(container, run):
    python = ("python", "-m", "cloudgan")
    run(*python, "simulate", "showers.h5", "--showers=64")
    run(*python, "train", "--preset=smoke", "--data=showers.h5", "--max-steps=1", "--run=./run")
    assert "step-000000001.npz" in run("ls", "run/checkpoints").stdout
    search = ("find", "/", "-xdev", "-user", USER, "-not", "-path", "/proc/*")
    written = run(*search, check=False).stdout.split()  # it may not look into every folder
    allowed = ("/cloudgan/scratch", "/tmp")  # noqa: S108
    assert "/cloudgan/scratch" in written
    assert not [path for path in written if not path.startswith(allowed)]
    assert run("touch", "/opt/cloudgan/note", check=False).returncode


def test_it_starts_from_the_bytecode_that_was_made_once(run):
    code = "import importlib.util as u, sys; print(u.cache_from_source(sys.argv[1]))"
    for module in ("cloudgan/__init__.py", "tensorflow/__init__.py"):
        found = run("sh", "-c", f"echo /opt/cloudgan/lib/python3.*/site-packages/{module}").stdout
        compiled = run("python", "-c", code, found.strip()).stdout.strip()
        flags = run("python", "-c", f"print(open({compiled!r}, 'rb').read(8)[4])").stdout
        assert flags.strip() == "1", "its validity hangs on times, which layers change"


def test_nothing_of_its_making_is_left_in_it(container, run):
    look = "ls -d /build ~root/.cache /tmp/pip* /etc/pip.conf 2>/dev/null; true"
    assert not buildah("run", "--user=root", container, "--", "sh", "-c", look).stdout
    listed = run("python", "-m", "pip", "list", "--format=json").stdout
    assert not {"hatchling", "pytest", "kubernetes"} & {one["name"] for one in json.loads(listed)}
