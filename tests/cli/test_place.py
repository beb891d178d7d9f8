"""From a run's name to where it is."""

from __future__ import annotations

import pytest

from auditing.cloud_double import PROJECT, REGION, RulesDouble
from cloudgan.cli import place
from cloudgan.cli.place import find_place, find_run, folder_of
from cloudgan.core import plan as plans
from cloudgan.core.errors import ConfigError, UnknownNameError
from cloudgan.core.plan import Place, Rental
from cloudgan.launching.intents import Intents
from cloudgan.providers.local.provider import LocalProvider
from cloudgan.stores.folder import FolderStore


class Elsewhere:
    """A provider that knows some runs."""

    def __init__(self, *known):
        self._known = {plan.run: plan for plan in known}

    def intent(self, run):
        return self._known.get(run)

    def runs(self):
        return tuple(sorted(self._known))


@pytest.fixture
def remembered(user_folder, plan_of):
    """A run that was started from this folder, on this machine."""
    plan = plan_of(name="gan-one", place={"provider": "local"})
    plans.write(user_folder / "runs" / "gan-one" / "plan.json", plan)
    return plan


def test_a_run_is_remembered_by_the_folder_it_was_started_from(remembered):
    plan, provider = find_run("gan-one")
    assert plan == remembered
    assert isinstance(provider, LocalProvider)
    assert find_run("runs/gan-one")[0] == remembered, "its folder will do"
    assert str(folder_of(plan).path) == "runs/gan-one"


def test_an_unknown_run_is_refused_with_the_nearest(remembered):
    with pytest.raises(UnknownNameError, match=r"unknown run 'gan-on'\. Did you mean 'gan-one'\?"):
        find_run("gan-on")


def test_where_nothing_was_started_it_is_said_how_to_name_the_place(user_folder):
    with pytest.raises(ConfigError, match=r"started from this folder.*--provider=kubernetes"):
        find_run("gan")
    assert not (user_folder / "runs").exists()


def test_a_name_that_no_run_can_have_is_refused(user_folder):
    with pytest.raises(ConfigError, match="--name=my-run would do"):
        find_run("My Run")


def test_a_run_on_a_cluster_is_found_from_any_machine(user_folder, plan_of, monkeypatch):
    plan = plan_of(place={"context": "what another machine calls it", "server": "https://x"})
    monkeypatch.setattr(place, "open_provider", lambda where, say, store=None: Elsewhere(plan))
    for flags in ({"provider": "kubernetes"}, {"context": "lab"}, {"namespace": "cloudgan"}):
        found, _ = find_run("gan", **flags)
        assert found.place.context == "lab", "the context that reaches it from here"
        assert found.model_copy(update={"place": plan.place}) == plan


def test_a_run_that_a_cluster_does_not_have_is_refused_with_what_it_has(
    user_folder, plan_of, monkeypatch
):
    known = [plan_of()]
    monkeypatch.setattr(place, "open_provider", lambda where, say, store=None: Elsewhere(*known))
    with pytest.raises(UnknownNameError, match=r"run in kubernetes \(context lab.*mean 'gan'\?"):
        find_run("gam", provider="kubernetes")
    known.clear()
    with pytest.raises(ConfigError, match=r"there is no run gam in .*, nor any other"):
        find_run("gam", provider="kubernetes")


def test_a_place_is_found_without_speaking_to_it(user_folder):
    assert find_place() == find_place("local") == Place(provider="local")
    assert find_place("slurm") == Place(provider="slurm")
    found = find_place("kubernetes", "lab", "physics")
    assert (found.context, found.namespace) == ("lab", "physics")
    assert found.server == "https://lab.example:6443"
    assert find_place("kubernetes").namespace == "cloudgan"


@pytest.mark.parametrize("namespace", ["", "A", "a_b", "a/b", "-a", "a" * 64])
def test_a_namespace_that_can_be_none_is_refused(user_folder, namespace):
    with pytest.raises(ConfigError, match="--namespace="):
        find_place("kubernetes", "lab", namespace)


def rented(plan_of, folder, name="gan", region=REGION):
    place = RulesDouble(folder / "buckets").place(PROJECT, region, None, None)
    rental = Rental(node_type="n1-standard-8+1xT4", market="spot", pool=name)
    return plan_of(
        name=name,
        place=place.model_dump(),
        store=RulesDouble(folder / "buckets").store(place),
        rental=rental,
        requests=lambda plan: (),
    )


@pytest.mark.parametrize("flags", [{}, {"region": "europe-west4"}, {"project": PROJECT}])
def test_a_rented_run_is_found_by_its_intent_from_any_machine(
    user_folder, cloud, plan_of, tmp_path, flags
):
    plan = rented(plan_of, tmp_path, region="europe-west4")
    Intents(FolderStore.from_url(plan.store), "another machine").write(plan, "started")
    cloud.add("bucket", "cloudgan-lab-1-us-central1")
    cloud.add("pool", "cloudgan/gan", "gan", region="europe-west4-b")
    found, provider = find_run("gan", provider="gcp", **flags)
    assert found == plan
    assert provider.intent("gan") == plan


def test_a_rented_run_with_a_store_of_its_own_is_found_by_that(
    user_folder, cloud, plan_of, tmp_path
):
    plan = rented(plan_of, tmp_path)
    own = str(tmp_path / "own")
    plan = plan.model_copy(update={"store": own})
    Intents(FolderStore.from_url(own), "another machine").write(plan, "started")
    with pytest.raises(ConfigError, match=r"no run gan in gcp.*--store"):
        find_run("gan", provider="gcp")
    assert find_run("gan", provider="gcp", store=own)[0] == plan


def test_an_unknown_rented_run_is_refused_with_those_that_are_there(
    user_folder, cloud, plan_of, tmp_path
):
    plan = rented(plan_of, tmp_path)
    Intents(FolderStore.from_url(plan.store), "another machine").write(plan, "started")
    with pytest.raises(UnknownNameError, match=r"run in gcp 'gam'\. Did you mean 'gan'"):
        find_run("gam", provider="gcp")


def test_an_account_without_a_cloud_is_refused(user_folder):
    with pytest.raises(ConfigError, match="--project and --region tell of a cloud: add --provider"):
        find_run("gan", project="lab-1", region="us-central1")
