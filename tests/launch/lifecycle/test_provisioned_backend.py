"""Runs on provisioned nodes: desired states, existing resources, and deletion."""

import datetime as dt
from dataclasses import replace
from functools import partial

import pytest

from cloudgan.core.errors import (
    CloudganError,
    ConfigError,
    CredentialsError,
    LaunchError,
    PlanError,
    ResourcesLeftError,
)
from cloudgan.core.labels import derived_name
from cloudgan.launch.clouds.resource import Finding
from cloudgan.launch.lifecycle.apply import apply, deprovision, record_deprovision
from cloudgan.launch.lifecycle.provisioned_backend import ProvisionedBackend
from cloudgan.launch.lifecycle.run_registry import RunRegistry
from cloudgan.schema.launch import Node
from cloudgan.schema.plan import NodePool, Step
from cloudgan.schema.run_state import RunState
from cloudgan.storage.folder import FolderStore
from cloudgan.storage.store import StoreError
from launch.lifecycle.cloud_double import CloudDouble, RulesDouble
from launch.lifecycle.place_double import PlaceDouble

BUCKET = "gcp-us-central1"
ALL, NO_NODES = ["bucket", "cluster", "pool"], ["bucket", "cluster"]
NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


def away(*_, **__):
    raise CloudganError("the cluster does not answer")


class JobDouble(PlaceDouble):
    """A run's job: it runs while its nodes are there; its creation fails with an error, if one is set."""

    def __init__(self, cloud, error=None):
        super().__init__()
        self.cloud, self.error = cloud, error

    def state(self, run):
        return RunState("running" if self.cloud.list_resources(run) else "absent")

    def ensure(self, step, plan):
        if self.error:
            raise self.error
        return super().ensure(step, plan)


class Lab:
    """A cloud, its store, and a cluster in it that runs jobs."""

    def __init__(self, folder, plan_of, ledger_of):
        self.cloud, self.store = CloudDouble(), FolderStore(folder / "bucket")
        self.jobs, self.said = {}, []
        self._folder, self._plan_of, self.log_of = folder, plan_of, ledger_of

    def plan(self, name="gan", **pool):
        place = {"provider": "gcp", "account": "lab-1", "region": "us-central1", "zone": "z"}
        place |= {"cluster": "cloudgan", "context": None, "server": None}
        own = {"node_type": "g2-standard-4", "market": "spot", "name": derived_name(name, "", 40)}
        return self._plan_of(
            name=name,
            target=place,
            store=str(self._folder / "bucket"),
            node_pool=NodePool(**(own | pool)),
            requests=RulesDouble(CloudDouble("gcp", self._folder), engine="cluster").steps,
        )

    def with_job(self, error):
        """The plan with a step for its job, whose creation fails."""
        plan = self.plan()
        self.jobs[plan.run] = JobDouble(self.cloud, error)
        job = Step(ensure="Job gan", method="POST", path="/apis/batch/v1/jobs", at="cluster")
        return plan.model_copy(update={"steps": (*plan.steps, job)})

    def backend(self, lease_owner="me", inner=None):
        def in_cluster(plan):
            if "cluster" not in self.left():
                return None
            return self.jobs.setdefault(plan.run, JobDouble(self.cloud))

        self.cloud.job_backend = inner or in_cluster
        return ProvisionedBackend(
            self.cloud,
            RunRegistry(self.store, lease_owner),
            all_steps=lambda plan: plan.steps,
            say=self.said.append,
            poll_seconds=0.005,
        )

    def apply(self, plan, backend=None):
        return apply(plan, backend or self.backend(), self.log_of(plan), self.said.append)

    def end(self, act, run="gan"):
        """Stops, destroys or deprovisions a run as another command does; returns what is deleted."""
        arguments = (run, "finished") if act == "deprovision" else (run,)
        return list(getattr(self.backend(), act)(*arguments) or ())

    def desired_state(self, run="gan"):
        found = RunRegistry(self.store, "test").read(run)
        return found.state if found else None

    def left(self):
        return sorted(resource.kind for resource in self.cloud.there.values())

    def created(self):
        return self.cloud.asked("create")


@pytest.fixture
def lab(tmp_path, plan_of, ledger_of):
    return Lab(tmp_path, plan_of, ledger_of)


def test_the_desired_state_is_written_before_any_resource_that_bills_and_a_start_is_made_once(lab):
    seen = []
    lab.cloud.sees = lambda step: seen.append((step.ensure.partition(" ")[0], lab.desired_state()))
    assert lab.apply(lab.plan())
    assert seen == [("bucket", None), ("cluster", "starting"), ("pool", "starting")]
    assert lab.desired_state() == "started"
    made = len(lab.cloud.made)
    assert not lab.apply(lab.plan()), "it runs"
    with pytest.raises(ConfigError, match="run gan exists with other settings"):
        lab.apply(lab.plan().model_copy(update={"spec_hash": "ffffffffff"}))
    assert len(lab.cloud.made) == made
    assert lab.left() == ALL, "a refusal deletes nothing of a namesake"


@pytest.mark.parametrize("steps", range(4))
def test_a_start_that_was_cut_off_goes_on_where_it_was(lab, steps):
    plan, backend = lab.plan(), lab.backend()
    for step in plan.steps[:steps]:
        backend.ensure(step, plan)
    assert lab.apply(plan)
    pool = f"pool us-central1/{plan.node_pool.name}"
    assert lab.created() == [f"bucket {BUCKET}", "cluster us-central1/cloudgan", pool]


def test_a_run_whose_cluster_is_gone_is_absent_and_can_be_started_again(lab):
    lab.apply(lab.plan())
    lab.cloud.there.clear()
    assert lab.backend().state("gan").phase == "absent"
    lab.jobs.clear()
    assert lab.apply(lab.plan())
    assert lab.left() == ALL


def test_a_start_ends_when_another_client_removes_the_run_meanwhile(lab):
    def down(step):
        if step.ensure.startswith("cluster"):
            list(lab.backend("another laptop").destroy("gan"))

    lab.cloud.sees = down
    with pytest.raises(LaunchError, match="was removed by another laptop while it was started"):
        lab.apply(lab.plan())
    assert "pool" not in lab.left()


@pytest.mark.parametrize("keep_cluster", [True, False])
def test_a_run_that_another_launcher_starts_while_it_is_deleted_stays_registered(lab, keep_cluster):
    plan = lab.plan(keep_cluster=keep_cluster)
    lab.apply(plan)
    deletion = lab.backend("another laptop").destroy("gan")
    while "pool" in lab.left():
        next(deletion)
    assert lab.apply(plan)
    with pytest.raises(
        ConfigError, match="another launcher changes run gan; check `cloudgan status"
    ):
        list(deletion)
    assert (lab.desired_state(), lab.left()) == ("started", ALL)
    assert lab.backend().state("gan").phase == "running"


@pytest.mark.parametrize("until", ["its end", "its last node"])
def test_of_two_launchers_that_resume_a_run_none_deletes_the_nodes_of_the_other(lab, until):
    plan = lab.plan()
    lab.apply(plan)
    lab.end("stop")
    mine, yours = lab.backend("me"), lab.backend("you")
    clear = yours.clear

    def late(run):
        if until == "its end":
            lab.apply(plan, mine)
        else:
            mine.clear(run)
            for step in plan.steps:
                mine.ensure(step, plan)
        clear(run)

    yours.clear = late
    deleted = lab.cloud.asked("delete")
    if until == "its end":
        lab.apply(plan, yours)
    else:
        with pytest.raises(ConfigError, match="is leased by me"):
            lab.apply(plan, yours)
    assert lab.left() == ALL
    assert lab.cloud.asked("delete") == deleted


def two_runs(lab):
    lab.apply(lab.plan("other"))


def starts_elsewhere(lab):
    other = lab.plan("other")
    lab.backend("elsewhere").ensure(other.steps[1], other)  # its desired state, and no pool yet


def lost_pool(lab):
    lab.cloud.add("pool", "cloudgan/lost", run="lost", parent="us-central1/cloudgan")


def foreign_cluster(lab):
    lab.cloud.there["us-central1/cloudgan"] = replace(
        lab.cloud.there["us-central1/cloudgan"], labels={"team": "calo"}
    )


@pytest.mark.parametrize(
    ("before", "pool", "left"),
    [
        (lambda lab: None, {}, ["bucket"]),
        (two_runs, {}, ALL),
        (starts_elsewhere, {}, NO_NODES),
        (lost_pool, {}, ALL),
        (foreign_cluster, {}, NO_NODES),
        (lambda lab: None, {"keep_cluster": True}, NO_NODES),
    ],
    ids=[
        "alone, and what setup makes stays", "another run", "another laptop is just starting one",
        "a pool without a desired state", "not made by cloudgan", "--keep-cluster",
    ],
)  # fmt: skip
def test_the_cluster_goes_with_the_last_of_its_runs_and_a_second_call_finds_nothing(
    lab, before, pool, left
):
    lab.apply(lab.plan(**pool))
    before(lab)
    assert lab.end("destroy")
    assert lab.left() == left
    assert [one for one in lab.cloud.there.values() if one.run == "gan"] == []
    assert lab.desired_state() == "removed"
    lab.jobs.clear()
    assert [name for name in lab.end("destroy") if name != "gan"] == [], "the double's job apart"
    assert (lab.left(), lab.desired_state()) == (left, "removed")
    if before is two_runs:
        assert lab.desired_state("other") == "started"
        lab.end("destroy", "other")
        assert lab.left() == ["bucket"]


def test_resources_without_a_desired_state_are_listed_and_deleted_too(lab):
    lab.apply(lab.plan("meant"))
    lab.apply(lab.plan("over"))
    lab.end("destroy", "over")
    lab.cloud.add("pool", "cloudgan/lost", run="lost")
    assert lab.backend().list_runs() == ("lost", "meant")
    assert lab.end("destroy", "lost") == ["pool cloudgan/lost"]


@pytest.mark.parametrize("act", ["stop", "destroy"])
def test_a_cluster_that_does_not_answer_keeps_no_node(lab, act):
    lab.apply(lab.plan())
    lab.backend().state("gan")
    lab.jobs["gan"].destroy = lab.jobs["gan"].stop = away
    lab.end(act)
    assert lab.left() == ["bucket"]
    assert "the cluster does not answer. The nodes are deleted anyway" in lab.said


def test_what_stays_in_a_kept_cluster_that_does_not_answer_is_no_success(lab):
    lab.apply(lab.plan(keep_cluster=True))
    lab.backend().state("gan")
    lab.jobs["gan"].destroy = away
    with pytest.raises(CloudganError, match="does not answer"):
        lab.end("destroy")
    assert lab.left() == NO_NODES
    assert lab.desired_state() == "removing", "down has to be typed again"


def test_cancel_saves_first_and_gives_the_nodes_back(lab):
    lab.apply(lab.plan())
    lab.backend().state("gan")
    job = lab.jobs["gan"]
    job.stop = lambda run: job.calls.append(("stop", run, lab.left()))
    lab.backend().stop("gan")
    assert job.calls == [("stop", "gan", ALL)], "saved on its nodes"
    assert lab.left() == ["bucket"]
    assert lab.backend().state("gan").phase == "stopped"


@pytest.mark.parametrize("state", ["finished", "failed"])
def test_after_its_end_nothing_bills_and_its_state_is_known_still(lab, state):
    lab.apply(lab.plan())
    gone = list(lab.backend().deprovision("gan", state))
    assert any("pool" in name for name in gone)
    assert lab.left() == ["bucket"]
    assert lab.backend().state("gan").phase == state
    assert lab.backend().desired_state("gan").run == "gan", "status and logs need its plan"


QUOTA = Finding("NVIDIA_L4_GPUS", "missing", "0 of 2; ask for 2", is_quota=True)
RIGHT = Finding("right container.clusters.create", "missing", "grant it")


@pytest.mark.parametrize(
    ("findings", "kind"), [((QUOTA,), PlanError), ((RIGHT, QUOTA), CredentialsError)]
)
def test_all_that_is_missing_is_in_one_error_and_what_is_unknown_is_a_warning(lab, findings, kind):
    lab.cloud.findings = findings
    with pytest.raises(kind) as error:
        lab.backend().check(lab.plan())
    assert all(one.subject in str(error.value) for one in findings)
    lab.cloud.findings = (Finding("quota", "unknown", "not asked"), Finding("login", "ok", "me"))
    assert lab.backend().check(lab.plan()) == ("quota: not asked",)


@pytest.mark.parametrize("when", ["of the job", "of the nodes"])
@pytest.mark.parametrize(
    "error",
    [
        LaunchError("refused"),
        CredentialsError("401 Unauthorized"),
        ConfigError("an object of this name exists"),
        PlanError("no quota"),
        StoreError("the bucket does not answer"),
        OSError(28, "No space left on device"),
        ZeroDivisionError("a fault"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_any_error_after_the_first_node_gives_the_nodes_back(lab, error, when):
    plan, find, failing = lab.with_job(error), lab.cloud.find, [error]

    def find_once_created(step):
        found = find(step)
        if found and found.kind == "pool" and failing:
            raise failing.pop()
        return found

    if when == "of the nodes":
        if isinstance(error, ConfigError | PlanError):
            return  # these are raised before the request is sent
        lab.cloud.find = find_once_created
    with pytest.raises(type(error)):
        lab.apply(plan)
    assert lab.created()[-1].startswith("pool ")
    assert lab.left() == ["bucket"]
    assert lab.desired_state() == "failed"


def test_nodes_are_deleted_even_if_the_store_does_not_answer(lab, monkeypatch):
    plan = lab.with_job(CredentialsError("401"))
    fails = lab.jobs[plan.run].ensure

    def unreachable(*_, **__):
        raise StoreError("the bucket does not answer")

    def ensure(step, plan):
        monkeypatch.setattr(FolderStore, "list", unreachable)
        fails(step, plan)

    lab.jobs[plan.run].ensure = ensure
    with pytest.raises(CredentialsError):
        lab.apply(plan)
    assert "pool" not in lab.left()
    assert any("The nodes are deleted anyway" in line for line in lab.said)


def test_a_start_that_cannot_be_noted_keeps_its_job(lab):
    backend = lab.backend()
    backend.annotate = away
    assert lab.apply(lab.plan(), backend)
    assert lab.left() == ALL
    assert any("could not be noted" in line for line in lab.said)


def test_what_fails_to_go_stays_registered_and_the_rest_goes(lab):
    plan = lab.plan(keep_cluster=True)
    lab.apply(plan)
    pool = f"us-central1/{plan.node_pool.name}"
    lab.cloud.add("pool", "cloudgan/second", run="gan", parent="us-central1/cloudgan")
    lab.cloud.fails[pool] = CredentialsError("this login has expired")
    with pytest.raises(
        ResourcesLeftError, match=f"{pool}: this login has expired.*cloudgan down gan"
    ):
        lab.end("destroy")
    assert pool in lab.cloud.there
    assert "cloudgan/second" not in lab.cloud.there
    assert lab.desired_state() == "removing", "down has to be typed again"


@pytest.mark.parametrize("act", ["stop", "destroy", "deprovision"])
def test_a_zone_that_does_not_answer_is_no_proof_that_nothing_is_left(lab, act):
    lab.apply(lab.plan())
    pool = lab.cloud.there[f"us-central1/{lab.plan().node_pool.name}"]
    lab.cloud.there[pool.name] = replace(pool, region="us-central1-f")
    lab.cloud.silent = ["us-central1-f", "europe-west4-a"]
    with pytest.raises(
        ResourcesLeftError, match=r"no answer from us-central1-f\..*run `cloudgan down"
    ):
        lab.end(act)
    assert lab.left() == ALL, "another run may use the cluster"
    assert lab.desired_state() != "removed"
    lab.cloud.silent = ["europe-west4-a"]
    lab.cloud.there[pool.name] = pool
    lab.end(act)
    assert lab.left() == ["bucket"], "a region that the run never used is not asked"


@pytest.mark.parametrize("act", ["end", "down"])
def test_billed_nodes_are_deleted_before_the_history_of_other_runs_is_read(lab, act):
    for number in range(20):
        RunRegistry(lab.store, "test").write(lab.plan(f"run-{number}"), "finished")
    plan = lab.plan()
    lab.apply(plan)
    read, early = lab.store.read, []

    def seen(name):
        if "/gan/" not in name and "pool" in lab.left():
            early.append(name)
        return read(name)

    object.__setattr__(lab.store, "read", seen)
    log, backend = lab.log_of(plan), lab.backend()
    if act == "end":
        deprovision(backend, log, "failed", lab.said.append)
    else:
        list(record_deprovision(backend, log, partial(backend.destroy, "gan")))
    assert early == []
    assert lab.left() == ["bucket"]
    (attempt,) = log.read().attempts
    assert attempt.cluster.deleted_at, "the share of the cluster is recorded all the same"


def test_a_state_has_the_nodes_that_are_there(lab):
    job = PlaceDouble([RunState("running", started_at=NOON.isoformat())])
    backend, registry = lab.backend(inner=lambda plan: job), RunRegistry(lab.store, "me")
    registry.write(lab.plan(), "started")
    assert backend.state("gan").nodes == ()
    node = Node(name="a", started_at=NOON)
    job.nodes = lambda run: (node,) if run == "gan" else ()
    assert backend.state("gan").nodes == (node,)
    job.nodes = away
    state = backend.state("gan")
    assert (state.phase, state.nodes) == ("running", None), "the nodes are unknown"
    job.states = [RunState("absent")]
    assert backend.state("gan").ended_at is None, "when it began is no end"
    registry.write(lab.plan(), "removed")
    assert backend.state("gan").nodes == ()
