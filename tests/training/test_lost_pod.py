"""The real training by two workers, one of which is killed: to the very weights of a quiet run."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from cloudgan.schema import record
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.worker.pod_environment import read_pod_environment

pytestmark = pytest.mark.tf
LAST = 40


class Run:
    """Two workers as pods start them, on loopback."""

    def __init__(self, root, shards, ports):
        self.root, self.store = root, root / "store"
        self.run = self.store / "runs" / "drill"
        self.checkpoints = self.run / "checkpoints"
        shutil.copytree(shards, self.store / "data" / "abc")
        document = {
            "data": {"path": "data/abc"},
            "model": {"preset": "smoke"},
            "training": {
                "global_batch_size": 4,
                "max_steps": LAST,
                "threads": 1,
                "steps_per_loop": 2,
                "validation_showers": 0,
            },
            "checkpoint": {"every_steps": 10, "keep": 9},
        }
        (root / "run.yaml").write_text(json.dumps(document))
        self.peers = ",".join(f"127.0.0.1:{port}" for port in ports)
        self.workers = [self._start(index) for index in range(2)]

    def environment(self, index):
        return {
            "JOB_COMPLETION_INDEX": str(index),
            "CLOUDGAN_WORLD": "2",
            "CLOUDGAN_PEERS": self.peers,
            "CLOUDGAN_STORE": str(self.store),
            "CLOUDGAN_RUN": "drill",
            "CLOUDGAN_CONFIG": str(self.root / "run.yaml"),
            "CLOUDGAN_WORK": str(self.root / f"work-{index}"),
        }

    def _start(self, index):
        return subprocess.Popen(
            [sys.executable, "-m", "cloudgan", "worker"],
            env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"} | self.environment(index),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    def newest(self):
        return max((int(path.stem[5:]) for path in self.checkpoints.glob("*.npz")), default=-1)

    def wait_for_a_checkpoint(self):
        deadline = time.monotonic() + 240
        while not 10 <= self.newest() < LAST:
            assert all(worker.poll() is None for worker in self.workers)
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def weights(self):
        with np.load(self.checkpoints / f"step-{LAST:09d}.npz") as archive:
            return {name: archive[name] for name in archive.files if name != "meta.json"}

    def wait(self):
        said = [worker.communicate(timeout=300)[0] for worker in self.workers]
        assert [worker.returncode for worker in self.workers] == [0, 0], "\n".join(said)
        return said

    def end(self):
        for worker in self.workers:
            worker.kill()
            worker.communicate()


def port_pairs(count):
    """Ports that are free, and so is each one's next, where a worker's parent answers."""
    held, found = [], []
    while len(found) < count:
        one, other = socket.socket(), socket.socket()
        held += [one, other]
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
        with contextlib.suppress(OSError, OverflowError):
            other.bind(("127.0.0.1", port + 1))
            found.append(port)
    for each in held:
        each.close()
    return found


def child_of(process):
    listed = subprocess.run(
        ["ps", "--ppid", str(process.pid), "-o", "pid="], capture_output=True, text=True, check=True
    )
    return int(listed.stdout.split()[0])


def test_a_run_that_lost_a_worker_ends_with_the_weights_of_one_that_did_not(tmp_path, shards):
    ports = port_pairs(4)
    (tmp_path / "quiet").mkdir()
    (tmp_path / "disturbed").mkdir()
    disturbed = Run(tmp_path / "disturbed", shards, ports[:2])
    try:
        disturbed.wait_for_a_checkpoint()
        os.kill(child_of(disturbed.workers[1]), signal.SIGKILL)
        said = disturbed.wait()
    finally:
        disturbed.end()
    quiet = Run(tmp_path / "quiet", shards, ports[2:])
    try:
        quiet.wait()
    finally:
        quiet.end()
    assert "generation 2: training with" in said[0]
    assert "generation 2: training with" in said[1]
    ours, theirs = disturbed.weights(), quiet.weights()
    assert ours.keys() == theirs.keys()
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    whole, other = (record.read(run.run / "record.jsonl") for run in (disturbed, quiet))
    # The epoch in which the worker was lost stands in two lines; no step is missing or counts twice.
    for found in (whole.epochs(), other.epochs()):
        assert sorted({line.epoch for line in found}) == [0, 1]
        assert sum(line.steps for line in found) == LAST
    assert any(isinstance(line, record.Resumed) for line in whole.lines)
    # Where the showers were staged changes nothing of what the run is.
    asked = read_pod_environment(disturbed.environment(0).get).config
    assert whole.started().config_hash == asked.config_hash()
    beat = Heartbeat.model_validate_json((disturbed.run / "heartbeat.json").read_bytes())
    assert (beat.generation, beat.step, beat.exit_code) == (2, LAST, 0)
    assert not (tmp_path / "disturbed/work-0/runs/drill/launch.json").exists()
