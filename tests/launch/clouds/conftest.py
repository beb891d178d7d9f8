"""An emulated account of each cloud: `lab` is that of the test's folder, or of its parameter."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest


def aws(folder, cluster=None):
    pytest.importorskip("boto3")
    pytest.importorskip("moto")
    from emulators.aws import amazon
    from launch.clouds.aws.lab import AwsLab

    return amazon(), lambda made: AwsLab(folder, made, cluster)


def azure(folder, cluster=None):
    pytest.importorskip("azure.mgmt.containerservice")
    from emulators.azure import small_azure
    from launch.clouds.azure.lab import AzureLab

    return small_azure(folder), lambda made: AzureLab(folder, made, cluster)


def gcp(folder, cluster=None):
    pytest.importorskip("google.auth", reason="needs pip install '.[gcp]'")
    pytest.importorskip("googleapiclient", reason="its discovery documents check what is sent")
    from emulators.gcp.project import project
    from launch.clouds.gcp.lab import GcpLab

    return project(), lambda made: GcpLab(folder, made, cluster)


@contextlib.contextmanager
def opened(provider, folder, cluster=None):
    """Opens an account after `setup`; its clusters are a test cluster."""
    folder.mkdir(exist_ok=True)
    account, lab_of = {"aws": aws, "azure": azure, "gcp": gcp}[provider](folder, cluster)
    with account as made:
        yield lab_of(made)


def cloud_of(request):
    return getattr(request, "param", Path(request.path).parent.name)


@pytest.fixture
def lab(request, tmp_path):
    """An account without a cluster behind it: for requests to the cloud alone."""
    with opened(cloud_of(request), tmp_path) as made:
        yield made


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
