"""A real Slurm of two nodes on loopback, from the programs of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo")
SBIN = "/usr/sbin:/sbin"  # not in the PATH of all users


@contextmanager
def local_slurm(folder):
    """Starts the daemons in a folder with a short path; sets SLURM_CONF and PATH in the block.

    Skips the test where Slurm is not installed, and for users other than root.
    """
    path = f"{os.environ['PATH']}:{SBIN}"
    missing = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)} here (Debian: slurmctld slurmd slurm-client munge)")
    if os.geteuid() != 0:
        pytest.skip("slurmd starts jobs as their users, which only root may")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        patch.setenv("PATH", path)
        daemons = []
        try:
            _start(folder, daemons)
            yield
        finally:
            for daemon in reversed(daemons):
                daemon.send_signal(signal.SIGTERM)
                try:
                    daemon.wait(20)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()


def _start(folder, daemons):
    for name in ("state", "spool"):
        (folder / name).mkdir()
    # A socket's name has at most 107 characters; pytest's folders are short enough.
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    control, first, second = _free_ports(3)
    (folder / "slurm.conf").write_text(_CONFIG.format(**locals()), encoding="utf-8")
    names = {"socket": "socket", "key": "key-file", "pid": "pid-file", "log": "log-file"}
    munge = [f"--{option}={folder}/munge.{name}" for name, option in names.items()]
    _daemon(folder, daemons, "munged", "--foreground", "--force", *munge,
            f"--seed-file={folder}/munge.seed")  # fmt: skip
    _until((folder / "munge.socket").exists, folder)
    _daemon(folder, daemons, "slurmctld", "-D")
    for node in ("n1", "n2"):
        _daemon(folder, daemons, "slurmd", "-D", "-N", node)
    _until(lambda: _idle_nodes() == 2, folder)


def _daemon(folder, daemons, *command):
    with (folder / f"{command[0]}.out").open("ab") as out:
        daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out))


def _idle_nodes():
    done = subprocess.run(
        ("sinfo", "--noheader", "--partition=all", "--states=idle", "--format=%D"),
        capture_output=True,
        text=True,
    )
    return int(done.stdout.strip() or 0) if done.returncode == 0 else 0


def _until(is_true, folder):
    deadline = time.monotonic() + 60
    while not is_true():
        if time.monotonic() > deadline:
            said = [path.read_text(errors="replace")[-2000:] for path in folder.glob("*.out")]
            pytest.fail("Slurm does not start:\n" + "\n".join(said))
        time.sleep(0.1)


def _free_ports(count):
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


_CONFIG = """\
ClusterName=tiny
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={control}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool/%n
StateSaveLocation={folder}/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0
MpiDefault=none
ReturnToService=2
KillWait=2
SlurmdParameters=config_overrides
NodeName=n1 NodeAddr=127.0.0.1 Port={first} CPUs=2 RealMemory=2000
NodeName=n2 NodeAddr=127.0.0.1 Port={second} CPUs=2 RealMemory=2000
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE
PartitionName=short Nodes=n1 MaxTime=10
"""
