"""Variables of a run on each backend: they reach the trainer, and the value of a secret is nowhere else."""

from __future__ import annotations

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

pytestmark = pytest.mark.slow

BUCKET, NAMESPACE = "s3://physics/gan", "cloudgan"
PLANTED = "pl4ntedsecret' $(HOME)"
FORMS = (b"pl4ntedsecret", base64.b64encode(b"pl4ntedsecre"))  # whatever quotes the rest
GIVEN = {"LAB_MODE": "on $(HOME) 'x'", "LAB_FROM_HERE": "from here", "LAB_FROM_FILE": "a b # c"}
RUN = (
    "--config=plain.yaml",
    "--seed=3",
    "--epochs=1",
    "--name=vars",
    "--cpus=1",
    "--yes",
    "--json",
)
FLAGS = (
    "--env=LAB_MODE=on $(HOME) 'x'",
    *("--env=LAB_FROM_HERE", "--env-file=vars.env", "--secret=LAB_LOGIN"),
)


@pytest.fixture
def local(here):
    return ("--provider=local",), [here]


@pytest.fixture
def slurm(here, tmp_path_factory):
    folder = tmp_path_factory.mktemp("slurm")
    with local_slurm(folder):
        yield (
            ("--provider=slurm", f"--store={here / 'shared'}", "--memory-gib=0.5"),
            [here, folder],
        )


@pytest.fixture
def kubernetes(here, tmp_path, request):
    cluster = request.getfixturevalue("cluster")
    dump, kinds = tmp_path / "objects", ("pods", "jobs", "configmaps", "services", "events")
    flags = ("--provider=kubernetes", f"--store={BUCKET}", "--kubernetes-secrets=s3-login")

    def keep_objects():
        dump.mkdir(exist_ok=True)
        for kind in kinds:
            (dump / kind).write_text(json.dumps(cluster.select(kind, NAMESPACE)))
        for name in open_store(BUCKET).list(""):
            path = dump / "bucket" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(open_store(BUCKET).read(name))

    return flags, [tmp_path], keep_objects


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


@pytest.mark.parametrize(
    "where", ["local", "kubernetes", pytest.param("slurm", marks=pytest.mark.slurm)]
)
def test_variables_reach_the_trainer_and_a_secret_is_nowhere_else(
    here, shards, where, request, cloudgan_here
):
    flags, folders, *keep = request.getfixturevalue(where)
    monkeypatch = request.getfixturevalue("monkeypatch")
    (here / "vars.env").write_text("# of the lab\n\nexport LAB_FROM_FILE='a b # c'\n")
    monkeypatch.setenv("LAB_FROM_HERE", "from here")
    monkeypatch.setenv("LAB_LOGIN", PLANTED)
    given = (*RUN, f"--data={shards}", *flags, *FLAGS)
    planned = json.loads(cloudgan_here("plan", *(one for one in given if one != "--yes")).stdout)
    assert planned["workers"]["env"] == GIVEN
    assert planned["workers"]["secrets"] == ["LAB_LOGIN"]
    deploy = subprocess.Popen(
        [sys.executable, "-m", "cloudgan", "deploy", *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    seen, said = {}, []
    while deploy.poll() is None:
        for command, environment in processes():
            said += [command] * any(form in command for form in FORMS)
            if b"\0cloudgan\0train\0--run=" in command:
                seen = dict(one.decode().partition("=")[::2] for one in environment if one)
                assert leaks(folders) == []
        time.sleep(0.2)
    output, errors = deploy.communicate()
    assert deploy.returncode == 0, errors.decode()
    assert {name: seen.get(name) for name in GIVEN} == GIVEN
    assert seen["LAB_LOGIN"] == PLANTED
    assert said == []
    assert not any(form in output + errors for form in FORMS)
    for each in keep:
        each()
    assert leaks(folders) == []
    left = list(here.rglob("variable.LAB_LOGIN"))
    assert left == [], "on Slurm the files of the secrets are deleted with the job"
    monkeypatch.delenv("LAB_LOGIN")
    assert "finished" in cloudgan_here("deploy", *given).stdout, "a second deploy needs no value"
    cloudgan_here("down", "vars")
