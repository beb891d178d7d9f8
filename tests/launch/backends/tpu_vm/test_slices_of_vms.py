"""A slice of four VMs: each runs the startup script.

Metadata servers and docker are fakes, and so are the trainers but for the last test, which trains with JAX on CPUs.
"""

import contextlib
import socket
import stat
import sys
from importlib.util import find_spec

import pytest

from cloudgan.core.progress import Silent
from cloudgan.data.convert import convert
from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.launch.backends.tpu_vm.requests import put_secret
from cloudgan.launch.lifecycle.run_results import RunResults
from cloudgan.schema import record
from cloudgan.schema.config import parse_config
from cloudgan.schema.plan import Showers
from cloudgan.schema.run_folder import RunFolder
from cloudgan.simulation.gflash import simulate
from cloudgan.storage.bucket_showers import BucketShowers
from cloudgan.storage.store import open_store
from emulators.gcp.server import TOKEN
from launch.backends.tpu_vm.fake_vm import PREFIX, PYTHON, Bucket, FakeVm, queue
from launch.backends.tpu_vm.lab import planned, resolved, tpus
from storage.servers import gcs_server
from waiting import until

HOSTS = 4


@pytest.fixture(scope="module")
def objects():
    with gcs_server() as url:
        yield url


def free_port():
    """Returns a port that is free, and the next one too, on all addresses of the VMs."""
    while True:
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            with contextlib.suppress(OSError):
                for host in range(1, HOSTS + 1):
                    one = stack.enter_context(socket.socket())
                    one.bind((f"127.0.0.{host}", port + 1))
                return str(port)


class Slice:
    """Four VMs of one queued resource, at 127.0.0.1 to 127.0.0.4."""

    def __init__(self, google, bucket, vms, plan):
        self.google, self.bucket, self.vms, self.plan = google, bucket, vms, plan
        self.port = free_port()

    def boot(self):
        for number, vm in enumerate(self.vms):
            hosts = ",".join(f"unknown:unknown:127.0.0.{host + 1}" for host in range(HOSTS))
            vm.known |= {"attributes/agent-worker-number": str(number)}
            vm.known |= {"attributes/worker-network-endpoints": hosts}
            body = self.plan.steps[-1].body
            vm.boot(body, CLOUDGAN_PORT=self.port)

    def order(self, *codes):
        for vm, code in zip(self.vms, codes, strict=True):
            vm.order(code)

    def wait(self, seconds=60):
        for vm in self.vms:
            vm.process.wait(seconds)
        return self.bucket.status(self.plan)

    def workers(self):
        return [found[0] for vm in self.vms if (found := vm.workers())]


@pytest.fixture
def slice_of(objects, tmp_path):
    with contextlib.ExitStack() as stack:

        def opened(python=PYTHON, config_of=None, **others):
            google = stack.enter_context(tpus())
            google.server.tokens[TOKEN] = None
            bucket = Bucket(objects, f"slice-{tmp_path.name.replace('_', '-')[-40:].lower()}")
            store = f"gs://{bucket.name}"
            if config_of:
                others |= {"config": config_of(store)}
                others["showers"] = Showers(source=others["config"].data.path, records=120)
            made = resolved(planned("v3-32", store=store, **{"wheels": ()} | others))
            queue(google, made)
            vms = [
                FakeVm(tmp_path / f"vm-{n}", objects, google, python=python) for n in range(HOSTS)
            ]
            for vm in vms:
                stack.callback(vm.close)
            return Slice(google, bucket, vms, made)

        yield opened


def test_each_vm_knows_its_number_the_others_and_the_secret_of_the_run(slice_of):
    lab = slice_of(
        python=PYTHON.replace(
            "tpu=$CLOUDGAN_TPU", "$JOB_COMPLETION_INDEX $CLOUDGAN_PEERS $CLOUDGAN_ACCELERATORS"
        )
    )
    lab.bucket.put(f"{PREFIX}secret", b"5" * 64)
    lab.boot()
    until(lambda: len(lab.workers()) == HOSTS)
    peers = ",".join(f"127.0.0.{host + 1}:{lab.port}" for host in range(HOSTS))
    assert sorted(lab.workers()) == [f"worker gan 4 {index} {peers} 4" for index in range(HOSTS)]
    for vm in lab.vms:
        key = vm.home / "var" / "secret" / "key"
        assert key.read_bytes() == b"5" * 64
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert "5555" not in vm.console()
    lab.order(0, 0, 0, 0)
    assert lab.wait()["exit_code"] == 0


def test_the_first_vm_speaks_for_a_slice_that_finished_and_deletes_it(slice_of):
    lab = slice_of()
    lab.bucket.put(f"{PREFIX}secret", b"5" * 64)
    lab.order(0, 0, 0, 0)
    lab.boot()
    status = lab.wait()
    assert (status["phase"], status["exit_code"]) == ("ended", 0)
    assert not lab.google.resources
    deleted = ["deletion of this TPU" in vm.console() for vm in lab.vms]
    assert deleted == [True, False, False, False]
    logs = [lab.bucket.list(f"{PREFIX}logs/{number}/") for number in range(HOSTS)]
    assert [len(names) for names in logs] == [1] * HOSTS, "each has its own log"


def test_a_vm_that_fails_ends_the_slice_with_its_exit_code(slice_of):
    lab = slice_of()
    lab.bucket.put(f"{PREFIX}secret", b"5" * 64)
    lab.boot()
    until(lambda: len(lab.workers()) == HOSTS)
    lab.vms[2].order(2)
    until(lambda: not lab.google.resources)
    status = lab.bucket.status(lab.plan)
    assert (status["phase"], status["exit_code"]) == ("ended", 2)


def test_without_a_secret_no_worker_starts(slice_of):
    lab = slice_of()
    lab.boot()
    status = lab.wait()
    assert (status["phase"], status["exit_code"]) == ("ended", 1)
    assert lab.workers() == []
    assert "no secret of the run" in lab.vms[3].console()


# The image's python: the real interpreter, on a CPU of this machine in place of four chips.
REAL = """#!/bin/bash
export JAX_PLATFORMS=cpu CLOUDGAN_ACCELERATORS=0 PYTHONPATH={path}
export XLA_FLAGS=--xla_backend_optimization_level=0
exec {python} "$@"
"""


@pytest.mark.tf
@pytest.mark.slow
@pytest.mark.skipif(not find_spec("jax"), reason="JAX is not installed")
def test_four_vms_train_with_jax_and_tensorflow_reads_their_checkpoint(
    slice_of, objects, tmp_path, monkeypatch, run_cloudgan
):
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", objects)
    write_hdf5(tmp_path / "showers.h5", simulate(120, seed=5, cells=(9, 9), block=50))
    convert(str(tmp_path / "showers.h5"), tmp_path / "data")
    training = {"engine": "jax", "epochs": 1, "global_batch_size": 32, "strategy": "auto"}
    model = {"preset": "smoke"}

    def config(bucket):
        data = {"path": f"{bucket}/data"}
        return parse_config(
            {"name": "gan", "data": data, "training": training, "model": model}, "a test"
        )

    lab = slice_of(REAL.replace("{path}", ":".join(sys.path)), config_of=config)
    BucketShowers(open_store(lab.plan.showers.source)).upload(tmp_path / "data", Silent())
    put_secret(lab.plan, open_store(lab.plan.store))
    lab.boot()
    status = lab.wait(550)
    assert (status["phase"], status["exit_code"]) == ("ended", 0), lab.vms[0].console()
    assert not lab.google.resources
    results = RunResults.from_plan(lab.plan)
    folder = RunFolder(tmp_path / "gan")
    results.fetch(folder)
    started = record.read(folder.record_file).started()
    assert (started.strategy, started.numerics.workers) == ("multiworker", 4)
    run_cloudgan(
        "generate", str(folder.path), str(tmp_path / "made.h5"), "--showers=10", "--seed=1"
    )
    assert (tmp_path / "made.h5").exists()
