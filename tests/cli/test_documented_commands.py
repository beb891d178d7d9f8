"""Every command line of README.md, docs/ and `cloudgan help` runs, on tiny inputs and with clouds in memory."""

import contextlib
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from cli.provisioned import few_showers
from documented import EXAMPLES, ROOT
from launch.lifecycle.cloud_double import installed

LINES = sorted({shlex.join(words) for _, words in EXAMPLES})
ALL = {line.split()[0] for line in LINES}

SMALL = {
    "check": "",
    "convert": "--overwrite",
    "crossvalidate": (
        "--preset=smoke --epochs=1 --max-steps=8 --held-out=0.5 --folds=2 --repeats=1 --blocks=1 --run=runs/new"
    ),
    "deploy": "--dry-run",
    "evolve --run=runs/grid": "--iterations=3",
    **dict.fromkeys(
        ("evolve --grid", "evolve --task=ring"),
        "--task=ring --iterations=1 --batches=2 --grid=2x2 --run=runs/new",
    ),
    "evolve showers.h5": (
        "--task=showers --preset=smoke --iterations=1 --batches=1 --grid=1x2 --run=runs/new"
    ),
    "export": "--overwrite",
    "generate": "--showers=5 --overwrite",
    "init": "--overwrite",
    "report": "--no-browser",
    "search": "--describe --like=runs/mine --preset=smoke --run=runs/new",
    "search runs/search": "--trials=1",
    "setup": "--yes",
    "simulate": "--showers=5 --overwrite",
    "train": "--describe --preset=smoke --held-out=0.5 --run=runs/new",
    "train showers.h5 --preset=paper --stages=": "--describe",
    "validate": "--showers=200",
    "validate --generated=mine.h5": "--generated=fast.h5 --showers=200",  # the run's cells are fewer
}
"""Flags that a line that begins so gets here, in place of its own: limits, and folders that do not exist yet.

`--describe` reads and refuses all that training does; `trained` trains once with each command.
"""

FAST = {
    "check",
    "completion",
    "deploy",
    "doctor",
    "image",
    "init",
    "offers",
    "plan",
    "prices",
    "schema",
    "setup",
}
"""Commands that need neither TensorFlow nor a trained run."""
SLOWEST = {"validate"}
SLOW = {"crossvalidate", "evolve"}
"""Commands that train here: they have no `--describe`."""
LAUNCHED = (
    "needs a launched run: test_live.py, test_logs.py, test_adopt.py and tests/end_to_end have them"
)
NOT_HERE = {
    "adopt": LAUNCHED,
    "bench": "measures for minutes: test_bench*.py run each one with small limits",
    "cancel": LAUNCHED,
    "compare --scaling": "needs runs of several workers: test_compare.py",
    "cost runs/first --billing-export": "needs a bill: tests/money",
    "demo": "test_demo.py runs it, with showers of its own and with --data",
    "crossvalidate --show=": "needs the runs of another line: tests/api/test_crossvalidation.py",
    "down": LAUNCHED,
    "exec": LAUNCHED,
    "generate runs/showers": "needs a grid of showers: tests/end_to_end",
    "logs": LAUNCHED,
    "prices refresh": "needs the price lists of the clouds: test_prices.py",
    "search space.yaml showers.h5 --preset=mini --trials=25 --store": (
        "needs pods: tests/end_to_end/test_search.py"
    ),
    "search space.yaml showers.h5 --price-as": "ends at its budget: tests/search/test_trial_loop.py",
    "serve": "serves until Ctrl-C: tests/api",
    "shell": LAUNCHED,
    "status mine --": LAUNCHED,
    "tensorboard": "serves until Ctrl-C: test_live.py",
    "train showers.h5 --preset=mini --image-shape": "needs such showers: test_train_shapes.py",
    **dict.fromkeys(
        (
            "train --config=a.yaml",
            "train --config=b.yaml",
            "train --config=c.yaml",
            "train --config=d.yaml",
        ),
        "takes hours, with files that docs/measurements/results.md describes: test_train_from_other_run.py",
    ),
    **dict.fromkeys(
        (
            "train --data=showers.h5 --run=runs/mine --track=mlflow",
            "train --data=showers.h5 --run=runs/mine --track=wandb",
        ),
        "needs the extra: tests/api/test_tracking.py",
    ),
}
"""Why lines that begin so do not run, and which tests have these commands."""


SHOWERS = "train test geant4 full g4train g4test reference"
OFFER = "gcp/g2-standard-4/us-central1/spot"
EXITS = {
    "offers --epochs=60 --max-hours=1 --budget-usd=10 --accelerator=v100 --market=on_demand": 5,
    "cost plan.json --ci=base.json --budget-usd=40 --report=comment.md": 6,  # parts are unknown
    **dict.fromkeys(
        (
            "validate mine --against=geant4.h5 --gate",
            "validate mine --against=geant4.h5 --gate --report=mine.html",
            "validate runs/mine --against=geant4.h5 --gate",
        ),
        7,  # one epoch
    ),
}
"""Exit codes that are not 0, as the text beside the line says."""
RUNS = "NAME RUN demo first gan gan-seed-1 gan-seed-2 mini c g4 bfloat16-1 lr electrons"
COPIES = re.compile(
    rf"\b(?:({'|'.join(SHOWERS.split())})\.h5|(?:runs/)?({'|'.join(RUNS.split())}|mine)(?=$|[\s']))"
)
"""What the lines call the showers and the run here, of which `trained` has a copy for each name."""
FILES = {
    "job.yaml": "provider: gcp\naccelerator: l4\nnodes: 1\ndata: showers.h5\nrun: train --preset=mini --epochs=20\n",
    "cells.yaml": "data: {path: showers.h5}\nmodel: {preset: mini}\ngrid: {rows: 2, columns: 2}\n",
    "prices.yaml": re.search(
        r"```yaml\n(date:.*?)```", (ROOT / "docs" / "cost.md").read_text("utf-8"), re.DOTALL
    )[1]
    + "  - {offer: lab/node/here, usd_per_hour: 1.5}\n",
    "lab.env": "NCCL_DEBUG=INFO\n",
    "site.sh": "module load cuda\n",
    "times.csv": "n,seconds\n1,3600\n2,1850\n4,960\n8,520\n",
}


def small(line):
    """Returns the words of a line, with small limits."""
    name, *words = shlex.split(line)
    first, behind = words, []
    if "--" in words:
        at = words.index("--")
        first, behind = words[:at], words[at:]
    start = max((each for each in SMALL if line.startswith(each)), key=len, default="")
    more = shlex.split(SMALL.get(start, ""))
    names = {word.partition("=")[0] for word in more}
    return [name, *(word for word in first if word.partition("=")[0] not in names), *more, *behind]


def lines(commands, run=None):
    """Returns the lines of these commands that can run here, and need a run or not: each that does the same once."""
    found = [
        line
        for line in LINES
        if line.split()[0] in commands and not line.startswith(tuple(NOT_HERE))
        if run is None or ("--run=" in line) == run
    ]
    by_words = {frozenset(map(_without_names, small(line))): line for line in found}
    if commands == SLOWEST:  # seconds each: a line whose words another one has runs with that one
        by_words = {one: by_words[one] for one in by_words if not any(one < o for o in by_words)}
    return list(by_words.values())


def _without_names(word):
    word = re.sub(r"^--report=.*(?=[.])", "--report=page", word)
    return COPIES.sub(lambda copy: "showers.h5" if copy[1] else "runs/mine", word)


@pytest.fixture(scope="session")
def trained(made_once, run_cloudgan):
    """A folder with showers, a run, a grid and a search, as small as they can be."""

    def make(folder):
        epoch = "--preset=smoke --epochs=1 --held-out=0.5"
        with contextlib.chdir(folder):
            for line in (
                "simulate showers.h5 --showers=420",
                "simulate fast.h5 --showers=420 --seed=1",
                "convert showers.h5 store",
                f"train showers.h5 {epoch} --validate-every=1 --run=runs/mine",
                "evolve --task=ring --iterations=2 --batches=2 --run=runs/grid",
                "init space",
                f"search space.yaml showers.h5 {epoch} --trials=1 --objective=generator_loss",
            ):
                run_cloudgan(*shlex.split(line))
            Path("runs/mine/report.html").write_text("<p>what `validate --report` writes</p>")
            for name in SHOWERS.split():
                shutil.copy("showers.h5", f"{name}.h5")
            for name in RUNS.split():
                shutil.copytree("runs/mine", f"runs/{name}")
            shutil.copytree("runs/grid", "runs/showers")
            shutil.copytree("store", "FOLDER")
            shutil.copytree("store", "runs/electrons/store/runs/electrons/showers")
            priced = run_cloudgan("cost", "mine", f"--price-as={OFFER}", "--json").stdout
            for name in ("plan.json", "base.json"):
                Path(name).write_text(priced)

    return made_once("documented", make)


@pytest.fixture
def here(user_folder, tmp_path, monkeypatch):
    """The user's folder with the small files, and clouds in memory."""
    for cloud in ("aws", "azure", "gcp"):
        installed(monkeypatch, tmp_path, cloud)
    kubeconfig = json.loads((tmp_path / "kubeconfig").read_text())
    (context,) = kubeconfig["contexts"]
    kubeconfig["contexts"] = [context | {"name": name} for name in ("lab", "lambda", "other")]
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    for name, text in FILES.items():
        (user_folder / name).write_text(text)
    return user_folder


def test_the_lists_of_exceptions_have_no_line_that_is_gone():
    assert all(any(line.startswith(start) for line in LINES) for start in NOT_HERE)
    assert not EXITS.keys() - set(LINES)


@pytest.mark.parametrize("kind", ["job", "space"])
def test_an_example_is_the_file_that_init_writes(kind, here, cloudgan_here):
    cloudgan_here("init", kind, "written.yaml")
    assert (here / "written.yaml").read_text() == (ROOT / "examples" / f"{kind}.yaml").read_text()


@pytest.mark.parametrize("line", lines(FAST, run=False))
def test_a_documented_line_that_needs_no_run_ends_well(line, here, cloudgan_here):
    few_showers(here / "showers.h5", records=4000)
    cloudgan_here(*small(line), exits=EXITS.get(line, 0))


@pytest.mark.tf
@pytest.mark.parametrize(
    "line",
    [
        *lines(FAST, run=True),
        *lines(ALL - FAST - SLOW - SLOWEST),
        *(pytest.param(line, marks=pytest.mark.slow) for line in lines(SLOWEST)),
    ],
)
@pytest.mark.usefixtures("quick_verdict")
def test_a_documented_line_on_a_run_ends_well(line, here, trained, cloudgan_here):
    shutil.copytree(trained, here, dirs_exist_ok=True)
    cloudgan_here(*small(line), exits=EXITS.get(line, 0))


@pytest.mark.tf
@pytest.mark.slow
@pytest.mark.parametrize("line", lines(SLOW))
def test_a_documented_line_that_trains_ends_well(line, here, trained, run_cloudgan):
    shutil.copytree(trained, here, dirs_exist_ok=True)
    done = run_cloudgan(*small(line), check=False)
    assert done.returncode == EXITS.get(line, 0), done.stdout + done.stderr
