"""`check` names each missing login, service, permission and quota with what to do, and creates nothing."""

import pytest

from launch.clouds.aws.used_permissions import document
from launch.clouds.lab import EACH, rows

G_QUOTA, G_SPOT_QUOTA = "L-DB2E81BA", "L-3819A6DF"


def missing(lab, plan):
    return {one.subject: one for one in lab.cloud().check(plan) if one.status == "missing"}


@EACH
def test_a_complete_account_lacks_nothing(lab):
    if lab.provider == "aws":
        lab.aws.state.quotas |= {G_QUOTA: 16.0, G_SPOT_QUOTA: 16.0}
    if lab.provider == "gcp":
        lab.google.compute.quotas["PREEMPTIBLE_NVIDIA_L4_GPUS"] = 8.0
    before = lab.cloud().list_resources()
    for plan in (lab.plan(nodes=2), lab.plan(market="spot"), None):
        assert missing(lab, plan) == {}
    statuses = {one.subject: one.status for one in lab.cloud().check(lab.plan(nodes=2))}
    assert any(one.startswith("quota") for one in statuses)
    assert set(statuses.values()) == {"ok"}
    assert lab.cloud().list_resources() == before


def put(part, name, value):
    """Sets an attribute, or an entry of a table, of an account's part such as ``azure.lists``."""

    def change(lab):
        owner = lab
        for one in part.split("."):
            owner = getattr(owner, one)
        if isinstance(owner, dict):
            owner[name] = value
        else:
            setattr(owner, name, value)

    return change


def deny_on_aws(lab):
    lab.aws.state.denied |= set(AWS_DENIED)


STATEMENTS = document("policy.json")["Statement"]
LONGEST = max((one["Action"] for one in STATEMENTS), key=len)  # of two pages of the simulation
AWS_DENIED = sorted({"eks:CreateCluster", "s3:PutObject", LONGEST[-1]})
SPOT, TWO = {"market": "spot"}, {"nodes": 2}
T4S, TRAINER = "StandardNCASv3_T4Family", "cloudgan-trainer@lab.iam.gserviceaccount.com"
LACKING = (
    ("aws", "quota", put("aws.state.quotas", G_SPOT_QUOTA, 4.0), SPOT | TWO | {"region": "us-west-2"},
     "quota All G and VT Spot Instance Requests in us-west-2", f"need 8 vCPUs, and the limit is 4; request 8 or more of {G_SPOT_QUOTA}"),
    ("aws", "permissions", deny_on_aws, None, "AWS permissions", f"may not: {', '.join(AWS_DENIED)};"),
    ("aws", "setup", lambda lab: lab.aws.reset(), None, "AWS roles", "cloudgan setup --provider=aws"),
    ("azure", "quota", put("azure.lists.limits", T4S, 6), TWO, f"quota {T4S} in eastus", "8 vCPUs are needed and 6 of 6 are free; ask for 8 of"),
    ("azure", "name in the portal", put("azure.lists.limits", T4S, 6), TWO, f"quota {T4S} in eastus", f"Azure's words for {T4S}"),
    ("azure", "spot quota", put("azure.lists", "limits", {"lowPriorityCores": 3, T4S: 0}), SPOT, "quota lowPriorityCores in eastus", "3"),
    ("azure", "node of the cluster", put("azure.lists.limits", "cores", 4), {}, "quota cores in eastus", "6 vCPUs are needed and 4 of 4 are free"),
    ("azure", "service", put("azure.lists", "off", ("ContainerService",)), {}, "service Microsoft.ContainerService", "az provider register --namespace Microsoft.ContainerService"),
    ("gcp", "API", put("google.identity", "apis_off", {"container.googleapis.com"}), {}, "APIs", "gcloud services enable container.googleapis.com"),
    ("gcp", "permission", put("google.identity", "lacking", {"container.clusters.create"}), {}, "permissions", "container.clusters.create"),
    ("gcp", "account", lambda lab: lab.google.identity.accounts.pop(TRAINER), {}, "service account cloudgan-trainer", "cloudgan setup"),
    ("gcp", "actAs", put("google.identity", "lacking", {"iam.serviceAccounts.actAs"}), {}, "service account cloudgan-nodes", "actAs"),
    ("gcp", "quota", put("google.compute.quotas", "NVIDIA_L4_GPUS", 1.0), TWO, "quota NVIDIA_L4_GPUS in us-central1", "2 needed"),
    ("gcp", "quota of all regions", put("google.compute.global_quotas", "GPUS_ALL_REGIONS", 1.0), TWO, "quota GPUS_ALL_REGIONS in all regions together", "2 needed"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("lab", "take", "asked", "subject", "words"), rows(*LACKING), indirect=["lab"]
)
def test_what_is_missing_is_named_with_what_to_do(lab, take, asked, subject, words):
    plan = None if asked is None else lab.plan(**asked)
    take(lab)
    found = missing(lab, plan)
    assert subject in found
    assert {one for one in found if "quota" not in one} <= {subject}
    assert words in found[subject].message
    assert found[subject].is_quota == subject.startswith("quota")
    assert lab.left() == []
