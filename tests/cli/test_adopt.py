"""`cloudgan adopt`: a run that another machine started."""

from __future__ import annotations

import json

import pytest

from auditing.cloud_double import PROJECT, REGION, JobDouble, RulesDouble
from cloudgan.core import launch
from cloudgan.core import plan as plans
from cloudgan.core.plan import Rental
from cloudgan.launching.intents import Intents
from cloudgan.launching.ledger import Ledger
from cloudgan.launching.results import Results
from cloudgan.run_folder import RunFolder
from cloudgan.stores import open_store


@pytest.fixture
def elsewhere(cloud, tmp_path, plan_of, user_folder):
    """A run that another machine started, which has a record and a checkpoint."""
    rules = RulesDouble(tmp_path / "buckets")
    place = rules.place(PROJECT, REGION, f"{REGION}-a", None)
    plan = plan_of(
        place=place.model_dump(),
        store=rules.store(place),
        showers={"source": "electrons.h5"},
        rental=Rental(node_type="n1-standard-8+1xT4", market="spot", pool="gan"),
        requests=lambda plan: (),
    )
    store = open_store(plan.store)
    results = Results(store, "gan")
    Ledger(RunFolder(tmp_path / "there"), plan, results).begin([])
    results.write_plan(plan)
    Intents(store, "another machine").write(plan, "started")
    store.put("runs/gan/record.jsonl", b"{}\n")
    store.put("runs/gan/checkpoints/step-1.npz", b"weights")
    cloud.add("cluster", "cloudgan")
    cloud.add("pool", "cloudgan/gan", "gan", parent="cloudgan", nodes=1)
    cloud.api = JobDouble("gan")
    return plan


def test_all_that_the_other_machine_had_is_here(cloudgan_here, elsewhere, user_folder):
    said = json.loads(cloudgan_here("adopt", "gan", "--provider=gcp", "--json").stdout)
    assert (said["state"], said["attempts"]) == ("waiting", 1)
    here = user_folder / "runs" / "gan"
    assert plans.read(here / "plan.json") == elsewhere
    assert launch.read(here / "launch.json").run == "gan"
    assert "electrons.h5" in (here / "run.yaml").read_text()
    assert (here / "record.jsonl").read_bytes() == b"{}\n"
    assert (here / "checkpoints" / "step-1.npz").read_bytes() == b"weights"
    status = json.loads(cloudgan_here("status", "gan", "--json").stdout)
    assert status["phase"] == "waiting", "and nobody has to say any more where it is"


def test_twice_is_fine(cloudgan_here, elsewhere, user_folder):
    flags = ("adopt", "gan", "--provider=gcp", f"--region={REGION}", "--json")
    first, second = (json.loads(cloudgan_here(*flags).stdout) for _ in range(2))
    assert second == first | {"fetched": ""}


def test_another_run_of_this_name_stays_as_it_is(cloudgan_here, elsewhere, user_folder):
    path = user_folder / "runs" / "gan" / "plan.json"
    plans.write(path, elsewhere.model_copy(update={"spec": "another"}))
    said = cloudgan_here("adopt", "gan", "--provider=gcp", exits=2)
    assert "runs/gan holds another run of this name" in said.stderr
    assert plans.read(path).spec == "another"
    assert [one.name for one in path.parent.iterdir()] == ["plan.json"]


def test_what_is_nowhere_is_not_adopted(cloudgan_here, elsewhere, user_folder):
    said = cloudgan_here("adopt", "gam", "--provider=gcp", exits=2)
    assert "Did you mean 'gan'?" in said.stderr
    assert not (user_folder / "runs").exists()
