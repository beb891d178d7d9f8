"""Variables of a run on each backend: they reach the trainer, and the value of a secret is nowhere else."""

import base64
import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cloudgan.storage.store import open_store
from emulators.slurm import local_slurm
from end_to_end.conftest import BUCKET, NAMESPACE

pytestmark = pytest.mark.slow

PLANTED = "pl4ntedsecret' $(HOME)"
FORMS = (b"pl4ntedsecret", base64.b64encode(b"pl4ntedsecre"))  # whatever quotes the rest
GIVEN = {"LAB_MODE": "on $(HOME) 'x'", "LAB_FROM_HERE": "from here", "LAB_FROM_FILE": "a b # c"}
TRAIN = "train --config=plain.yaml --seed=3 --epochs=1"
EVOLVE = "evolve --grid=1x2 --task=ring --iterations=3 --batches=5 --score-samples=50 --seed=3"
TRAINER = {TRAIN: b"\0cloudgan\0train\0--run=", EVOLVE: b"\0cloudgan\0evolve\0"}
"""What is in the command line of the process that trains."""


@pytest.fixture
def local(here):
    return {"provider": "local"}, [here]


@pytest.fixture
def slurm(here, tmp_path_factory):
    folder = tmp_path_factory.mktemp("slurm")
    with local_slurm(folder):
        yield (
            {"provider": "slurm", "store": str(here / "shared"), "memory_gib": 0.5},
            [here, folder],
        )


@pytest.fixture
def kubernetes(here, tmp_path, request):
    cluster = request.getfixturevalue("cluster")
    dump, kinds = tmp_path / "objects", ("pods", "jobs", "configmaps", "services", "events")
    place = {"provider": "kubernetes", "store": BUCKET, "kubernetes_secrets": ["s3-login"]}

    def keep_objects():
        dump.mkdir(exist_ok=True)
        for kind in kinds:
            (dump / kind).write_text(json.dumps(cluster.select(kind, NAMESPACE)))
        for name in open_store(BUCKET).list(""):
            path = dump / "bucket" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(open_store(BUCKET).read(name))

    return place, [tmp_path], keep_objects


def processes():
    """Command and environment of each process of this machine."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = (folder / "environ").read_bytes().split(b"\0")
            yield (folder / "cmdline").read_bytes(), environment


def leaks(folders):
    """Files that hold the secret, but for the places that deliver it to the worker."""
    found = []
    for path in (path for folder in folders for path in folder.rglob("*")):
        with contextlib.suppress(OSError):
            if path.is_file() and path.name != "variable.LAB_LOGIN":
                content = path.read_bytes()
                found += [str(path)] * any(form in content for form in FORMS)
    return found


def job_file(here, shards, run, place):
    """Writes job.yaml: a variable with a value here, two whose value comes from this machine, one secret."""
    job = {
        "name": "vars",
        "cpus": 1,
        "nodes": 2 if run == EVOLVE else 1,
        "env": {"LAB_MODE": GIVEN["LAB_MODE"], "LAB_FROM_HERE": None},
        "env_file": "vars.env",
        "secrets": ["LAB_LOGIN"],
        "run": run,
    }
    job |= {"data": str(shards)} if run == TRAIN else {}
    (here / "job.yaml").write_text(json.dumps(job | place))
    (here / "vars.env").write_text("# of the lab\n\nexport LAB_FROM_FILE='a b # c'\n")


@pytest.mark.parametrize(
    ("where", "run"),
    [
        ("local", TRAIN),
        ("kubernetes", TRAIN),
        pytest.param("slurm", TRAIN, marks=pytest.mark.slurm),
        pytest.param("slurm", EVOLVE, marks=pytest.mark.slurm),
    ],
)
def test_variables_of_a_job_file_reach_the_trainer_and_a_secret_is_nowhere_else(
    here, where, run, request, cloudgan_here
):
    place, folders, *keep = request.getfixturevalue(where)
    monkeypatch = request.getfixturevalue("monkeypatch")
    job_file(here, request.getfixturevalue("shards"), run, place)
    monkeypatch.setenv("LAB_FROM_HERE", "from here")
    monkeypatch.setenv("LAB_LOGIN", PLANTED)
    planned = json.loads(cloudgan_here("plan", "job.yaml", "--json").stdout)
    assert planned["workers"]["env"] == GIVEN
    assert planned["workers"]["secrets"] == ["LAB_LOGIN"]
    said = [*cloudgan_here("plan", "job.yaml", "-v", "--save=planned.yaml")]
    deploy = subprocess.Popen(
        [sys.executable, "-m", "cloudgan", "deploy", "job.yaml", "--yes"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    seen, commands = {}, []
    while deploy.poll() is None:
        for command, environment in processes():
            commands += [command] * any(form in command for form in FORMS)
            of_this_run = any(one.startswith(b"LAB_MODE=") for one in environment)
            if TRAINER[run] in command and of_this_run and not seen:
                seen = dict(one.decode().partition("=")[::2] for one in environment if one)
                assert leaks(folders) == []
        time.sleep(0.5)
    said += deploy.communicate()
    assert deploy.returncode == 0, said
    assert {name: seen.get(name) for name in GIVEN} == GIVEN
    assert seen["LAB_LOGIN"] == PLANTED
    assert commands == []
    status = cloudgan_here("status").stdout
    assert "done" in status
    assert json.loads(cloudgan_here("status", "vars", "--json").stdout)["phase"] == "finished"
    logged = cloudgan_here("logs", "vars").stdout
    assert "exiting with code 0" in logged
    said += [status, logged, cloudgan_here("status", "vars", "-v").stdout]
    for each in keep:
        each()
    assert leaks(folders) == []
    left = list(here.rglob("variable.LAB_LOGIN"))
    assert left == [], "on Slurm the files of the secrets are deleted with the job"
    monkeypatch.delenv("LAB_LOGIN")
    again = cloudgan_here("deploy", "job.yaml", "--yes").stdout
    assert "finished" in again, "a second deploy needs no value"
    said += [again, cloudgan_here("rm", "vars").stdout]
    assert not any(form.decode() in text for form in FORMS for text in said)
    assert leaks(folders) == []
