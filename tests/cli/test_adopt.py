"""`cloudgan adopt`: a run that another machine started."""

import pytest

from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.lifecycle.run_results import RunResults
from cloudgan.schema import launch
from cloudgan.schema import plan as plans
from cloudgan.schema.run_folder import RunFolder
from cloudgan.storage.store import open_store
from launch.lifecycle.cloud_double import REGION, JobDouble


@pytest.fixture
def elsewhere(cloud, tmp_path, provisioned, user_folder):
    """A run that another machine started, which has a record and a checkpoint."""
    plan = provisioned("gan", "started", showers={"source": "electrons.h5"})
    store = open_store(plan.store)
    results = RunResults(store, plan)
    LaunchLog(RunFolder(tmp_path / "there"), plan, results).record_attempt([])
    results.write_plan(plan)
    store.put("runs/gan/record.jsonl", b"{}\n")
    store.put("runs/gan/checkpoints/step-1.npz", b"weights")
    cloud.add("cluster", "cloudgan")
    cloud.add("pool", "cloudgan/gan", "gan", parent="cloudgan", nodes=1)
    cloud.api = JobDouble("gan")
    return plan


def test_plan_times_and_record_are_imported(cloudgan_here, elsewhere, user_folder):
    said = cloudgan_here("adopt", "gan", "--provider=gcp", "--json").json()
    assert (said["state"], said["attempts"]) == ("waiting", 1)
    here = user_folder / "runs" / "gan"
    assert plans.read(here / "plan.json") == elsewhere
    assert launch.read(here / "launch.json").run == "gan"
    assert "electrons.h5" in (here / "run.yaml").read_text()
    assert (here / "record.jsonl").read_bytes() == b"{}\n"
    assert (here / "checkpoints" / "step-1.npz").read_bytes() == b"weights"
    status = cloudgan_here("status", "gan", "--json").json()
    assert status["phase"] == "waiting", "later commands need no flags for the place of the run"


def test_a_second_adoption_changes_nothing(cloudgan_here, elsewhere, user_folder):
    flags = ("adopt", "gan", "--provider=gcp", f"--region={REGION}", "--json")
    first, second = (cloudgan_here(*flags).json() for _ in range(2))
    assert second == first | {"fetched": []}


def test_another_run_of_this_name_stays_as_it_is(cloudgan_here, elsewhere, user_folder):
    path = user_folder / "runs" / "gan" / "plan.json"
    plans.write(path, elsewhere.model_copy(update={"spec_hash": "another"}))
    said = cloudgan_here("adopt", "gan", "--provider=gcp", exits=2)
    assert "runs/gan has another run with this name" in said.stderr
    assert plans.read(path).spec_hash == "another"
    assert [one.name for one in path.parent.iterdir()] == ["plan.json"]


def test_an_unknown_run_is_not_adopted(cloudgan_here, elsewhere, user_folder):
    said = cloudgan_here("adopt", "gam", "--provider=gcp", exits=2)
    assert "Did you mean 'gan'?" in said.stderr
    assert not (user_folder / "runs").exists()
