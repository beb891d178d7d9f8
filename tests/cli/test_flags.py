"""A flag is one line in one file, and is found in everything that follows from it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import cloudgan as cg
from cloudgan.api.job_file import with_job_file
from cloudgan.core.options import build
from cloudgan.launch.operations.launch_options import PlanOptions

PACKAGE = Path(cg.__file__).parent
LINE = '    colour: str = flag("red", "paint of the nodes; for the test", "Where", screen=True)\n'
ASK = """
import inspect, json, os, sys
import cloudgan as cg
from cloudgan.api.job_file import job_schema, with_job_file
from cloudgan.launch.operations.launch_options import PlanOptions
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


def test_init_writes_files_that_their_commands_take(tmp_path, monkeypatch, cloudgan_here):
    monkeypatch.chdir(tmp_path)
    for kind in ("job", "space", "run"):
        done = cloudgan_here("init", kind, f"{kind}-new.yaml")
        assert f"{kind}-new.yaml written" in done.stdout
    found = with_job_file(build(PlanOptions, {"job": "job-new.yaml"}, command="cloudgan plan"))
    assert found.provider == "gcp"
    assert "exists" in cloudgan_here("init", "job", "job-new.yaml", exits=2).stderr
