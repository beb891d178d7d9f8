"""An emulated account of each cloud: `lab` is that of the test's folder, or of its parameter."""

from pathlib import Path

import pytest

from launch.clouds.lab import opened


def cloud_of(request):
    return getattr(request, "param", Path(request.path).parent.name)


@pytest.fixture
def lab(request, tmp_path):
    """An account without a cluster behind it: for requests to the cloud alone."""
    with opened(cloud_of(request), tmp_path) as made:
        yield made


@pytest.fixture
def aws(lab):
    """An emulated account of AWS after `setup`."""
    return lab.aws


@pytest.fixture
def google(lab):
    """An emulated project of Google Cloud after `setup`."""
    return lab.google


@pytest.fixture
def cloud(lab):
    return lab.cloud()


@pytest.fixture
def cluster(tmp_path):
    """A cluster without nodes, whose containers only wait until SIGTERM."""
    from emulators.kubernetes import Image, local_cluster

    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho begun\nexec sleep 600\n")
    program.chmod(0o755)
    images = {"*": Image({"python": str(program)})}
    with local_cluster(nodes=0, images=images, root=tmp_path) as made:
        yield made


@pytest.fixture
def whole_lab(request, tmp_path, cluster):
    """An account whose clusters run pods."""
    with opened(cloud_of(request), tmp_path / "account", cluster) as made:
        yield made
