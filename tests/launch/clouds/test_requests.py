"""The planners: from a request to the requests of each cloud, offline."""

import functools
import re
import string
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudgan.core.errors import ConfigError, PlanError, UnknownNameError
from cloudgan.launch.clouds.azure import ids, kinds
from cloudgan.launch.clouds.planner import cloud_planner
from cloudgan.launch.clouds.rows import resolve
from cloudgan.launch.operations.plan_result import PlanResult
from cloudgan.schema.plan import INTERNAL_IPS, NETWORK, SUBNET
from launch.clouds.lab import USUAL, of_cloud, planned, wanted
from launch.clouds.write_golden import FOLDER, render

EACH = pytest.mark.parametrize("provider", USUAL)


@EACH
def test_a_plan_yields_the_golden_requests(provider):
    golden = (FOLDER / f"{provider}.yaml").read_text(encoding="utf-8")
    assert render(provider) == golden, "if the change is intended: make golden, and read the diff"


@functools.cache
def google_apis():
    from emulators.gcp.discovery import api
    from emulators.gcp.project import APIS

    return {api(*one).host: api(*one) for one in APIS}


def wrong_for_google(step):
    """Says what Google's discovery documents do not have of a request."""
    from urllib.parse import parse_qs, urlsplit

    address = urlsplit(step.path)
    found = google_apis()[address.netloc].match(step.method, address.path)
    if found is None:
        return f"there is no method {step.method} {step.path}"
    query = {key: values[-1] for key, values in parse_qs(address.query).items()}
    said = found.api.wrong_query(found.method, query)
    return "; ".join([*said, *found.api.wrong_request(found.method, step.body)])


@functools.cache
def aws_service(name):
    return pytest.importorskip("botocore.session").get_session().get_service_model(name)


def wrong_for_aws(step):
    """Says what botocore's model of the service does not have of a request."""
    from botocore.validate import ParamValidator

    shape = aws_service(step.path.partition("/")[0]).operation_model(step.method).input_shape
    found = ParamValidator().validate(resolve(step.body, str), shape)
    return found.generate_report() if found.has_errors() else ""


def wrong_for_azure(step):
    """Says what the models of azure-mgmt-containerservice do not have of a request."""
    from emulators.azure.arm import kind_of
    from emulators.azure.contract import complaint

    guid = "00000000-0000-0000-0000-0000000000cc"
    known = {"cluster.oidcIssuer": "https://x", "user.principalType": "User"}
    body = resolve(step.body, lambda name: known.get(name, guid))
    return complaint(kind_of(step.path.partition("?")[0]), body)


WRONG = {"aws": wrong_for_aws, "azure": wrong_for_azure, "gcp": wrong_for_google}
LAB = {NETWORK: "lab", SUBNET: "gpus"}
VARIANTS = (
    ("aws", "p4d.24xlarge", {}),
    ("aws", "g4dn.xlarge", {"market": "spot"}),
    ("aws", "p5.48xlarge", {"market": "spot", "nodes": 2}),
    ("aws", "g4dn.xlarge", {"reservation": "cr-0123456789abcdef0"}),
    ("aws", "p5.48xlarge", {"reservation": "block:cr-0123456789abcdef0"}),
    ("aws", "g4dn.xlarge", {"keep_cluster": True}),
    ("azure", "Standard_NC24ads_A100_v4", {}),
    ("azure", "Standard_NC4as_T4_v3", {"market": "spot"}),
    ("azure", "Standard_ND96isr_H100_v5", {"market": "spot", "nodes": 2}),
    ("azure", "Standard_NC4as_T4_v3", {"reservation": "lab/week", "cluster": "lab/physics"}),
    ("gcp", "g2-standard-4", {"zone": "us-central1-a"}),
    ("gcp", "n1-standard-8+1xV100", {"market": "spot", "nodes": 2}),
    ("gcp", "a3-highgpu-1g", {"flex_start": True, "max_hours": 10}),
    ("gcp", "g2-standard-4", {"flex_start": True, "nodes": 2}),
    ("gcp", "n1-standard-8+1xV100", {"cluster": "physics", "store": "gs://lab-data/gan"}),
    ("gcp", "g2-standard-4", {"reservation": "week"}),
    ("gcp", "g2-standard-4", {"details": LAB | {INTERNAL_IPS: "only"}}),
    ("gcp", "v5litepod-8", {"details": LAB}),
)


@pytest.mark.parametrize(
    ("provider", "node_type", "asked"), VARIANTS, ids=lambda one: str(one).replace("/", "_")
)
def test_requests_match_the_clouds_own_description_of_its_api(provider, node_type, asked):
    for step in of_cloud(planned(provider, node_type, **asked)):
        assert not WRONG[provider](step), step.ensure
        if step.body:
            wrong = step.model_copy(update={"body": {**step.body, "nameTYPO": "x"}})
            assert "nameTYPO" in WRONG[provider](wrong)


@EACH
def test_store_and_desired_state_precede_what_is_billed(provider):
    plan = planned(provider)
    kinds = [step.kind or step.at for step in plan.steps]
    first = next(number for number, step in enumerate(plan.steps) if "cluster" in str(step.kind))
    assert "store" in kinds[:first]
    assert "pool" not in "".join(kinds[:first]).lower()
    assert provider != "aws" or "EventBridge schedule" in kinds[:first], (
        "the end without a launcher"
    )
    (state,) = (step for step in plan.steps if step.at == "store")
    assert state.path == f"{plan.store}/runs/gan/desired-state/"


@pytest.mark.parametrize(
    ("provider", "store"),
    [
        ("aws", "s3://lab/gan"),
        ("azure", "https://mine.blob.core.windows.net/runs"),
        ("gcp", "gs://lab-data/gan"),
    ],
)
def test_the_users_own_store_is_not_created(provider, store):
    steps = planned(provider, store=store).steps
    made = [one for one in steps if one.at == "cloud" and "store" in (one.kind or "")]
    made += [one for one in steps if "bucket" in (one.kind or "").lower() or "Storage" in one.path]
    assert made == []
    assert f"{store}/runs/gan/desired-state/" in [one.path for one in steps]


NAMES = {
    "aws": r"[a-z][-a-z0-9]{0,62}",
    "azure": "[a-z][a-z0-9]{0,11}",
    "gcp": "[a-z][-a-z0-9]{0,39}",
}


@EACH
@given(
    run=st.from_regex(r"[a-z]([-a-z0-9]{0,46}[a-z0-9])?", fullmatch=True), spec=st.text(max_size=16)
)
def test_the_name_of_a_pool_is_valid_for_any_run(provider, run, spec):

    pool = cloud_planner(provider).node_pool(wanted(provider, run=run, spec_hash=spec))
    assert re.fullmatch(NAMES[provider], pool.name)


@EACH
def test_a_planner_needs_no_sdk(provider):
    sdks = {"boto3", "botocore", "azure", "google", "kubernetes", "requests"}
    code = (
        f"import sys; from cloudgan.launch.clouds.planner import cloud_planner; cloud_planner({provider!r});"
        f"print({sdks} & {{one.partition('.')[0] for one in sys.modules}})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


UNSUPPORTED = (
    ("aws", "p6-b200.48xlarge", {"has_own_image": False}, "--image"),
    ("aws", "p6e-gb200.36xlarge", {"has_own_image": False}, "Arm"),
    ("aws", "", {"flex_start": True}, "--provider=gcp"),
    ("azure", "", {"market": "spot", "flex_start": True}, "--flex-start is only valid with --provider=gcp"),
    ("azure", "Standard_NC6s_v3", {}, "V100.*since 2025-09-30.*--accelerator=A100-80GB:1"),
    ("azure", "Standard_NC24rs_v3", {}, "V100.*since 2025-03-31.*--accelerator=A100-80GB:4"),
    ("azure", "Standard_NC6s_v2", {}, "P100.*since 2023-08-31.*--accelerator=T4:1"),
    ("azure", "Standard_ND40rs_v2", {}, "V100-32GB.*availability is unconfirmed.*--accelerator=A100-40GB:8"),
    ("azure", "Standard_NC4as_T4_v4", {}, "Did you mean 'Standard_NC4as_T4_v3'"),
    ("gcp", "a4-highgpu-8g", {"has_own_image": False}, "Blackwell"),
    ("gcp", "v6e-8", {"nodes": 2}, "omit --nodes, since one v6e-8 is one node"),
    ("gcp", "a3-highgpu-1g", {}, "spot or flex-start only"),
    ("gcp", "a3-ultragpu-8g", {}, "--market=spot or --flex-start, or --reservation=NAME of your own"),
    ("gcp", "a4-highgpu-8g", {}, "spot or flex-start only"),
    ("gcp", "", {"market": "spot", "flex_start": True}, "never spot"),
    ("gcp", "", {"flex_start": True, "max_hours": 200}, "end after 7 days"),
)  # fmt: skip


@pytest.mark.parametrize(("provider", "node_type", "asked", "why"), UNSUPPORTED)
def test_an_unsupported_request_is_refused_in_one_sentence_with_an_alternative(
    provider, node_type, asked, why
):
    with pytest.raises((PlanError, UnknownNameError), match=why) as refused:
        planned(provider, node_type, **asked)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("provider", "place", "why"),
    [
        ("azure", ("Physics", "eastus", None, None), "--subscription=Physics is not an id"),
        ("azure", (None, "eastus", "us-east-1a", None), "1, 2, 3"),
        ("gcp", (None, "us-central1", "europe-west4-a", None), "--region=europe-west4"),
    ],
)
def test_a_place_that_cannot_exist_is_refused(provider, place, why):
    with pytest.raises(ConfigError, match=why):
        cloud_planner(provider).target(*place)


@pytest.mark.parametrize(
    ("provider", "node_type", "nodes", "words"),
    [
        ("aws", "p5.48xlarge", 2, ["EFA"]),
        ("aws", "p5.48xlarge", 1, []),
        ("aws", "g6e.48xlarge", 2, []),
        ("gcp", "a3-megagpu-8g", 2, ["GPUDirect"]),
        ("gcp", "a3-highgpu-8g", 2, []),
    ],
)
def test_several_nodes_whose_fast_network_is_not_used_say_so(provider, node_type, nodes, words):
    notes = planned(provider, node_type, nodes=nodes).node_pool.notes
    assert [word in note for note, word in zip(notes, words, strict=True)] == [True] * len(words)


def test_placeholders_are_values_of_the_login_or_known_at_creation_only():
    for provider in USUAL:
        text = planned(provider).model_dump_json()
        found = {f"<{part.partition('>')[0]}>" for part in text.split("<")[1:]} - {"<this plan>"}
        assert all(set(one[1:-1]) <= set(string.ascii_lowercase + "-_") for one in found), found


def test_a_pod_on_gpus_has_no_variables_of_pjrt():
    (trainer,) = planned("gcp").steps[-1].body["spec"]["template"]["spec"]["containers"]
    assert not [one for one in trainer["env"] if "PJRT" in one["name"]]


def test_flex_start_nodes_may_queue_for_the_time_of_the_job_and_the_plan_says_so():
    plan = planned("gcp", "a3-highgpu-1g", flex_start=True, max_hours=10)
    assert plan.limits.capacity_wait_seconds == 10 * 3600 - plan.limits.gang_timeout_seconds
    sized = plan.showers.model_copy(update={"gib": 1.0})
    shown = PlanResult(plan=plan.model_copy(update={"showers": sized})).view().basis
    assert any("flex-start nodes may queue for 9.67 h" in line for line in shown)
    assert planned("gcp").limits.capacity_wait_seconds is None


def test_several_flex_start_nodes_start_at_once_and_end_by_their_request():
    plan, one = (planned("gcp", flex_start=True, nodes=nodes) for nodes in (2, 1))
    several, single = (of_cloud(each)[-1].body["nodePool"] for each in (plan, one))
    assert several["initialNodeCount"] == single["initialNodeCount"] == 0
    assert single["config"]["flexStart"]
    assert "start at once" in plan.node_pool.notes[0]
    assert several["queuedProvisioning"] == {"enabled": True}
    assert "maxRunDuration" not in several["config"], "a parameter of the request"
    assert {taint.key for taint in plan.workers.tolerations} >= {"cloud.google.com/gke-queued"}
    assert not one.node_pool.notes
    assert "queuedProvisioning" not in single
    assert "maxRunDuration" in single["config"]


def test_a_cluster_of_ones_own_in_azure_is_named_with_its_group():
    place = cloud_planner("azure").target(None, "eastus", None, "lab/physics")
    assert ids.cluster_id(place).endswith(
        "/resourceGroups/lab/providers/Microsoft.ContainerService/managedClusters/physics"
    )
    assert kinds.CREDENTIAL.name_of(ids.credential(place)).endswith(
        "/federatedIdentityCredentials/lab-physics"
    )


@given(st.text(string.printable), st.text(string.ascii_lowercase + string.digits))
def test_a_storage_account_has_a_name_that_azure_takes(subscription, region):
    name = ids.account_name(subscription, region)
    assert re.fullmatch("[a-z0-9]{3,24}", name)
    assert name == ids.account_name(subscription, region)
