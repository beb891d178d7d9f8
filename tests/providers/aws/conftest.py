"""An account of AWS on loopback, with and without a cluster behind it."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from providers.aws.lab import IMAGE, Lab


@pytest.fixture
def aws():
    """An empty account."""
    pytest.importorskip("boto3")
    pytest.importorskip("moto")
    from amazon import amazon

    with amazon() as made:
        yield made


@pytest.fixture
def lab(aws, tmp_path):
    """An account in which `setup` was done, and a launcher."""
    made = Lab(aws, tmp_path)
    made.setup()
    return made


@pytest.fixture
def fresh_lab(aws, tmp_path):
    """Opens an account as after `setup`, with a cluster whose nodes are its machines; pods wait."""
    from cluster import Image, local_cluster

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
        with local_cluster(nodes=0, images=images, root=folder) as cluster:
            lab.cluster = cluster
            aws.tie(cluster)
            yield lab

    return opened


@pytest.fixture
def whole_lab(fresh_lab):
    with fresh_lab() as lab:
        yield lab
