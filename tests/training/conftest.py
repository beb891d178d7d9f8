"""Without TensorFlow this folder is not collected, so its tests import plainly."""

from __future__ import annotations

import json
import socket
from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("tensorflow") else ["test_*.py"]

if collect_ignore_glob == []:
    from cloudgan.core import settings

    settings.quiet_tensorflow()

    import tensorflow as tf

    # Two logical devices make MirroredStrategy real; TensorFlow takes them before its first op only.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )


@pytest.fixture(scope="session")
def shards(tmp_path_factory):
    """A folder of shards with 90 parametric showers of 9 x 9 x 25 cells, in three shards."""
    from cloudgan.data.convert import convert
    from cloudgan.data.hdf5_writer import write_hdf5
    from cloudgan.simulation.gflash import simulate

    folder = tmp_path_factory.mktemp("showers")
    write_hdf5(folder / "showers.h5", simulate(90, seed=5, cells=(9, 9), block=50))
    convert(str(folder / "showers.h5"), folder / "shards", records_per_shard=32)
    return folder / "shards"


@pytest.fixture
def config_file(tmp_path, shards):
    """Writes a run.yaml for the smoke preset; keyword arguments are keys of `training`."""

    def write(name="config.yaml", *, checkpoint=None, **training):
        path = tmp_path / name
        document = {
            "data": {"path": str(shards)},
            "model": {"preset": "smoke"},
            "training": {"validation_showers": 8} | training,
            "checkpoint": checkpoint or {},
        }
        path.write_text(json.dumps(document))  # JSON is YAML
        return path

    return write


@pytest.fixture
def free_ports():
    """Returns `count` ports of loopback that are free now."""

    def find(count):
        sockets = [socket.socket() for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in sockets]
        for one in sockets:
            one.close()
        return ports

    return find
