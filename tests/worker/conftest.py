"""A team of workers on this machine, in threads or in processes that a test can kill.

The trainer is `fake_training.py`; tests/end_to_end/test_launch.py has the real one.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cloudgan.core.children import hold_port, number_of
from cloudgan.core.run_secret import write_secret
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.worker.agent import WorkerAgent
from cloudgan.worker.pod_environment import read_pod_environment
from cloudgan.worker.preemption import StopRequest
from cloudgan.worker.trainer_process import Timeouts
from data.conftest import make_any_store
from waiting import until
from worker.metadata_double import MetadataDouble

HERE = Path(__file__).parent
RUN = "run-1"
QUICK = {
    "barrier_seconds": 20.0,
    "chief_timeout_seconds": 1.0,
    "fresh_seconds": 0.5,
    "end_seconds": 0.5,
    "upload_seconds": 2.0,
    "join_every_seconds": 0.05,
    "resolve_every_seconds": 0.1,
    "record_every_seconds": 0.1,
    "heartbeat_every_seconds": 0.3,
    "log_every_seconds": 0.2,
    "store_retry_seconds": 0.1,
    "dump_seconds": 0.3,
    "notice_every_seconds": 0.05,
    "poll_seconds": 0.02,
}


def is_dead(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"  # an orphan may be a zombie until it is reaped


def port_pairs(count):
    """Returns ports whose next port is free too, and the sockets that hold both for the servers of agents."""
    held, found = [], []
    while len(found) < count:
        held.append(hold_port("127.0.0.1"))
        port = number_of(held[-1])
        with contextlib.suppress(OSError, OverflowError):
            held.append(hold_port("127.0.0.1", port + 1))
            found.append(port)
    return found, held


class Worker:
    """A worker in a thread, its log and its exit code."""

    def __init__(self, pod, timeouts, command, smoke_step):
        self.lines, self.code, self.error = [], None, None
        self.stop = StopRequest()
        self.agent = WorkerAgent(
            pod,
            timeouts,
            self.lines.append,
            stop=self.stop,
            command=command,
            smoke_step=smoke_step,
        )
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            self.code = self.agent.run()
        except BaseException as error:  # noqa: BLE001  the test's thread raises it
            self.error = error

    def wait(self, seconds=30.0):
        self.thread.join(seconds)
        assert not self.thread.is_alive(), "\n".join(self.lines)
        if self.error:
            raise self.error
        return self.code

    @property
    def output(self):
        return "\n".join(self.lines)


class Team:
    """The workers of one run, their store and the trainer's orders."""

    def __init__(self, root, world, timeouts, orders, training):
        self.root, self.world = root, world
        self.store, self.group = root / "store", root / "group"
        self.run = self.store / "runs" / RUN
        self.timeouts = Timeouts(**(QUICK | timeouts))
        self.timeout_values = QUICK | timeouts
        self.secret = root / "secret"
        ports, self.held_ports = port_pairs(world)
        self.peers = [f"127.0.0.1:{port}" for port in ports]
        self.group.mkdir(parents=True)
        (root / "showers").mkdir()
        write_secret(self.secret)
        self.config = root / "run.yaml"
        document = {"data": {"path": str(root / "showers")}, "model": {"preset": "smoke"}}
        self.config.write_text(json.dumps(document | {"training": training}))
        self.orders = root / "orders.json"
        self.order(**({"steps": 30} | orders))
        self.threads, self.processes = [], []

    def order(self, **orders):
        given = {"store": str(self.run), "group": str(self.group)} | orders
        self.orders.write_text(json.dumps(given))

    def end_soon(self):
        """Orders new trainers to end shortly after the newest checkpoint."""
        end = self.newest() + 100
        self.order(steps=end, pause=0.001)
        return end

    @property
    def command(self):
        return (sys.executable, "-S", str(HERE / "fake_training.py"), str(self.orders))

    def environment(self, index, **changes):
        return {
            "JOB_COMPLETION_INDEX": str(index),
            "CLOUDGAN_WORLD": str(self.world),
            "CLOUDGAN_PEERS": ",".join(self.peers),
            "CLOUDGAN_STORE": str(self.store),
            "CLOUDGAN_RUN": RUN,
            "CLOUDGAN_CONFIG": str(self.config),
            "CLOUDGAN_WORK": str(self.root / f"work-{index}"),
            "CLOUDGAN_SECRET_FILE": str(self.secret),
        } | changes

    def start(self, index, **changes):
        """Starts a worker in a thread."""
        pod = read_pod_environment(self.environment(index, **changes).get)
        smoke = (
            sys.executable,
            "-S",
            str(HERE / "fake_smoke_step.py"),
            str(self.orders),
            str(index),
        )
        worker = Worker(pod, self.timeouts, self.command, smoke)
        self.threads.append(worker)
        return worker

    def start_process(self, index):
        setup = self.root / f"setup-{index}.json"
        setup.write_text(json.dumps({"timeouts": self.timeout_values, "command": self.command}))
        process = subprocess.Popen(
            [sys.executable, str(HERE / "pod_program.py"), str(setup)],
            env=os.environ | self.environment(index),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def new_machine(self, index):
        shutil.rmtree(self.root / f"work-{index}", ignore_errors=True)

    def trainer_pid(self, index):
        """Returns the process ID of a running trainer."""
        return until(lambda: self._pid(index), f"training of worker {index}")

    def _pid(self, index):
        path = self.group / f"pid-{index}"
        return int(path.read_text()) if path.exists() else 0

    def checkpoint(self, at_least):
        return until(lambda: self.newest() >= at_least, f"checkpoint of step {at_least}")

    def newest(self):
        names = (self.run / "checkpoints").glob("step-*.npz")
        return max((int(path.stem[5:]) for path in names), default=-1)

    def began(self, index):
        """Returns the first step of each trainer of worker `index`."""
        paths = sorted((self.group / "began").glob(f"{index}-*"))
        return [int(path.read_text()) for path in paths if path.suffix == ""]

    def seen(self, index):
        """Returns TF_CONFIG and network namespace of each trainer of worker `index`."""
        paths = sorted((self.group / "seen").glob(f"{index}-*"))
        return [json.loads(path.read_text()) for path in paths if path.suffix == ""]

    def smoke_steps(self, index):
        """Returns the TF_CONFIG that each smoke step of worker `index` read."""
        paths = sorted((self.group / "smoke").glob(f"{index}-*"))
        return [json.loads(path.read_text()) for path in paths]

    def heartbeat(self):
        path = self.run / "heartbeat.json"
        return Heartbeat.model_validate_json(path.read_bytes()) if path.exists() else None

    def end(self):
        for worker in self.threads:
            worker.stop.request()
            worker.agent.kill()
        for worker in self.threads:
            worker.thread.join(10)
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        for held in self.held_ports:
            held.close()


@pytest.fixture
def team(tmp_path):
    """Returns a function that creates a team; keyword arguments are timeouts, `orders` the trainer's."""
    made = []

    def make(world=2, *, orders=None, training=None, **timeouts):
        made.append(
            Team(tmp_path / f"team-{len(made)}", world, timeouts, orders or {}, training or {})
        )
        return made[-1]

    yield make
    for one in made:
        one.end()


@pytest.fixture
def wait_until():
    return until


@pytest.fixture
def any_store():
    """Writes a folder with a manifest and files of a few bytes each."""
    return make_any_store


@pytest.fixture
def metadata():
    """Starts metadata services of clouds on loopback."""
    made = []

    def make(cloud):
        made.append(MetadataDouble(cloud))
        return made[-1]

    yield make
    for one in made:
        one.close()
