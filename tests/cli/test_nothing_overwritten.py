"""Runs and outputs of other commands are refused before anything is written, and stay as they are."""

import shutil
import signal
import subprocess
import sys

import pytest
import yaml

from cloudgan.core.hardware import this_machine
from cloudgan.data.manifest import read_manifest, write_manifest
from cloudgan.schema.run_folder import RunFolder
from fuzz.project import make_project

SPACE = "model.learning_rate: {low: 1.0e-4, high: 1.0e-2, log: true}\n"


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    return make_project(tmp_path_factory.mktemp("overwritten") / "project")


@pytest.fixture(autouse=True)
def here(project, user_folder, monkeypatch):
    """A folder with runs of all commands, and with enough showers to validate."""
    folder = shutil.copytree(project, user_folder / "here", ignore=lambda *_: ["plan.json"])
    for name, *files in (
        ("grid", "coevolution.json"),
        ("found", "search.json"),
        ("launched", "plan.json", "record.jsonl"),
        ("launched-grid", "plan.json", "coevolution.json"),
    ):
        (folder / "runs" / name).mkdir()
        for file in files:
            (folder / "runs" / name / file).write_text("{}")
    write_manifest(folder / "store", with_more(read_manifest(folder / "store"), 2000))
    config = yaml.safe_load((folder / "run.yaml").read_text())
    config["training"] |= {"validation_showers": 200, "epochs": 100}
    (folder / "many.yaml").write_text(yaml.safe_dump(config))
    (folder / "space.yaml").write_text(SPACE)
    monkeypatch.chdir(folder)
    return folder


def with_more(manifest, count):
    """The manifest as if its first part held more showers; no command of these tests reads them."""
    first, source = (
        each.model_copy(update={"records": each.records + count})
        for each in (manifest.parts[0], manifest.sources[0])
    )
    return manifest.model_copy(
        update={
            "records": manifest.records + count,
            "parts": (first, *manifest.parts[1:]),
            "sources": (source, *manifest.sources[1:]),
        }
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("deploy --config=run.yaml --name=mine --yes", "runs/mine holds a run of `cloudgan train`"),
        ("deploy --config=run.yaml --name=grid --yes", "runs/grid holds a grid"),
        ("evolve --task=ring --run=runs/mine", "runs/mine holds a run of `cloudgan train`"),
        ("evolve --task=ring --run=runs/found", "runs/found holds a search"),
        ("evolve --task=ring --run=runs/launched", "runs/launched holds a run of `cloudgan train`"),
        ("train --config=run.yaml --run=runs/launched-grid", "runs/launched-grid holds a grid"),
        ("search space.yaml --config=many.yaml --data=store --run=runs/mine", "a run of `cloudgan train`"),
        ("crossvalidate --config=many.yaml --data=store --run=runs/grid", "runs/grid holds a grid"),
        ("train --config=run.yaml --run=runs/grid", "runs/grid holds a grid of `cloudgan evolve`"),
        ("train --config=run.yaml --run=runs/found", "runs/found holds a search"),
    ],
)  # fmt: skip
def test_a_run_of_another_command_is_refused_and_stays(refused, words, said):
    assert said in refused(*words.split())


def test_a_run_that_train_is_making_is_not_deployed(refused):
    with RunFolder("runs/new").locked():
        said = refused("deploy", "--config=run.yaml", "--name=new", "--yes")
    assert "runs/new is being trained by process" in said


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--cpus=4096", f"--cpus=4096: this machine has {this_machine().cores} cores"),
        ("--memory-gib=100000", "--memory-gib=100000 of 1 worker is 100000 GiB"),
        ("--nodes=2 --batch=10000000", "a batch of 10000000 per replica takes about"),
    ],
)
def test_a_deployment_on_this_machine_fits_its_cores_and_memory(refused, flags, said):
    flags = ("--config=run.yaml", "--name=new", "--data=store", "--yes", *flags.split())
    assert said in refused("deploy", *flags)


HOLD = """
import sys
from pathlib import Path
from cloudgan.core.file_lock import locked_target
with locked_target(Path(sys.argv[1])):
    print(flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def writer():
    """Starts a process that writes an output until it is killed."""
    started = []

    def start(path):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        started.append(subprocess.Popen([sys.executable, "-c", HOLD, str(path)], **pipes))
        started[-1].stdout.readline()
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "words",
    [
        "simulate out.h5 --showers=2",
        "simulate out.parquet --showers=2",
        "convert showers.h5 out.h5 --to=hdf5",
        "generate runs/mine out.h5",
        pytest.param("export runs/mine out", marks=pytest.mark.tf),
    ],
)
def test_the_second_of_two_commands_with_one_output_is_refused(refused, writer, words):
    output = next(word for word in words.split() if word.startswith("out"))
    process = writer(output)
    said = refused(*words.split(), *(["--overwrite"] if "out.h5" in words else []))
    assert f"{output} is being written by process {process.pid}" in said


def test_the_lock_of_a_killed_process_does_not_block_an_output(here, writer, cloudgan_here):
    process = writer("out.h5")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (here / ".out.h5.lock").exists()
    cloudgan_here("simulate", "out.h5", "--showers=2")
    assert not (here / ".out.h5.lock").exists()


SEARCH = ("--config=many.yaml", "--data=store", "--trials=2", "--sampler=random")


def test_a_store_of_another_search_is_refused_before_anything_is_written(here, refused):
    pytest.importorskip("optuna")
    from cloudgan.search.shared import study_in
    from cloudgan.storage.store import open_store
    from searches import write_search

    _, _, another = write_search(here / "another")
    study_in(open_store("there/searches/mine"), "mine", another)
    said = refused("search", "space.yaml", *SEARCH, "--run=runs/searches/mine", "--store=there")
    assert "there/searches/mine/journal is the journal of another search" in said


def test_a_store_that_cannot_be_written_ends_a_search_before_anything_is_written(refused):
    pytest.importorskip("optuna")
    said = refused(
        "search", "space.yaml", *SEARCH, "--run=runs/mine2", "--store=run.yaml/x", exits=1
    )
    assert "cannot be written" in said


def test_a_search_whose_trials_all_failed_ends_with_1(here, cloudgan_here):
    pytest.importorskip("optuna")
    from searches import write_search

    base = yaml.safe_load((here / "many.yaml").read_text())
    base["data"]["path"] = str(here / "store")
    base["training"]["validate_every"] = 1
    space = {"training.seed": {"choices": (1, 2)}}
    given = {"base": base, "space": space, "sampler": "grid", "trials": 2}
    folder, *_ = write_search(here / "runs/lost", "out of memory", "out of memory", **given)
    for number in range(2):
        (folder.path / f"trials/{number:04d}").mkdir(parents=True)
    said = cloudgan_here("search", "runs/lost", exits=1).stderr
    assert "all 2 trials failed, the newest with: out of memory" in said
    shown = cloudgan_here("search", "runs/lost", "--show", "--json").json()
    assert [trial["state"] for trial in shown["trials"]] == ["failed"] * 2
