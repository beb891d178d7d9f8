"""Without TensorFlow this folder is not collected, so its tests import plainly."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import time
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest

from cloudgan.schema.run_folder import RunFolder
from forking_server import ForkedProgram

if find_spec("tensorflow"):
    from cloudgan.core import settings

    settings.quiet_tensorflow()

    import tensorflow as tf

    # Two logical devices make MirroredStrategy real; TensorFlow takes them before its first op only.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )


META = "meta.json"


def _write_store(folder, showers):
    from cloudgan.data.convert import convert
    from cloudgan.data.hdf5_writer import write_hdf5
    from cloudgan.simulation.gflash import simulate

    write_hdf5(folder / "showers.h5", simulate(showers, seed=5, cells=(9, 9), block=50))
    convert(str(folder / "showers.h5"), folder / "store")


@pytest.fixture(scope="session")
def store(made_once):
    """A store of 90 parametric showers of 9 x 9 x 25 cells."""
    return made_once("showers", partial(_write_store, showers=90)) / "store"


@pytest.fixture(scope="session")
def write_config(store, plain_model):
    """Writes a run.yaml for the smoke preset; other keyword arguments are keys of `training`.

    A `plain` model has fewer parts, and starts sooner.
    """

    def write(path, *, plain=False, model=None, checkpoint=None, parallel=None, **training):
        document = {
            "data": {"path": str(store)},
            "model": model or (plain_model if plain else {"preset": "smoke"}),
            "training": {"validation_showers": 8} | training,
            "checkpoint": checkpoint or {},
            "parallel": parallel or {},
        }
        path.write_text(json.dumps(document))  # JSON is YAML
        return path

    return write


@pytest.fixture
def config_file(tmp_path, write_config):
    """Writes the run.yaml of a test, as `write_config` does."""
    return partial(write_config, tmp_path / "config.yaml")


@pytest.fixture(scope="session")
def two_steps(made_once, write_config, run_cloudgan):
    """A folder with config.yaml, its `run` of two steps, on one thread with the published convolutions, and
    stderr.txt, what the process said.

    Tests only read it, or copy it to resume it.
    """

    def make(folder):
        options = {"batch_per_replica": 8, "threads": 1, "conv_impl": "published", "max_steps": 2}
        config = write_config(folder / "config.yaml", plain=True, **options)
        # Not forked: the peak of memory that it records is that of a start.
        done = run_cloudgan("train", f"--config={config}", f"--run={folder / 'run'}", fork=False)
        (folder / "stderr.txt").write_text(done.stderr)

    return made_once("two-steps", make)


@pytest.fixture
def begun(two_steps, tmp_path):
    """A copy of that run, to resume."""
    return shutil.copytree(two_steps / "run", tmp_path / "run")


@pytest.fixture(scope="session")
def saved_arrays():
    """Reads all that the checkpoint of a `step` holds."""

    def read(run, step):
        with np.load(RunFolder(run).checkpoints / f"step-{step:09d}.npz") as archive:
            return {name: archive[name] for name in archive.files if name != META}

    return read


@pytest.fixture(scope="session")
def same_bits(saved_arrays):
    """Compares all that the checkpoints of a step of two runs hold."""

    def compare(run, other, step):
        ours, theirs = saved_arrays(run, step), saved_arrays(other, step)
        assert ours.keys() == theirs.keys()
        for name, array in theirs.items():
            np.testing.assert_array_equal(ours[name], array, err_msg=name)

    return compare


@pytest.fixture(scope="session")
def two_replicas():
    """The one strategy of this process with two replicas.

    A second one would number its collectives like the first, and TensorFlow would mix them up.
    """
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


@pytest.fixture
def start():
    """Starts `python -m cloudgan`, waits `until` a call returns true, and returns the process.

    No process is left at the end of the test.
    """

    def begin(*arguments, until=None, **environment):
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": "-1"} | environment
        words = [str(argument) for argument in arguments]
        process = ends.enter_context(
            contextlib.closing(ForkedProgram(words, environment, merged=True))
        )
        if until:
            _wait(process, until)
        return process

    with contextlib.ExitStack() as ends:
        yield begin


@pytest.fixture(scope="session")
def wait_for():
    """Waits until a call returns what is true, and returns that, while a process runs."""
    return _wait


def _wait(process, until, seconds=400):
    deadline = time.monotonic() + seconds
    while not (found := until()):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)
    return found


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
