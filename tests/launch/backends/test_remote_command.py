"""Commands on this machine beside a worker: locally, and as a step of a Slurm job."""

import os

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.launch.backends.local.backend import LocalBackend
from cloudgan.launch.backends.remote_command import CommandStreams, run_process
from cloudgan.launch.backends.slurm import backend as slurm
from cloudgan.launch.backends.tpu_vm.backend import TpuVmBackend
from cloudgan.schema.plan import write
from cloudgan.schema.run_state import RunState, WorkerState


class Kept:
    def __init__(self):
        self.text = {False: b"", True: b""}

    def __call__(self, content, is_error):
        self.text[is_error] += content


@pytest.fixture
def kept():
    return Kept()


def test_both_outputs_and_the_exit_code_are_returned(kept, tmp_path):
    script = "head -c 200000 /dev/zero; printf problem >&2; pwd; exit 9"
    code = run_process(
        ["sh", "-c", script],
        CommandStreams(kept),
        environment={"PATH": os.defpath},
        folder=tmp_path,
    )
    assert (code, kept.text[True]) == (9, b"problem")
    assert kept.text[False] == bytes(200_000) + f"{tmp_path}\n".encode()


def test_a_signal_is_128_and_its_number_and_a_missing_program_bad_input(kept):
    environment = {"PATH": os.defpath}
    code = run_process(["sh", "-c", "kill -9 $$"], CommandStreams(kept), environment=environment)
    assert code == 137
    with pytest.raises(ConfigError, match="no-such-program cannot be run: No such file"):
        run_process(["no-such-program"], CommandStreams(kept), environment=environment)


def test_a_local_worker_has_its_folder_and_variables(kept, plan_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = {"provider": "local", "context": None, "server": None, "namespace": None}
    plan = plan_of(target=place, workers={"nodes": 2, "image": None}, wheels=())
    runs = tmp_path / "runs"
    folder = runs / plan.run / "pods" / "worker-1"
    folder.mkdir(parents=True)
    write(runs / plan.run / "plan.json", plan)
    command = ["sh", "-c", "echo $JOB_COMPLETION_INDEX $CLOUDGAN_WORLD; pwd"]
    assert LocalBackend(runs).execute(plan.run, 1, command, CommandStreams(kept)) == 0
    assert kept.text[False].decode().split() == ["1", "2", str(folder)]


def test_slurm_runs_a_step_on_the_node_of_the_worker(kept, tmp_path, monkeypatch):
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/sh\necho "$@"\nexit 4\n')
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    class Job:
        id = "7"

    found = slurm.SlurmBackend(tmp_path)
    monkeypatch.setattr(slurm, "job_of", lambda commands, run: Job)
    workers = (WorkerState(0, "running", "n1"), WorkerState(1, "running", "n2"))
    monkeypatch.setattr(found, "state", lambda run: RunState("running", workers))
    assert found.execute("gan", 1, ["nvidia-smi", "-L"], CommandStreams(kept)) == 4
    words = "--overlap --jobid=7 --nodes=1 --ntasks=1 --nodelist=n2 nvidia-smi -L\n"
    assert kept.text[False].decode() == words


def test_a_tpu_vm_is_refused_with_the_command_of_the_user_s_own_access(kept, plan_of):
    tpu = object.__new__(TpuVmBackend)
    tpu._name, tpu._plan = "cloudgan-gan", plan_of()
    with pytest.raises(ConfigError, match=r"by SSH only.*tpu-vm ssh cloudgan-gan"):
        tpu.execute("gan", 0, ["true"], CommandStreams(kept))
