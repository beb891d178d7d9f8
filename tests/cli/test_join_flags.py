"""`search --store` and `deploy -- join` without a running job."""

from __future__ import annotations

import json

import pytest

STORE = "--store=s3://lab/gan"
CLUSTER = (STORE, "--provider=kubernetes", "--nodes=2")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--", "join", "lr"], "needs the store of the search"),
        (
            ["--store=pvc:lab", "--provider=kubernetes", "--image=x/y:1", "--", "join", "lr"],
            "needs the store of the search",
        ),
        (["--store=st", "--", "join", "Not_A_Name"], "Not_A_Name is no name of a search"),
        ([STORE, "--epochs=3", "--", "join", "lr"], "before --: flags of the run stand behind it"),
        ([STORE, "--", "join", "lr", "--epochs=3"], "unknown flag of `cloudgan deploy -- join`"),
        ([STORE, "--", "join"], "`cloudgan deploy -- join` needs NAME"),
        ([STORE, "--", "joyn", "lr"], "Did you mean 'join'?"),
        ([STORE, "--seeds=1,2", "--", "join", "lr"], "omit --seeds"),
        (
            [STORE, "--config=run.yaml", "--", "join", "lr"],
            "before --: flags of the run stand behind it",
        ),
        ([STORE, "--provider=gcp", "--", "join", "lr"], "not built for the job join"),
    ],
)
def test_what_cannot_join_a_search_is_refused_before_anything_starts(
    cloudgan_here, user_folder, flags, said
):
    (user_folder / "run.yaml").write_text("{task: join, join: lr}")
    assert said in cloudgan_here("deploy", *flags, exits=2).stderr
    assert [path.name for path in user_folder.iterdir()] == ["run.yaml"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--", "search", "space.yaml", "x.h5"], "needs a store"),
        ([STORE, "--", "search", "space.yaml", "x.h5", "--show"], "start no search"),
        (
            [STORE, "--", "search", "space.yaml", "x.h5", "--store=there"],
            "--store stands before --",
        ),
        ([STORE, "--", "search", "space.yaml", "x.h5", "--max-hours=1"], "is of this machine"),
        ([STORE, "--", "search", "space.yaml", "x.h5", "--blocks=2"], "--blocks=2 are of this"),
        ([STORE, "--detach", "--", "search", "space.yaml", "x.h5"], "coordinates the search"),
        ([STORE, "--", "search", "space.yaml", "x.h5"], "x.h5 does not exist"),
        ([STORE, "--", "crossvalidate", "x.h5"], "x.h5 does not exist"),
        ([STORE, "--", "crossvalidate", "--show=runs/cv"], "starts nothing"),
        ([STORE, "--", "search", "space.yaml", "--trails=3"], "Did you mean '--trials'?"),
    ],
)
def test_a_search_that_cannot_be_launched_is_refused_before_anything_starts(
    cloudgan_here, user_folder, flags, said
):
    pytest.importorskip("optuna")
    space = user_folder / "space.yaml"
    space.write_text("model.learning_rate: {low: 1.0e-4, high: 1.0e-2, log: true}\n")
    where = ("--provider=kubernetes", "--yes")
    assert said in cloudgan_here("deploy", *where, *flags, exits=2).stderr
    assert list(user_folder.iterdir()) == [space]


def test_a_run_yaml_of_blocks_trains_nothing_here(cloudgan_here, user_folder):
    (user_folder / "run.yaml").write_text("{task: join, join: lr}")
    done = cloudgan_here("train", "--config=run.yaml", exits=2)
    assert "cloudgan deploy -- join lr" in done.stderr
    (user_folder / "run.yaml").write_text("{join: lr}")
    done = cloudgan_here("train", "--config=run.yaml", "--data=x.h5", exits=2)
    assert "task is 'train' and join is 'lr'" in done.stderr


def test_blocks_exchange_nothing_and_have_no_forecast(cloudgan_here, user_folder):
    """So they need neither a secret nor a test of the cluster's network policies."""
    found = json.loads(cloudgan_here("plan", *CLUSTER, "--json", "--", "join", "lr").stdout)
    kinds = [step["ensure"].split()[0] for step in found["steps"]]
    assert "Job" in kinds
    assert not {"Secret", "NetworkPolicy is enforced"} & set(kinds)
    assert found["forecast"]["why_unknown"] == "the blocks train trials until the search ends"
    assert found["run"].startswith("lr-blocks-")
    shown = cloudgan_here("plan", *CLUSTER, "--", "join", "lr").stdout
    assert "train trials of the search lr, on 2 workers" in shown


def test_blocks_have_the_budget_and_the_deadline_of_their_deployment(cloudgan_here, user_folder):
    price = "--price-as=gcp/n1-standard-8+1xT4/us-central1/spot"
    limits = ("--accelerator=t4:1", price, "--budget-usd=1", "--max-hours=100", "--json")
    found = json.loads(cloudgan_here("plan", *CLUSTER, *limits, "--", "join", "lr").stdout)
    assert found["limits"]["deadline_reason"].startswith("--budget-usd=1")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--store=st", "--blocks=2"], "cloudgan deploy --nodes=N -- join search"),
        (["--store=pvc:lab"], "only pods reach a volume claim"),
        (["--store=ftp://x"], "unknown store type 'ftp'"),
        (["--store=st", "--run=runs/Big"], "--run names the search in the store"),
        (
            ["--store=st", "--parallel=downpour", "--ranks=2"],
            "--parallel with --store is not built",
        ),
        (["--store=st", "--describe", "--like=one"], "forecasts blocks of this machine"),
    ],
)
def test_what_pods_cannot_train_is_refused(cloudgan_here, user_folder, flags, said):
    pytest.importorskip("optuna")
    space = user_folder / "space.yaml"
    space.write_text("model.learning_rate: {low: 1.0e-4, high: 1.0e-2, log: true}\n")
    given = ("--preset=smoke", "--data=x.h5")
    assert said in cloudgan_here("search", space, *given, *flags, exits=2).stderr
    assert list(user_folder.iterdir()) == [space]
