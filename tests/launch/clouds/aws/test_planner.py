"""The AWS planner: requests of a plan, offline."""

from __future__ import annotations

import json
import string
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudgan.core.errors import PlanError
from cloudgan.core.labels import RUN, SHARED
from cloudgan.launch.clouds.aws import planner
from cloudgan.launch.clouds.aws.machines import machine
from cloudgan.launch.clouds.aws.naming import ROLES
from cloudgan.launch.clouds.planner import NodePoolRequest, cloud_planner
from cloudgan.launch.clouds.rows import resolve
from cloudgan.launch.kubernetes.manifests import GPU_NODE
from cloudgan.schema.plan import NodePool, Workers
from launch.clouds.aws.write_golden import OFFERS, plan, render

GOLDEN = Path(__file__).parent / "golden"


def wanted(node_type, **changes):
    how = {
        "run": "gan",
        "spec_hash": "x",
        "node_type": node_type,
        "nodes": 1,
        "market": "on_demand",
    }
    return NodePoolRequest(**how | changes)


def of_cloud(steps):
    return [one for one in steps if one.at == "cloud"]


def test_a_plan_yields_the_golden_requests():
    golden = (GOLDEN / "spot.yaml").read_text(encoding="utf-8")
    assert render("spot") == golden, "if the change is intended: make golden, and read the diff"


def shape_of(step):
    """The arguments that botocore's model has for an operation."""
    botocore = pytest.importorskip("botocore.session")
    service = step.path.partition("/")[0]
    model = botocore.get_session().get_service_model(service)
    return model.operation_model(step.method).input_shape


@pytest.mark.parametrize("name", sorted(OFFERS))
def test_requests_match_the_service_models(name):
    from botocore.validate import ParamValidator

    setup = planner.setup_steps(planner.target("123456789012", "eu-west-1", None, None))
    for step in of_cloud((*plan(name).steps, *setup)):
        body = resolve(step.body, str)
        found = ParamValidator().validate(body, shape_of(step))
        assert not found.has_errors(), found.generate_report()


@pytest.mark.parametrize("name", sorted(OFFERS))
def test_create_requests_hold_the_labels(name):
    made = plan(name)
    for step in of_cloud(made.steps):
        if not step.method.startswith("Create") or step.method == "CreateSchedule":
            continue  # schedules have no tags; those of a run are in a group that has them
        body = step.body
        listed = body.get("CreateBucketConfiguration", body).get("Tags", ())
        tags = body.get("tags") or {one["Key"]: one["Value"] for one in listed}
        owned = step.method in ("CreateNodegroup", "CreateScheduleGroup")
        assert tags == made.labels().as_dict() if owned else SHARED in tags, step.ensure


def test_the_node_group_is_created_empty_then_scheduled_then_scaled():
    steps = of_cloud(plan("two-nodes").steps)
    empty, end, full = steps[-3:]
    assert empty.body["scalingConfig"] == {"minSize": 0, "maxSize": 2, "desiredSize": 0}
    assert (end.body["MinSize"], end.body["DesiredCapacity"]) == (0, 0)
    assert full.body["scalingConfig"]["desiredSize"] == 2
    assert empty.ref == end.ref == full.ref
    assert empty.body["labels"] == {RUN: "two-nodes"} | dict(GPU_NODE)
    assert len(empty.body["subnets"]) == 1, "all in one zone"


def test_the_scheduled_end_follows_the_jobs_deadline():
    made = plan("gpu")
    (end,) = (one for one in made.steps if one.method == "PutScheduledUpdateGroupAction")
    seconds = end.body["StartTime"]["$after_seconds"]
    limits = made.limits
    assert seconds > limits.deadline_seconds + 2 * limits.gang_timeout_seconds
    assert seconds < limits.deadline_seconds + 2 * limits.gang_timeout_seconds + 3600


def test_the_desired_state_is_written_after_the_bucket_and_before_the_cluster():
    kinds = [one.method if one.at == "cloud" else one.at for one in plan("gpu").steps]
    assert kinds.index("CreateBucket") < kinds.index("store") < kinds.index("CreateCluster")


def test_the_users_own_store_is_not_created():
    made = plan("gpu").model_copy(update={"store": "s3://lab/gan"})
    steps = planner.steps(made)
    assert not [one for one in steps if "Bucket" in one.method]
    assert steps[0].path == "s3://lab/gan/runs/gpu/desired-state/"


def test_the_bucket_is_private_requires_tls_and_is_in_its_region():
    place = planner.target("123456789012", "eu-west-1", None, None)
    create, closed, policy, *_ = planner.setup_steps(place)
    assert create.body["CreateBucketConfiguration"]["LocationConstraint"] == "eu-west-1"
    assert set(closed.body["PublicAccessBlockConfiguration"].values()) == {True}
    (only,) = json.loads(policy.body["Policy"])["Statement"]
    assert (only["Effect"], only["Principal"]) == ("Deny", "*")
    assert only["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert (
        closed.body["ExpectedBucketOwner"] == policy.body["ExpectedBucketOwner"] == "123456789012"
    )


def test_only_setup_creates_roles():
    steps = planner.setup_steps(planner.target("123456789012", "us-east-1", None, None))
    made = [one.body["RoleName"] for one in steps if one.method == "CreateRole"]
    assert made == list(ROLES)
    assert not [one for one in plan("gpu").steps if one.path.startswith("iam")]


@pytest.mark.parametrize(
    ("node_type", "why", "image"),
    [
        ("p6-b200.48xlarge", "--image", "AL2023_x86_64_NVIDIA"),
        ("p6e-gb200.36xlarge", "Arm", "AL2023_ARM_64_NVIDIA"),
    ],
)
def test_machines_without_wheels_require_the_users_image(node_type, why, image):
    with pytest.raises(PlanError, match=why):
        planner.node_pool(wanted(node_type))
    assert planner.node_pool(wanted(node_type, has_own_image=True)).market == "on_demand"
    assert machine(node_type).image == image


@pytest.mark.parametrize(
    ("node_type", "nodes", "warned"),
    [("p5.48xlarge", 2, True), ("p5.48xlarge", 1, False), ("g6e.48xlarge", 2, False)],
)
def test_several_nodes_whose_fast_network_is_not_used_say_so(node_type, nodes, warned):
    notes = planner.node_pool(wanted(node_type, nodes=nodes)).notes
    assert ["EFA" in one for one in notes] == [True] * warned


def test_flex_start_is_refused():
    with pytest.raises(PlanError, match="--provider=gcp"):
        planner.node_pool(wanted("g4dn.xlarge", flex_start=True))


def test_pods_use_the_grace_period_of_a_spot_notice():
    node_pool = NodePool(node_type="g4dn.xlarge", market="spot", name="p")
    workers = Workers(nodes=1, cpus=1, memory_gib=1)
    assert planner.workers(workers, node_pool).grace_seconds == 90


@given(st.text(string.ascii_lowercase + string.digits + "-", min_size=1, max_size=48))
def test_node_group_names_are_valid_for_any_run(run):
    name = planner.node_pool(wanted("g4dn.xlarge", run=f"a{run}"[:48].rstrip("-"))).name
    assert len(name) <= 63
    assert name[0].isalpha()
    assert set(name) <= set(string.ascii_lowercase + string.digits + "-")


def test_the_planner_imports_no_sdk():
    code = "import sys; from cloudgan.launch.clouds.planner import cloud_planner; cloud_planner('aws')\n"
    code += "print([n for n in ('boto3', 'botocore', 'kubernetes') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
    assert cloud_planner("aws") is planner
