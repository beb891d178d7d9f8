"""Two nodes of a real Slurm: masters and workers, preempted once, requeued, and to the end; and JAX."""

import json
import subprocess
import threading
import time

import numpy as np
import pytest

from cloudgan.schema import record
from emulators.slurm import local_slurm
from waiting import until

STEPS = 400

pytestmark = [pytest.mark.slow, pytest.mark.slurm]


@pytest.fixture
def slurm(tmp_path_factory):
    """Two nodes of a real Slurm on loopback."""
    folder = tmp_path_factory.mktemp("slurm")
    with local_slurm(folder):
        yield folder


def test_ranks_on_two_nodes_save_when_slurm_preempts_them_and_resume_when_requeued(
    here, shards, slurm, cloudgan_here
):
    pytest.importorskip("mpi4py")
    flags = (
        *("--provider=slurm", f"--store={here / 'shared'}", "--cpus=1", "--memory-gib=0.5"),
        *("--config=plain.yaml", f"--data={shards}", "--seed=3", "--epochs=99"),
        *("--nodes=2", "--parallel=downpour", "--ranks=3", "--sync-every=2"),
        *(
            "--checkpoint-every-steps=1000",
            f"--max-steps={STEPS}",
            "--name=ranks",
            "--yes",
            "--json",
        ),
    )
    preempting = threading.Thread(target=preempt_in_the_middle, args=(here / "shared",))
    preempting.start()
    result = json.loads(cloudgan_here("deploy", *flags).stdout)
    preempting.join()
    assert result["state"] == "finished"
    folder = here / "runs" / "ranks"
    found = record.read(folder / "record.jsonl")
    # Slurm signals all processes of the job at once, also those of Hydra; all ranks saved nevertheless.
    saved = [line.step for line in found.lines if line.kind == "checkpointed"]
    resumed = [line.step for line in found.lines if line.kind == "resumed"]
    assert len(resumed) == 1
    assert 0 < resumed[0] < STEPS
    assert saved == [0, resumed[0], STEPS]
    assert found.stopped().reason == "max_steps"
    assert {line.worker for line in found.lines if line.kind == "exchanged"} == {None, 0, 1}
    with np.load(max((folder / "checkpoints").glob("step-*.npz"))) as archive:
        assert json.loads(archive["meta.json"].tobytes())["step"] == STEPS
    notes = [here / "shared" / "runs" / "ranks" / "slurm" / f"worker-{n}.txt" for n in (0, 1)]
    ends = [[line.split()[-1] for line in path.read_text().splitlines()[1::2]] for path in notes]
    assert ends == [["75", "0"], ["75", "0"]]
    cloudgan_here("down", "ranks")


def test_jax_trains_on_two_nodes(here, shards, slurm, cloudgan_here, monkeypatch):
    pytest.importorskip("jax")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")
    flags = (
        *("--provider=slurm", f"--store={here / 'shared'}", "--cpus=1", "--memory-gib=0.5"),
        *("--nodes=2", "--name=jax", "--yes", "--json", "--", "train", str(shards)),
        *("--config=plain.yaml", "--engine=jax", "--max-steps=2", "--global-batch=8"),
    )
    assert json.loads(cloudgan_here("deploy", *flags).stdout)["state"] == "finished"
    started = record.read(here / "runs" / "jax" / "record.jsonl").started()
    assert (started.strategy, started.numerics.workers) == ("multiworker", 2)
    assert started.numerics.jax
    cloudgan_here("down", "jax")


def preempt_in_the_middle(store):
    """Sends the job the signal of a preemption when both workers train, and lets it start again at once.

    A rank that has not finished its first step ends without saving.
    """
    log = store / "runs" / "ranks" / "record.jsonl"
    job = until(
        lambda: log.exists() and workers(log) == {None, 0, 1} and ask("squeue", "%i"), seconds=400
    )
    subprocess.run(("scancel", "--signal=TERM", job), check=True)
    until(lambda: ask("squeue", "%T") == "PENDING", seconds=400)
    # slurmd refuses a start in the second in which it ended the job ("Job credential revoked"), and Slurm
    # fails the job then.
    time.sleep(5)
    subprocess.run(("scontrol", "update", f"JobId={job}", "StartTime=now"), check=True)


def workers(log):
    """Returns those whose updates are in the record; None is the master."""
    lines = (
        json.loads(line) for line in log.read_text().splitlines(keepends=True) if line[-1] == "\n"
    )
    return {line["worker"] for line in lines if line["kind"] == "exchanged"}


def ask(program, what):
    command = (program, "--noheader", "--name=cloudgan-ranks", f"--format={what}")
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
