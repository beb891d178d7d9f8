"""Runs on provisioned machines: desired states, existing resources, and deletion."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cloudgan.core.errors import (
    CloudganError,
    ConfigError,
    CredentialsError,
    LaunchError,
    PlanError,
    ResourcesLeftError,
)
from cloudgan.core.labels import RUN, derived_name
from cloudgan.launch.lifecycle.apply import apply, deprovision, record_deprovision
from cloudgan.launch.lifecycle.provisioned_backend import ProvisionedBackend
from cloudgan.launch.lifecycle.run_registry import RunRegistry
from cloudgan.schema.plan import NodePool, Step
from cloudgan.schema.resource import Finding
from cloudgan.schema.run_state import RunState
from cloudgan.storage.folder import FolderStore
from cloudgan.storage.store import StoreError
from launch.lifecycle.place_double import PlaceDouble
from launch.operations.cloud_double import CloudDouble, RulesDouble

BUCKET = "cloudgan-lab-1-us-central1"


class JobDouble(PlaceDouble):
    """A run's job: it runs while its nodes are there."""

    def __init__(self, cloud):
        super().__init__()
        self.cloud = cloud

    def state(self, run):
        return RunState("running" if self.cloud.list_resources(run) else "absent")


class Lab:
    """A cloud, its store, and a cluster in it that runs jobs."""

    def __init__(self, folder, plan_of, ledger_of):
        self.cloud, self.store = CloudDouble(), FolderStore(folder / "bucket")
        self.jobs, self.said = {}, []
        self._folder, self._plan_of, self._ledger_of = folder, plan_of, ledger_of

    def plan(self, name="gan", **node_pool):
        place = {"provider": "gcp", "account": "lab-1", "region": "us-central1", "zone": "z"}
        place |= {"cluster": "cloudgan", "context": None, "server": None}
        pool = {"node_type": "g2-standard-4", "market": "spot", "name": derived_name(name, "", 40)}
        rules = RulesDouble(self._folder)
        return self._plan_of(
            name=name,
            target=place,
            store=str(self._folder / "bucket"),
            node_pool=NodePool(**(pool | node_pool)),
            requests=rules.steps,
        )

    def provider(self, lease_owner="me", inner=None):
        def in_cluster(plan):
            if not any(resource.kind == "cluster" for resource in self.cloud.list_resources()):
                return None
            return self.jobs.setdefault(plan.run, JobDouble(self.cloud))

        return ProvisionedBackend(
            self.cloud,
            RunRegistry(self.store, lease_owner),
            inner=inner or in_cluster,
            all_steps=lambda plan: plan.steps,
            say=self.said.append,
            poll_seconds=0.005,
        )

    def apply(self, plan, provider=None):
        return apply(plan, provider or self.provider(), self._ledger_of(plan), self.said.append)

    def desired_state(self, run="gan"):
        found = RunRegistry(self.store, "test").read(run)
        return found.state if found else None

    def left(self):
        return sorted(resource.kind for resource in self.cloud.there.values())


@pytest.fixture
def lab(tmp_path, plan_of, ledger_of):
    return Lab(tmp_path, plan_of, ledger_of)


def test_the_desired_state_is_written_before_any_resource_that_bills(lab):
    seen = []
    lab.cloud.sees = lambda step: seen.append((step.ensure.partition(" ")[0], lab.desired_state()))
    assert lab.apply(lab.plan())
    assert seen == [("bucket", None), ("cluster", "starting"), ("pool", "starting")]
    assert lab.desired_state() == "started"


def test_a_second_start_of_a_run_that_runs_makes_nothing(lab):
    lab.apply(lab.plan())
    asked = len(lab.cloud.asked)
    assert not lab.apply(lab.plan())
    assert len(lab.cloud.asked) == asked


def test_a_start_that_was_cut_off_goes_on_where_it_was(lab):
    plan = lab.plan()
    provider = lab.provider()
    for step in plan.steps[:3]:
        provider.ensure(step, plan)
    pool_made_later = lab.apply(plan)
    assert pool_made_later
    assert [what for verb, what in lab.cloud.asked if verb == "create"] == [
        f"bucket {BUCKET}",
        "cluster cloudgan",
        f"pool cloudgan/{plan.node_pool.name}",
    ]


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_the_cluster_goes_with_the_last_of_its_runs_in_either_order(lab, order):
    for name in order:
        lab.apply(lab.plan(name))
    first, last = reversed(order)
    list(lab.provider().destroy(first))
    assert lab.left() == ["bucket", "cluster", "pool"]
    assert lab.desired_state(last) == "started"
    list(lab.provider().destroy(last))
    assert lab.left() == ["bucket"], "what setup makes stays"
    assert (lab.desired_state(first), lab.desired_state(last)) == ("removed", "removed")


def test_a_run_that_another_laptop_is_just_starting_keeps_the_cluster(lab):
    lab.apply(lab.plan("one"))
    two = lab.plan("two")
    lab.provider("elsewhere").ensure(two.steps[1], two)  # its desired state, and no pool yet
    list(lab.provider().destroy("one"))
    assert "cluster" in lab.left()


def test_a_cluster_with_the_pool_of_another_run_stays_even_without_a_desired_state(lab):
    lab.apply(lab.plan())
    lab.cloud.add("pool", "cloudgan/lost", run="lost", parent="cloudgan")
    list(lab.provider().destroy("gan"))
    assert lab.left() == ["bucket", "cluster", "pool"]
    assert lab.cloud.there["cloudgan/lost"].labels[RUN] == "lost"


def test_keep_cluster_keeps_it(lab):
    lab.apply(lab.plan(keep_cluster=True))
    list(lab.provider().destroy("gan"))
    assert lab.left() == ["bucket", "cluster"]


def test_a_cluster_that_was_there_before_is_never_deleted(lab):
    cluster = lab.cloud.add("cluster", "cloudgan")
    lab.cloud.there["cloudgan"] = replace(cluster, labels={"team": "calo"}, deletion_order=60)
    lab.apply(lab.plan())
    list(lab.provider().destroy("gan"))
    assert lab.left() == ["bucket", "cluster"]


def test_removing_twice_finds_nothing_the_second_time(lab):
    lab.apply(lab.plan())
    assert list(lab.provider().destroy("gan"))
    lab.jobs.clear()
    assert list(lab.provider().destroy("gan")) == []
    assert lab.desired_state() == "removed"


@pytest.mark.parametrize("act", ["stop", "destroy"])
def test_a_cluster_that_does_not_answer_keeps_no_machine(lab, act):
    lab.apply(lab.plan())
    lab.provider().state("gan")

    def away(run):
        raise CloudganError("the cluster does not answer")
        yield

    job = lab.jobs["gan"]
    job.destroy, job.stop = away, lambda run: next(away(run))
    list(getattr(lab.provider(), act)("gan") or ())
    assert lab.left() == ["bucket"]
    assert "the cluster does not answer. The nodes are deleted anyway" in lab.said


def test_what_stays_in_a_kept_cluster_that_does_not_answer_is_no_success(lab):
    lab.apply(lab.plan(keep_cluster=True))
    lab.provider().state("gan")

    def away(run):
        raise CloudganError("the cluster does not answer")
        yield

    lab.jobs["gan"].destroy = away
    with pytest.raises(CloudganError, match="does not answer"):
        list(lab.provider().destroy("gan"))
    assert lab.left() == ["bucket", "cluster"]
    assert lab.desired_state() == "removing", "down has to be typed again"


def test_resources_without_a_desired_state_are_deleted_too(lab):
    lab.cloud.add("pool", "cloudgan/gan", run="gan")
    assert list(lab.provider().destroy("gan")) == ["pool cloudgan/gan"]


def test_cancel_saves_first_and_gives_the_nodes_back(lab):
    lab.apply(lab.plan())
    lab.provider().state("gan")
    job = lab.jobs["gan"]
    job.stop = lambda run: job.calls.append(("stop", run, lab.left()))
    lab.provider().stop("gan")
    assert job.calls == [("stop", "gan", ["bucket", "cluster", "pool"])], "saved on its nodes"
    assert lab.left() == ["bucket"]
    assert lab.provider().state("gan").phase == "stopped"


@pytest.mark.parametrize("state", ["finished", "failed"])
def test_after_its_end_nothing_bills_and_its_state_is_known_still(lab, state):
    lab.apply(lab.plan())
    gone = list(lab.provider().deprovision("gan", state))
    assert any("pool" in name for name in gone)
    assert lab.left() == ["bucket"]
    assert lab.provider().state("gan").phase == state
    assert lab.provider().desired_state("gan").run == "gan", "status and logs need its plan"


def test_a_run_whose_cluster_is_gone_is_absent_and_can_be_started_again(lab):
    lab.apply(lab.plan())
    lab.cloud.there.clear()
    assert lab.provider().state("gan").phase == "absent"
    lab.jobs.clear()
    assert lab.apply(lab.plan())
    assert "pool" in lab.left()


def test_a_start_ends_when_another_client_removes_the_run_meanwhile(lab):
    def down(step):
        if step.ensure.startswith("cluster"):
            list(lab.provider("another laptop").destroy("gan"))

    lab.cloud.sees = down
    with pytest.raises(LaunchError, match="was removed by another laptop while it was started"):
        lab.apply(lab.plan())
    assert "pool" not in lab.left()


def test_other_settings_under_the_same_name_are_refused_before_anything_is_made(lab):
    lab.apply(lab.plan())
    asked = len(lab.cloud.asked)
    other = lab.plan().model_copy(update={"spec_hash": "ffffffffff"})
    with pytest.raises(ConfigError, match="run gan exists with other settings"):
        lab.apply(other)
    assert len(lab.cloud.asked) == asked


@pytest.mark.parametrize(
    ("findings", "kind"),
    [
        ((Finding("NVIDIA_L4_GPUS", "missing", "0 of 2; ask for 2", is_quota=True),), PlanError),
        (
            (
                Finding("right container.clusters.create", "missing", "grant it"),
                Finding("NVIDIA_L4_GPUS", "missing", "0 of 2", is_quota=True),
            ),
            CredentialsError,
        ),
    ],
)
def test_all_that_is_missing_is_in_one_error(lab, findings, kind):
    lab.cloud.findings = findings
    with pytest.raises(kind) as error:
        lab.provider().check(lab.plan())
    assert all(one.subject in str(error.value) for one in findings)


def test_an_unknown_finding_is_a_warning(lab):
    lab.cloud.findings = (Finding("quota", "unknown", "not asked"), Finding("login", "ok", "me"))
    assert lab.provider().check(lab.plan()) == ("quota: not asked",)


def test_runs_are_those_with_a_desired_state_and_those_with_remaining_resources(lab):
    lab.apply(lab.plan("meant"))
    lab.cloud.add("pool", "cloudgan/lost", run="lost")
    lab.apply(lab.plan("over"))
    list(lab.provider().destroy("over"))
    assert lab.provider().list_runs() == ("lost", "meant")


class JobThatFails(JobDouble):
    """A job whose creation fails with an error."""

    def __init__(self, cloud, error):
        super().__init__(cloud)
        self.error = error

    def ensure(self, step, plan):
        raise self.error


def with_job(plan):
    """Returns the plan with a step for its job."""
    job = Step(ensure="Job gan", method="POST", path="/apis/batch/v1/jobs", at="cluster")
    return plan.model_copy(update={"steps": (*plan.steps, job)})


ERRORS = [
    LaunchError("refused"),
    CredentialsError("401 Unauthorized"),
    ConfigError("an object of this name exists"),
    PlanError("no quota"),
    StoreError("the bucket does not answer"),
    OSError(28, "No space left on device"),
    ZeroDivisionError("a fault"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_any_error_between_the_nodes_and_the_job_gives_the_nodes_back(lab, error):
    plan = with_job(lab.plan())
    lab.jobs[plan.run] = JobThatFails(lab.cloud, error)
    with pytest.raises(type(error)):
        lab.apply(plan)
    assert [what for verb, what in lab.cloud.asked if verb == "create"][-1].startswith("pool ")
    assert lab.left() == ["bucket"]
    assert lab.desired_state() == "failed"


@pytest.mark.parametrize(
    "error",
    [error for error in ERRORS if not isinstance(error, ConfigError | PlanError)],
    ids=lambda error: type(error).__name__,
)
def test_an_error_while_the_nodes_are_created_deletes_the_existing_ones(lab, error):
    plan, find, failing = with_job(lab.plan()), lab.cloud.find, [error]

    def find_once_created(step):
        found = find(step)
        if found and found.kind == "pool" and failing:
            raise failing.pop()
        return found

    lab.cloud.find = find_once_created
    with pytest.raises(type(error)):
        lab.apply(plan)
    assert lab.left() == ["bucket"]


def test_nodes_are_deleted_even_if_the_store_does_not_answer(lab, monkeypatch):
    plan = with_job(lab.plan())
    lab.jobs[plan.run] = JobThatFails(lab.cloud, CredentialsError("401"))
    provider = lab.provider()
    made = lab.jobs[plan.run].ensure

    def ensure(step, plan):
        def unreachable(*arguments, **keywords):
            raise StoreError("the bucket does not answer")

        monkeypatch.setattr(provider._registry.store.__class__, "list", unreachable)
        made(step, plan)

    lab.jobs[plan.run].ensure = ensure
    with pytest.raises(CredentialsError):
        lab.apply(plan, provider)
    assert "pool" not in lab.left()
    assert any("The nodes are deleted anyway" in line for line in lab.said)


def test_a_refusal_before_anything_is_created_deletes_nothing_of_a_namesake(lab):
    plan = lab.plan()
    lab.apply(plan)
    before = lab.left()
    with pytest.raises(ConfigError, match="other settings"):
        lab.apply(plan.model_copy(update={"spec_hash": "0" * 12}))
    assert lab.left() == before


def test_a_start_that_cannot_be_noted_keeps_its_job(lab):
    plan, provider = lab.plan(), lab.provider()

    def annotate(run, state):
        raise StoreError("the bucket does not answer")

    provider.annotate = annotate
    assert lab.apply(plan, provider)
    assert "pool" in lab.left()
    assert any("could not be noted" in line for line in lab.said)


def test_what_fails_to_go_stays_registered_and_the_rest_goes(lab):
    plan = lab.plan(keep_cluster=True)
    lab.apply(plan)
    pool = f"cloudgan/{plan.node_pool.name}"
    lab.cloud.add("pool", "cloudgan/second", run="gan", parent="cloudgan")
    lab.cloud.fails[pool] = CredentialsError("this login has expired")
    with pytest.raises(
        ResourcesLeftError, match=f"{pool}: this login has expired.*cloudgan down gan"
    ):
        list(lab.provider().destroy("gan"))
    assert pool in lab.cloud.there
    assert "cloudgan/second" not in lab.cloud.there
    assert lab.desired_state() == "removing", "down has to be typed again"


@pytest.mark.parametrize("act", ["stop", "destroy", "deprovision"])
def test_a_zone_that_does_not_answer_is_no_proof_that_nothing_is_left(lab, act):
    lab.apply(lab.plan())
    pool = lab.cloud.there[f"cloudgan/{lab.plan().node_pool.name}"]
    lab.cloud.there[pool.name] = replace(pool, region="us-central1-f")
    lab.cloud.silent = ["us-central1-f", "europe-west4-a"]
    arguments = ("gan", "finished") if act == "deprovision" else ("gan",)

    def end():
        return list(getattr(lab.provider(), act)(*arguments) or ())

    with pytest.raises(
        ResourcesLeftError, match=r"no answer from us-central1-f\..*run `cloudgan down"
    ):
        end()
    assert lab.left() == ["bucket", "cluster", "pool"], "another run may use the cluster"
    assert lab.desired_state() != "removed"
    lab.cloud.silent = ["europe-west4-a"]
    lab.cloud.there[pool.name] = pool
    end()
    assert lab.left() == ["bucket"], "a region that the run never used is not asked"


@pytest.mark.parametrize("error", [LaunchError("answered 503"), CredentialsError("login expired")])
def test_a_cloud_that_cannot_be_listed_has_unknown_resources(lab, error):
    lab.apply(lab.plan())

    def away(run=None, regions=None):
        raise error

    lab.jobs["gan"] = PlaceDouble()
    lab.cloud.list_resources = away
    with pytest.raises(ResourcesLeftError, match=str(error)) as left:
        list(lab.provider(inner=lambda plan: lab.jobs["gan"]).destroy("gan"))
    assert left.value.exit_code == 4


@pytest.mark.parametrize("act", [deprovision, None], ids=["end", "down"])
def test_billed_nodes_are_deleted_before_the_history_of_other_runs_is_read(lab, ledger_of, act):
    for number in range(20):
        other = lab.plan(f"run-{number}")
        RunRegistry(lab.store, "test").write(other, "finished")
    plan = lab.plan()
    lab.apply(plan)
    read, early = lab.store.read, []

    def seen(name):
        if "/gan/" not in name and "pool" in lab.left():
            early.append(name)
        return read(name)

    object.__setattr__(lab.store, "read", seen)
    ledger, provider = ledger_of(plan), lab.provider()
    if act:
        act(provider, plan, ledger, "failed", lab.said.append)
    else:
        list(record_deprovision(provider, plan, ledger, lambda: provider.destroy("gan")))
    assert early == []
    assert lab.left() == ["bucket"]
    (attempt,) = ledger.read().attempts
    assert attempt.cluster.deleted_at, "the share of the cluster is recorded all the same"
