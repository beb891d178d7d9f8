"""A flag is one line in one file, and is found in everything that follows from it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cloudgan as cg
from cloudgan.api.job_file import with_job_file
from cloudgan.api.launch_options import PlanOptions
from cloudgan.core.errors import ConfigError
from cloudgan.core.options import build

PACKAGE = Path(cg.__file__).parent
LINE = '    colour: str = flag("red", "paint of the nodes; for the test", "Where", screen=True)\n'
ASK = """
import inspect, json, os, sys
import cloudgan as cg
from cloudgan.api.job_file import job_schema, with_job_file
from cloudgan.api.launch_options import PlanOptions
from cloudgan.cli.help import every_flag, screen
from cloudgan.cli.program import PROGRAM, functions
from cloudgan.core.command import model_of
from cloudgan.core.options import build
from command_options import parse
from cli import write_commands

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
    "page": write_commands.page(),
}))
sys.argv = ["cloudgan", "completion", "bash"]
PROGRAM.run(["completion", "bash"])
"""


def test_one_line_in_one_file_adds_a_flag_everywhere(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "cloudgan", ignore=shutil.ignore_patterns("__pycache__"))
    module = tmp_path / "cloudgan" / "api" / "launch_request.py"
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


JOB = """\
name: shower-mini
provider: gcp
accelerator: l4
nodes: 2
env: {RUN_TAG: paper-v2, DEBUG: true, THREADS: 2, HERE: }
limits: {budget_usd: 20, max_hours: 6, fallback: same}
data: showers.h5
run: train --preset=mini --epochs=20
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config").mkdir()
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path


def planned(**given):
    return with_job_file(build(PlanOptions, given, command="cloudgan plan"))


def test_a_flag_goes_before_the_job_that_before_the_user_and_that_before_the_default(folder):
    assert planned().provider == "local"
    (folder / "config" / "cloudgan.yaml").write_text("provider: aws\nregion: us-east-1\n")
    assert (planned().provider, planned().regions) == ("aws", ("us-east-1",))
    found = planned(job="job.yaml", nodes="3")
    assert (found.provider, found.nodes, found.accelerator) == ("gcp", 3, "l4")
    assert (found.budget_usd, found.max_hours, found.fallback) == (20.0, 6.0, "same")
    assert (found.env, found.regions) == (
        ("RUN_TAG=paper-v2", "DEBUG=true", "THREADS=2", "HERE"),
        ("us-east-1",),
    )
    assert found.training == (
        {"model.preset": "mini", "training.epochs": 20, "data.path": "showers.h5"},
        None,
    )
    again = planned(job="job.yaml", command=["evolve", "--grid=3x3", "x.h5"])
    assert again.training[0]["grid.rows"] == 3, (
        "the job of the command line replaces that of the file"
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("accelerator", "acelerator", "job.yaml, line 3, column 1: unknown key acelerator. Did you mean 'accelerator'?"),
        ("max_hours", "max_hour", "line 6, column 26: unknown key limits.max_hour. Did you mean 'max_hours'?"),
        ("nodes: 2", "nodes: two", "job.yaml: --nodes must be a whole number or auto, got 'two'"),
        ("nodes: 2", "nodes: 0", "job.yaml: --nodes=0: expected at least 1"),
        ("gcp", "gpc", "job.yaml: unknown value of --provider 'gpc'. Did you mean 'gcp'?"),
        ("train --preset", "tran --preset", "Did you mean 'train'?"),
        ("--preset=mini", "--preset=mimi", "Did you mean 'mini'?"),
        ("--epochs", "--epoch", "unknown flag of `cloudgan deploy -- train` '--epoch"),
        ("provider: gcp", "provider: [", "line"),
        (JOB, "- 1", "expected keys and values"),
    ],
)  # fmt: skip
def test_a_wrong_job_file_is_refused_with_its_place(folder, old, new, said):
    (folder / "job.yaml").write_text(JOB.replace(old, new))
    with pytest.raises(ConfigError) as refused:
        _ = planned(job="job.yaml").training
    assert said in str(refused.value)


def test_showers_in_the_place_of_a_job_file_are_refused_with_the_way_to_name_them(
    folder, cloudgan_here
):
    (folder / "mine.h5").write_bytes(b"\x89HDF")
    said = cloudgan_here("plan", "mine.h5", "--provider=gcp", exits=2).stderr
    assert "or give --data=mine.h5" in said


def test_init_writes_files_that_their_commands_take(folder, cloudgan_here):
    for kind in ("job", "space", "run"):
        done = cloudgan_here("init", kind, f"{kind}-new.yaml")
        assert f"written to {kind}-new.yaml" in done.stdout
    assert planned(job="job-new.yaml").provider == "gcp"
    assert "exists" in cloudgan_here("init", "job", "job-new.yaml", exits=2).stderr
