"""job.yaml and the user's own defaults: what `plan` and `deploy` read, and what `plan --save` writes."""

import datetime as dt
from pathlib import Path

import pytest
import yaml

from cli.provisioned import few_showers

EXAMPLES = Path(__file__).parents[2] / "examples" / "jobs"
NOON = dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC)
ON_CLOUD = "provider: gcp\naccelerator: l4\nmarket: on_demand\n"


@pytest.fixture
def here(user_folder, tmp_path, monkeypatch):
    """Writes these files; `~` is the folder of the user's own settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config").mkdir()
    few_showers(user_folder / "showers")

    def write(**texts):
        for name, text in texts.items():
            path = tmp_path / "config/cloudgan.yaml" if name == "own" else Path(f"{name}.yaml")
            path.write_text(text)

    return write


@pytest.mark.parametrize(
    ("texts", "flags", "hours"),
    [
        (("", ""), (), 24),
        (("max_hours: 3\n", ""), (), 3),
        (("max_hours: 3\n", "max_hours: 2\n"), (), 2),
        (("max_hours: 3\n", "limits: {max_hours: 2}\n"), (), 2),
        (("max_hours: 3\n", "limits:\n  max_hours: 2\n"), ("--max-hours=1",), 1),
        (("max_hours: 3\n", ""), ("--max-hours=24",), 24),
    ],
)
def test_a_flag_goes_before_the_job_that_before_the_users_file_that_before_the_default(
    here, planned, texts, flags, hours
):
    own, job = texts
    here(own=own, job=job)
    assert planned("job.yaml", *flags)["limits"]["deadline_seconds"] == 3600 * hours


def test_the_users_file_holds_without_a_job_too(here, planned):
    here(own="provider: gcp\nregion: europe-west4\nproject: my-lab\n")
    target = planned("--accelerator=l4")["target"]
    assert (target["provider"], target["region"]) == ("gcp", "europe-west4")
    assert target["account"] == "my-lab"


@pytest.mark.parametrize(
    ("run", "flags", "found"),
    [
        ("train --preset=mini --epochs=3", (), ("mini", 3)),
        ("[train, --preset=mini, --epochs=3]", (), ("mini", 3)),
        ("train --preset=mini --epochs=3", ("--epochs=5",), ("mini", 5)),
        ("train --preset=mini --epochs=3", ("--", "train", "--preset=smoke"), ("smoke", 60)),
    ],
)
def test_flags_of_the_training_are_laid_over_the_run_of_the_job(here, planned, run, flags, found):
    here(job=f"data: showers\nrun: {run}\n")
    plan = planned("job.yaml", *flags)
    assert (plan["run"].partition("-")[0], plan["config"]["training"]["epochs"]) == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("provider: gcp\nnode: 2\n", "job.yaml, line 2, column 1: unknown key node. Did you mean"),
        ("limits:\n  budget: 3\n", "line 2, column 3: unknown key limits.budget. Did you mean"),
        ("limits: 3\n", "line 1, column 9: limits=3: give keys, such as {budget_usd: 20"),
        ("yes: true\n", "unknown key yes"),
        ("nodes: two\n", "job.yaml: --nodes must be a whole number or auto, got 'two'"),
        ("nodes: [2, 3]\n", "job.yaml: --nodes="),
        ("max_hours: [1]\n", "job.yaml: --max-hours="),
        ("max_hours: -1\n", "job.yaml: --max-hours=-1 must be above zero"),
        ("provider: {gcp: aws}\n", "job.yaml: --provider="),
        ("provider: gpc\n", "unknown value of --provider 'gpc'. Did you mean 'gcp'?"),
        ("provider: [gcp, local]\n", "unknown value of --provider 'local'. Known: aws, azure, gcp"),
        ("nodes: 2\nnodes: 3\n", "the key 'nodes' is repeated at line 2"),
        ("- nodes\n", "holds list, expected keys and values"),
        ("run: tarin --preset=mini\n", "'tarin'. Did you mean 'train'?"),
        ("run: train --presett=mini\n", "'--presett'. Did you mean '--preset'?"),
        ("run: train 'showers.h5\n", "line 1, column 6: run=train 'showers.h5: No closing quot"),
        ("run: 3\n", "run=3: give the command line of the job"),
        ("secrets: [TOKEN=4bcd3fgh]\n", "job.yaml: --secret"),
        ("env: {LAB_TOKEN: 4bcd3fgh}\n", "--env=LAB_TOKEN looks like a credential"),
        ("data: [a.h5]\nrun: train --preset=mini\n", "data=['a.h5']: give one file, folder or URL"),
        ("env: {LAB=MODE: 4bcd3fgh}\n", "--env: 'LAB=MODE' has no single value"),
        ("env: {LAB: [4bcd3fgh, x]}\n", "--env: 'LAB' has no single value"),
        ("env: {LAB: {A: 4bcd3fgh}}\n", "--env: 'LAB' has no single value"),
        ("provider: gcp\naccelerator: l4\nname: a b\n", "--name=a b names hosts and labels"),
        ("provider: gcp\naccelerator: l4\nname: a/b\n", "--name=a-b would do"),
    ],
)
def test_a_job_that_is_not_valid_starts_nothing_and_is_explained(
    here, cloudgan_here, user_folder, text, expected
):
    here(job=text)
    for verb in (["plan"], ["deploy", "--yes"]):
        said = cloudgan_here(*verb, "job.yaml", exits=2).stderr
        assert expected in said
        assert "4bcd3fgh" not in said
        assert len(said.splitlines()) == 1
    assert {path.name for path in user_folder.iterdir()} == {"job.yaml", "showers"}


def test_data_without_a_value_are_as_if_omitted(here, cloudgan_here):
    here(job="data:\nrun: train showers --preset=mini\n")
    assert "train mini" in cloudgan_here("plan", "job.yaml").stdout


def test_showers_in_the_place_of_a_job_are_refused_with_the_way_to_name_them(here, cloudgan_here):
    assert "or give --data=showers" in cloudgan_here("plan", "showers", exits=2).stderr


def test_a_variable_without_a_value_has_that_of_the_environment(here, planned, monkeypatch):
    monkeypatch.setenv("HERE", "this")
    here(job="env: {MODE: a, DEBUG: true, THREADS: 2, HERE: }\n")
    found = planned("job.yaml")["workers"]["env"]
    assert found == {"MODE": "a", "DEBUG": "true", "THREADS": "2", "HERE": "this"}


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "run:\n"])
def test_an_empty_job_is_a_plan_of_the_defaults(here, planned, text):
    here(job=text)
    assert planned("job.yaml")["spec_hash"] == planned()["spec_hash"]


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--preset=mini", "--epochs=3", "--seed=7"),
        ("--provider=gcp,aws", "--accelerator=l4", "--nodes=auto", "--market=spot"),
        (
            "--provider=gcp",
            "--accelerator=l4:1",
            "--region=us-central1,us-east1",
            "--keep-nodes=30m",
        ),
        ("--env=LAB_MODE=on 'x'", "--env=LAB_HOST=a,b", "--secret=LAB_LOGIN", "--max-hours=2.5"),
        ("--provider=slurm", "--store=shared", "--queue=gpu", "--", "evolve", "--grid=2x3"),
        ("--", "train", "--data=showers", "--preset=smoke", "--precision=float32"),
        ("--seeds=1,2", "--preset=smoke"),
        ("mine.yaml", "--nodes=3"),
    ],
)
def test_a_saved_plan_plans_the_same(here, planned, monkeypatch, words):
    monkeypatch.setattr("cloudgan.launch.plan.launch_plan.utc_moment", lambda: NOON)
    here(own="max_hours: 900\n", mine=f"{ON_CLOUD}data: showers\nrun: train --preset=mini\n")
    once = planned("--save=job.yaml", *words)
    assert planned("job.yaml") == once


def test_saving_replaces_no_file_and_holds_no_value_of_a_secret(
    here, cloudgan_here, monkeypatch, user_folder
):
    monkeypatch.setenv("LAB_LOGIN", "pl4nted-value")
    cloudgan_here("plan", "--secret=LAB_LOGIN", "--save=job.yaml")
    text = Path("job.yaml").read_text()
    assert yaml.safe_load(text) == {"secrets": ["LAB_LOGIN"]}
    said = cloudgan_here("plan", "--nodes=2", "--save=job.yaml", exits=2).stderr
    assert "job.yaml exists; remove it, or give another name" in said
    assert Path("job.yaml").read_text() == text
    said = cloudgan_here("plan", "--save=nowhere/job.yaml", exits=2).stderr
    assert "the folder nowhere does not exist" in said
    assert {path.name for path in user_folder.iterdir()} == {"job.yaml", "showers"}


def test_the_plan_names_the_variables_and_no_value(here, cloudgan_here):
    said = cloudgan_here("plan", "--env=LAB_MODE=quick", "--secret=LAB_LOGIN").stdout
    assert "  env      LAB_MODE, LAB_LOGIN (secret)" in said.splitlines()
    assert "quick" not in said


@pytest.mark.parametrize(
    ("provider", "chosen"),
    [("[aws, gcp]", "gcp"), ("aws,azure", "aws"), ("[aws]", "aws"), ("cheapest", "gcp")],
)
def test_the_cheapest_of_the_named_clouds_is_chosen(here, planned, provider, chosen):
    here(job=f"provider: {provider}\naccelerator: l4\nrun: train --epochs=1\n")
    assert planned("job.yaml")["target"]["provider"] == chosen


@pytest.mark.parametrize("example", sorted(EXAMPLES.iterdir()), ids=lambda path: path.stem)
def test_the_examples_plan_what_their_names_say(here, planned, cloudgan_here, example):
    here(job=example.read_text().replace("showers.h5", "showers"))
    provider, task = example.stem.split("-")
    assert planned("job.yaml")["target"]["provider"] == provider
    assert f": {task} " in cloudgan_here("plan", "job.yaml").stdout.partition("\n")[0]
