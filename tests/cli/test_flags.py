"""A flag is one line in one file; help and schemas of every command."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

import cloudgan as cg
from cloudgan.core.options import build
from cloudgan.launch.operations.launch_options import PlanOptions, with_job_file
from cloudgan.training.run_options import with_preset

PACKAGE = Path(cg.__file__).parent
LINE = '    colour: str = flag("red", "paint of the nodes; for the test", "Where", screen=True)\n'
ASK = """
import inspect, json, os, sys
import cloudgan as cg
from cloudgan.launch.operations.launch_options import job_schema, with_job_file
from cloudgan.launch.operations.launch_options import PlanOptions
from cloudgan.cli.help import every_flag, screen
from cloudgan.cli.program import PROGRAM, functions
from cloudgan.core.command import model_of
from cloudgan.core.options import build
from command_options import parse
from cli import write_pages

plan = functions()["plan"]
with open("job.yaml", "w") as file:
    file.write("colour: blue")
from_file = with_job_file(build(PlanOptions, {"job": "job.yaml"}, command="plan"))
over_it = with_job_file(build(PlanOptions, {"job": "job.yaml", "colour": "tan"}, command="plan"))
print(json.dumps({
    "package": cg.__file__,
    "parser": [parse(plan, words).colour for words in ([], ["--colour=green"], ["--colour", "x"])],
    "screen": screen("cloudgan plan", model_of(plan)),
    "every flag": every_flag("cloudgan plan", model_of(plan)),
    "job.yaml": [from_file.colour, over_it.colour],
    "schema": job_schema()["properties"]["colour"]["description"],
    "keyword": str(inspect.signature(cg.plan).parameters["colour"]),
    "docstring": cg.plan.__doc__,
    "page": write_pages.commands(),
}))
sys.argv = ["cloudgan", "completion", "bash"]
PROGRAM.run(["completion", "bash"])
"""


def test_one_line_in_one_file_adds_a_flag_everywhere(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "cloudgan", ignore=shutil.ignore_patterns("__pycache__"))
    module = tmp_path / "cloudgan" / "launch" / "plan" / "flags.py"
    text = module.read_text()
    at = text.index("    accelerator: str | None = flag(")
    module.write_text(text[:at] + LINE + text[at:])
    tests = Path(__file__).parents[1]
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(tests)!r}]\n{ASK}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    first, _, completion = done.stdout.partition("\n")
    found = json.loads(first)
    assert found["package"].startswith(str(tmp_path))
    assert found["parser"] == ["red", "green", "x"]
    assert "--colour=TEXT          paint of the nodes [red]" in found["screen"]
    assert (
        "--colour=TEXT           paint of the nodes; for the test [default: red]"
        in found["every flag"]
    )
    assert found["job.yaml"] == ["blue", "tan"]
    assert found["schema"] == "paint of the nodes; for the test"
    assert found["keyword"] == "colour: str = 'red'"
    assert "colour: Paint of the nodes; for the test. Default: red." in found["docstring"]
    assert found["page"].count("--colour=TEXT") == 2, "plan and deploy"
    assert "--colour=" in completion


def test_the_help_names_the_network_that_train_takes_on_each_device(cloudgan_here):
    assert " [mini; GPU: paper]\n" in cloudgan_here("train", "--help").stdout
    taken = [with_preset({}, {}, accelerated)["model.preset"] for accelerated in (False, True)]
    assert taken == ["mini", "paper"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("job", "here.yaml"), "here.yaml exists; give --overwrite, or another name"),
        (("dataset", "own.h5"), "dataset.yaml exists; give --overwrite, or rename it"),
        (("dataset",), "init dataset needs the file: cloudgan init dataset FILE.h5"),
        (("dataset", "missing.h5"), "missing.h5 does not exist"),
        (("job", "own.h5", "--overwrite"), "own.h5 is no name of a YAML file: give own.yaml"),
    ],
)
def test_init_keeps_an_existing_file_and_says_what_can_be_done(
    tmp_path, monkeypatch, cloudgan_here, words, message
):
    monkeypatch.chdir(tmp_path)
    for name in ("here.yaml", "dataset.yaml", "own.h5"):
        Path(name).write_text("mine")
    assert message in cloudgan_here("init", *words, exits=2).stderr
    assert {file.read_text() for file in tmp_path.iterdir()} == {"mine"}


def test_init_writes_files_that_their_commands_take(tmp_path, monkeypatch, cloudgan_here):
    monkeypatch.chdir(tmp_path)
    for kind in ("job", "space", "run"):
        done = cloudgan_here("init", kind, f"{kind}-new.yaml")
        assert f"{kind}-new.yaml written" in done.stdout
    found = with_job_file(build(PlanOptions, {"job": "job-new.yaml"}, command="cloudgan plan"))
    assert found.provider == "gcp"
    assert "exists" in cloudgan_here("init", "job", "job-new.yaml", exits=2).stderr


# Schemas that editors and other programs check our files with


@pytest.mark.parametrize(
    "file",
    [
        *("job.yaml", "run.yaml", "record.jsonl", "launch.json", "cost.json", "heartbeat.json"),
        "quality.json",
    ],
)
def test_each_document_has_a_schema(cloudgan_here, file):
    schema = cloudgan_here("schema", file).json()
    assert "properties" in schema or "oneOf" in schema


def test_the_schema_of_a_configuration_forbids_unknown_keys(cloudgan_here):
    schema = cloudgan_here("schema", "run.yaml").json()
    assert schema["additionalProperties"] is False
    assert {"data", "model", "training", "checkpoint"} <= set(schema["properties"])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("simulate", ["out.h5", "--showers=10"]),
        ("status", []),
        ("init", ["job"]),
        ("image", ["--kind=cpu"]),
        ("search", ["found", "--show"]),
        ("crossvalidate", ["--show=folds"]),
        (
            "bench parallel",
            ["--step-seconds=0.05", "--service-seconds=0.01", "--message-seconds=0.01"],
        ),
    ],
)
def test_what_a_command_prints_as_json_fits_its_schema(
    cloudgan_here, tmp_path, monkeypatch, name, words
):
    monkeypatch.chdir(tmp_path)
    if name in {"search", "crossvalidate"}:
        pytest.importorskip("optuna")
        from cloudgan.schema.search import FOLD, Dimension
        from searches import write_search

        write_search(tmp_path / "found", 0.3, 0.4)
        folds = {FOLD: Dimension(choices=(0, 1))}
        write_search(tmp_path / "folds", 0.3, 0.4, space=folds, sampler="grid")
    schema = cloudgan_here("schema", *name.split()).json()
    printed = cloudgan_here(*name.split(), *words, "--json").json()
    jsonschema.validate(printed, schema)
    assert printed["schema_version"] == 1
