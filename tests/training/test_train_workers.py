"""Workers that lose one of them, or get a signal, in real processes of `cloudgan train`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder

pytestmark = [pytest.mark.tf, pytest.mark.slow]


def children_of(process):
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(child) for child in found.read_text().split()]


def peers_of(process):
    """The addresses of its workers, from the environment of one of them; none before they start."""
    for child in children_of(process):
        with suppress(OSError):  # it ended meanwhile
            variables = Path(f"/proc/{child}/environ").read_bytes().decode().split("\0")
            for one in variables:
                if one.startswith("TF_CONFIG="):
                    return json.loads(one.partition("=")[2])["cluster"]["worker"]
    return []


def test_the_ports_of_workers_are_held_and_when_one_dies_the_others_stop_and_it_is_named(
    config_file, tmp_path, start, wait_for
):
    config = config_file(plain=True, global_batch_size=8, checkpoint={"every_steps": 2})
    run = tmp_path / "run"
    flags = (f"--config={config}", f"--run={run}", "--workers=2", "--allow-open-ports")
    process = start("train", *flags, "--max-steps=100000")
    for peer in wait_for(process, lambda: peers_of(process)):  # the workers still import TensorFlow
        host, _, port = peer.partition(":")
        with socket.socket() as thief, pytest.raises(OSError, match="Address already in use"):
            thief.bind((host, int(port)))
    wait_for(process, (RunFolder(run).checkpoints / "step-000000002.npz").exists)
    children = children_of(process)
    assert len(children) == 2
    os.kill(children[1], signal.SIGKILL)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 1
    assert "worker 1 of 2" in out
    assert "died with SIGKILL" in out
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
    epochs = record.read(RunFolder(run).record_file).epochs()
    newest = max(RunFolder(run).checkpoints.glob("step-*.npz"))
    assert sum(epoch.steps for epoch in epochs) == int(newest.stem[5:])


def test_a_worker_that_joined_by_tf_config_stops_when_another_dies_and_names_it(
    config_file, tmp_path, free_ports, start, wait_for
):
    run, peers = tmp_path / "run", [f"127.0.0.1:{port}" for port in free_ports(2)]
    config = config_file(plain=True, global_batch_size=8)
    clusters = [
        json.dumps({"cluster": {"worker": peers}, "task": {"type": "worker", "index": index}})
        for index in range(2)
    ]
    flags = (
        "train",
        f"--config={config}",
        f"--run={run}",
        "--max-steps=100000",
        "--allow-open-ports",
    )
    other = start(*flags, TF_CONFIG=clusters[1])
    chief = start(*flags, TF_CONFIG=clusters[0], until=RunFolder(run).record_file.exists)
    wait_for(chief, lambda: record.read(RunFolder(run).record_file).epochs())
    other.kill()
    other.communicate()
    out, _ = chief.communicate(timeout=600)
    assert chief.returncode == 75, out  # 75: a lost machine is no error of the user
    assert f"worker 1 ({peers[1]}) stopped answering" in out


def test_workers_stop_together_on_sigterm_and_save_and_no_other_address_reached_them(
    config_file, tmp_path
):
    config = config_file(plain=True, global_batch_size=8, checkpoint={"every_steps": 2})
    run, address = tmp_path / "run", "10.0.0.1"
    own_network = all(map(shutil.which, ("unshare", "ip")))
    setup = f'ip link set lo up && ip addr add {address}/32 dev lo && exec "$@"'
    unshare = ("unshare", "--user", "--net", "--map-root-user", "sh", "-c", setup, "sh")
    done = subprocess.run(
        [
            *(unshare if own_network else ()),
            *(sys.executable, Path(__file__).with_name("reach_workers.py"), run, address),
            *(sys.executable, "-m", "cloudgan", "train", f"--config={config}", f"--run={run}"),
            *("--workers=2", "--max-steps=100000"),
        ],
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["exit_code"] == 75
    last = record.read(RunFolder(run).record_file).lines[-1]
    assert isinstance(last, record.Stopped)
    assert last.reason == "terminated"
    assert (RunFolder(run).checkpoints / f"step-{last.step:09d}.npz").exists()
    if not own_network:
        pytest.skip("no unshare or ip; only the end of the workers was tested")
    assert (found["workers"], len(found["ports"])) == (2, 2)
    assert found["reached"] == []
    assert found["shown"] == []
