"""An account of AWS on loopback, with and without a cluster behind it."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from launch.clouds.aws.lab import IMAGE, RESERVATION, Lab


@pytest.fixture
def aws():
    """An empty account."""
    pytest.importorskip("boto3")
    pytest.importorskip("moto")
    from emulators.aws import amazon

    with amazon() as aws:
        yield aws


@pytest.fixture
def lab(aws, tmp_path):
    """An account after `setup`, and a launcher."""
    lab = Lab(aws, tmp_path)
    lab.setup()
    return lab


@pytest.fixture
def fresh_lab(aws, tmp_path):
    """Opens an account as after `setup`, with a cluster whose nodes are its machines; pods wait."""
    from emulators.kubernetes import Image, local_cluster

    waits = tmp_path / "python"
    waits.write_text("#!/bin/sh\ntrap 'exit 75' TERM\nwhile :; do sleep 0.05; done\n")
    waits.chmod(0o755)
    images = {IMAGE: Image({"python": str(waits)}, {})}
    numbers, session = itertools.count(), aws.session()

    @contextlib.contextmanager
    def opened():
        aws.reset()
        folder = tmp_path / str(next(numbers))
        lab = Lab(aws, folder, session=session)
        lab.setup()
        aws.state.reserve(RESERVATION, "g4dn.xlarge", 2, "us-east-1b")
        with local_cluster(nodes=0, images=images, root=folder) as cluster:
            lab.cluster = cluster
            aws.tie(cluster)
            yield lab

    return opened


@pytest.fixture
def whole_lab(fresh_lab):
    with fresh_lab() as lab:
        yield lab
