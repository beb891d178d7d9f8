"""A search whose blocks are pods of a cluster, one of them killed: its trial continues from the bucket."""

import contextlib
import json
import signal
import subprocess
import sys
import threading

import pytest

from cloudgan.schema import record
from cloudgan.storage.store import ObjectMissingError, open_store
from emulators.slurm import local_slurm
from end_to_end.conftest import BUCKET, NAMESPACE, ON_CLUSTER, pods_of
from waiting import until

pytestmark = pytest.mark.slow

SPACE = "model.learning_rate: {low: 1.0e-4, high: 1.0e-2, log: true}\n"


def kill_in_the_middle(cluster, killed):
    """Kills what trains in worker 1 (SIGKILL) when the bucket has records of checkpoints of both trials."""
    store = open_store(f"{BUCKET}/searches/lr/trials")
    trials = ("0000", "0001")
    until(lambda: all(has_recorded_checkpoint(store, one) for one in trials), "checkpoints", 400)
    for pod in pods_of(cluster, "blocks-1-"):
        killed.append(cluster.kill(NAMESPACE, pod["metadata"]["name"], signal.SIGKILL))


def has_recorded_checkpoint(store, trial):
    with contextlib.suppress(ObjectMissingError):
        lines = [json.loads(line) for line in store.read(f"{trial}/record.jsonl").splitlines()]
        return any(line["kind"] == "checkpointed" and line["step"] > 4 for line in lines)
    return False


@contextlib.contextmanager
def searching(here, store, *flags):
    """A search of two trials on this machine, which nodes train that join it in the store."""
    pytest.importorskip("optuna")
    write_space_and_showers(here)
    asked = (
        *("space.yaml", "--config=plain.yaml", "--data=shards", "--run=runs/lr", "--trials=2"),
        *("--sampler=random", f"--store={store}", *flags),
    )
    search = subprocess.Popen(
        [sys.executable, "-m", "cloudgan", "search", *asked, "--json"], stdout=subprocess.PIPE
    )
    try:
        yield search
    finally:
        search.kill()
        search.communicate()


def write_space_and_showers(here):
    from cloudgan.data.convert import convert
    from cloudgan.data.hdf5_writer import write_hdf5
    from cloudgan.simulation.gflash import simulate

    write_hdf5(here / "showers.h5", simulate(420, seed=1, cells=(9, 9), block=50))
    convert(str(here / "showers.h5"), here / "shards")
    plain = json.loads((here / "plain.yaml").read_text())
    # The record is uploaded every 2 s, which is longer than between these checkpoints: keep them all.
    more = {"data": {"held_out_fraction": 0.5}, "checkpoint": {"keep": 20}}
    (here / "plain.yaml").write_text(json.dumps(plain | more))
    (here / "space.yaml").write_text(SPACE)


@pytest.mark.parametrize("ranks", [(), ("--parallel=easgd",)], ids=["one process", "ranks"])
def test_the_trial_of_a_killed_pod_continues_from_the_bucket(here, cluster, cloudgan_here, ranks):
    if ranks:
        pytest.importorskip("mpi4py")
    killed, of_trials = [], (*ranks, "--ranks=2") if ranks else ()
    killing = threading.Thread(target=kill_in_the_middle, args=(cluster, killed))
    # Two ranks end 25 epochs within 15 s, and records come to the bucket every 2 s.
    length = ("--epochs=60", "--checkpoint-every-steps=40")
    flags = (*length, *of_trials) if ranks else ("--epochs=5", "--checkpoint-every-steps=4")
    with searching(here, BUCKET, *flags) as search:
        killing.start()
        try:
            done = cloudgan_here("deploy", *ON_CLUSTER, "--name=blocks", "--", "join", "lr", *ranks)
            assert json.loads(done.stdout)["search"] == "lr"
            found = json.loads(search.communicate(timeout=600)[0])
        finally:
            killing.join()
    assert any(killed)
    assert [trial["state"] for trial in found["trials"]] == ["complete"] * 2
    records = [
        record.read(here / f"runs/lr/trials/000{number}/record.jsonl") for number in range(2)
    ]
    resumed = [line.step for found in records for line in found.lines if line.kind == "resumed"]
    assert resumed
    assert ranks or min(resumed) > 0, "ranks continue where all have saved, which may be the start"
    for found in records:
        assert bool(ranks) == any(line.kind == "exchanged" for line in found.lines)
        steps = [line.step for line in found.validations()]
        assert ranks or len(steps) == 5, "none is missing"
        assert steps[-1] == found.stopped().step
    cost = json.loads(cloudgan_here("cost", here / "runs" / "blocks", "--json").stdout)
    assert cost["node_seconds"]["finished trials"] > 0
    cloudgan_here("down", "blocks")


@pytest.mark.slurm
def test_nodes_of_slurm_join_a_search_of_this_machine(here, tmp_path_factory, cloudgan_here):
    store = here / "shared"
    job = {"provider": "slurm", "store": str(store), "name": "blocks", "nodes": 2, "run": "join lr"}
    (here / "job.yaml").write_text(json.dumps(job | {"cpus": 1, "memory_gib": 0.5}))
    with (
        local_slurm(tmp_path_factory.mktemp("slurm")),
        searching(here, store, "--epochs=1") as search,
    ):
        assert "trials of the search lr" in cloudgan_here("plan", "job.yaml").stdout
        done = cloudgan_here("deploy", "job.yaml", "--yes", "--json")
        assert json.loads(done.stdout)["search"] == "lr"
        found = json.loads(search.communicate(timeout=600)[0])
        assert [trial["state"] for trial in found["trials"]] == ["complete"] * 2
        lines = cloudgan_here("logs", "blocks").stdout
        assert "trial 0000" in lines
        assert "trial 0001" in lines
        cloudgan_here("down", "blocks")


@pytest.mark.parametrize(
    ("job", "trials"),
    [
        ("search space.yaml shards --trials=1 --sampler=random", 1),
        ("crossvalidate shards --folds=2", 2),
    ],
)
def test_one_command_coordinates_a_search_and_launches_its_blocks(here, cloudgan_here, job, trials):
    pytest.importorskip("optuna")
    write_space_and_showers(here)
    launch = (f"--store={here / 'shared'}", "--provider=local", "--name=blocks", "--json")
    own = (*job.split(), "--config=plain.yaml", "--epochs=1", "--run=runs/lr")
    planned = json.loads(cloudgan_here("plan", *launch, "--", *own).stdout)
    assert (planned["run"], planned["config"]["join"]) == ("blocks", "lr")
    assert not (here / "runs").exists()
    for _ in range(2):
        said = json.loads(cloudgan_here("deploy", *launch, "--", *own).stdout)
        found = said.get("search", said)
        assert [trial["state"] for trial in found["trials"]] == ["complete"] * trials
    assert json.loads(cloudgan_here("status", "blocks", "--json").stdout)["state"] == "done"
    assert (here / "runs/lr/report.html").exists()


def test_pods_train_the_trials_of_a_search_with_jax(here, cluster, cloudgan_here):
    pytest.importorskip("optuna")
    pytest.importorskip("jax")
    write_space_and_showers(here)
    quick = "--env=XLA_FLAGS=--xla_backend_optimization_level=0"
    job = ("search", "space.yaml", "shards", "--trials=2", "--sampler=random", "--run=runs/lr")
    own = ("--config=plain.yaml", "--engine=jax", "--epochs=1")
    flags = (*ON_CLUSTER, "--name=blocks", quick, "--", *job, *own)
    found = json.loads(cloudgan_here("deploy", *flags).stdout)
    assert [trial["state"] for trial in found["trials"]] == ["complete"] * 2
    for number in range(2):
        lines = record.read(here / f"runs/lr/trials/000{number}/record.jsonl")
        assert lines.started().numerics.jax
        assert not lines.started().numerics.tensorflow
        assert lines.validations()
    images = {pod["spec"]["containers"][0]["image"] for pod in pods_of(cluster, "blocks-")}
    assert images == {"python:3.11-slim"}
    cloudgan_here("down", "blocks")
