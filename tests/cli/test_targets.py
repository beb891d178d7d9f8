"""Targets, and runs found by name."""

from pathlib import Path

import pytest

from cloudgan.core.errors import ConfigError, ResourcesLeftError, UnknownNameError
from cloudgan.launch.backends.local.backend import LocalBackend
from cloudgan.launch.operations import targets
from cloudgan.launch.operations.targets import RunLocator, find_run, run_folder
from cloudgan.launch.plan.launch_plan import existing_target
from cloudgan.schema import plan as plans
from cloudgan.schema.plan import Target
from launch.lifecycle.cloud_double import PROJECT


class RemoteBackend:
    """A backend that has some runs."""

    def __init__(self, *known):
        self._known = {plan.run: plan for plan in known}

    def desired_state(self, run):
        return self._known.get(run)

    def list_runs(self):
        return tuple(sorted(self._known))


@pytest.fixture
def remembered(user_folder, plan_of):
    """A run that was started from this folder, on this machine."""
    plan = plan_of(name="gan-one", target={"provider": "local"})
    plans.write(user_folder / "runs" / "gan-one" / "plan.json", plan)
    return plan


def test_a_run_is_found_in_the_folder_that_started_it(remembered):
    plan, provider = find_run("gan-one")
    assert plan == remembered
    assert isinstance(provider, LocalBackend)
    assert find_run("runs/gan-one")[0] == remembered, "its folder will do"
    assert str(run_folder(plan).path) == "runs/gan-one"


def test_a_run_on_a_cluster_is_found_from_any_machine(user_folder, plan_of, monkeypatch):
    plan = plan_of(target={"context": "what another machine calls it", "server": "https://x"})
    monkeypatch.setattr(
        targets, "open_backend", lambda target, say, store=None: RemoteBackend(plan)
    )
    for flags in ({"provider": "kubernetes"}, {"context": "lab"}, {"namespace": "cloudgan"}):
        found, _ = find_run("gan", RunLocator(**flags))
        assert found.target.context == "lab", "the context that reaches it from here"
        assert found.model_copy(update={"target": plan.target}) == plan


def test_an_unknown_run_of_a_cluster_is_refused_with_the_known_ones(
    user_folder, plan_of, monkeypatch
):
    known = [plan_of()]
    monkeypatch.setattr(
        targets, "open_backend", lambda target, say, store=None: RemoteBackend(*known)
    )
    with pytest.raises(UnknownNameError, match=r"run in kubernetes \(context lab.*mean 'gan'\?"):
        find_run("gam", RunLocator(provider="kubernetes"))
    known.clear()
    with pytest.raises(ConfigError, match=r"has no run gam, and no other run"):
        find_run("gam", RunLocator(provider="kubernetes"))


def test_a_target_is_resolved_offline(user_folder):
    assert existing_target() == existing_target("local") == Target(provider="local")
    assert existing_target("slurm") == Target(provider="slurm")
    found = existing_target("kubernetes", "lab", "physics")
    assert (found.context, found.namespace) == ("lab", "physics")
    assert found.server == "https://lab.example:6443"
    assert existing_target("kubernetes").namespace == "cloudgan"


@pytest.mark.parametrize("flags", [{}, {"region": "europe-west4"}, {"project": PROJECT}])
def test_a_provisioned_run_is_found_by_its_desired_state_from_any_machine(
    user_folder, cloud, provisioned, flags
):
    plan = provisioned("gan", "started", region="europe-west4")
    cloud.add("bucket", "gcp-us-central1")
    cloud.add("pool", "cloudgan/gan", "gan", region="europe-west4-b")
    found, provider = find_run("gan", RunLocator(provider="gcp", **flags))
    assert found == plan
    assert provider.desired_state("gan") == plan


def test_a_store_that_does_not_answer_or_another_version_wrote_is_no_lack_of_the_run(
    user_folder, cloud, provisioned, tmp_path
):
    plan = provisioned("gan", "started")
    there = Path(plan.store) / "runs" / "gan" / "desired-state"
    (state,) = there.iterdir()
    state.write_text(state.read_text().replace('"schema_version":1', '"schema_version":99'))
    with pytest.raises(ConfigError, match=r"gan in .* was started by another version of cloudgan"):
        find_run("gan", RunLocator(provider="gcp"))
    there.rename(tmp_path / "away")
    there.symlink_to(tmp_path / "away")  # which a store refuses to follow
    with pytest.raises(ResourcesLeftError, match=r"no answer from .*, where run gan may be"):
        find_run("gan", RunLocator(provider="gcp"))


def test_a_provisioned_run_is_found_by_its_own_store(user_folder, cloud, provisioned, tmp_path):
    own = str(tmp_path / "own")
    plan = provisioned("gan", "started", store=own)
    with pytest.raises(ConfigError, match=r"have no run gan.*--store"):
        find_run("gan", RunLocator(provider="gcp"))
    assert find_run("gan", RunLocator(provider="gcp", store=own))[0] == plan
