"""`check` names each missing login, service, permission and quota with what to do, and creates nothing."""

import pytest

from cloudgan.core.errors import ConfigError, CredentialsError, UnknownNameError
from cloudgan.launch.clouds.azure import planner as requests
from cloudgan.launch.clouds.azure.client import AzureClient
from cloudgan.launch.clouds.azure.preflight import CREDENTIAL_ROLE, READER_ROLE, ROLE, actions
from emulators.azure.cloud import SUBSCRIPTION
from launch.clouds.aws.used_permissions import document
from launch.clouds.lab import AWS, AZURE, EACH, rows

G_QUOTA, G_SPOT_QUOTA = "L-DB2E81BA", "L-3819A6DF"


def found(lab, plan=None):
    return {one.subject: one for one in lab.cloud().check(plan)}


def missing(lab, plan=None):
    return {name: one for name, one in found(lab, plan).items() if one.status == "missing"}


@EACH
def test_a_complete_account_lacks_nothing(lab):
    if lab.provider == "aws":
        lab.aws.state.quotas |= {G_QUOTA: 16.0, G_SPOT_QUOTA: 16.0}
    if lab.provider == "gcp":
        lab.google.compute.quotas["PREEMPTIBLE_NVIDIA_L4_GPUS"] = 8.0
    before = lab.cloud().list_resources()
    for plan in (lab.plan(nodes=2), lab.plan(market="spot"), None):
        assert missing(lab, plan) == {}
    statuses = {name: one.status for name, one in found(lab, lab.plan(nodes=2)).items()}
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
    lacking = missing(lab, plan)
    assert subject in lacking
    assert {one for one in lacking if "quota" not in one} <= {subject}
    assert words in lacking[subject].message
    assert lacking[subject].is_quota == subject.startswith("quota")
    assert lab.left() == []


READ_ONLY = [{"Statement": document("policy.json")["Statement"][0]}]


@AWS
def test_a_quota_without_a_value_is_unknown(lab):
    (quota,) = (one for name, one in found(lab, lab.planned()).items() if "quota" in name)
    assert quota.status == "unknown"


@AWS
def test_the_launchers_policy_is_enough_with_its_conditions(lab):
    lab.aws.grants = [document("policy.json")]
    assert found(lab)["AWS permissions"].status == "ok"
    lab.aws.grants = [document("setup-policy.json"), *READ_ONLY]
    assert "eks:CreateCluster, eks:CreateNodegroup" in found(lab)["AWS permissions"].message


@AWS
def test_permissions_that_iam_does_not_simulate_are_unknown(lab):
    lab.aws.fault("SimulatePrincipalPolicy", "AccessDenied", status=403)
    assert found(lab)["AWS permissions"].status == "unknown"


@AWS
def test_a_region_that_cannot_serve_it_is_missing(lab):
    lab.aws.state.networks["us-east-1"].subnets.clear()
    place = found(lab, lab.planned())["AWS network in us-east-1"]
    assert place.status == "missing"
    assert "default VPC" in place.message


@AWS
@pytest.mark.parametrize(
    ("values", "status", "message"),
    [
        ('{"enableNetworkPolicy": "true"}', "ok", "enforces it"),
        ('enableNetworkPolicy: "true"\n', "ok", "enforces it"),
        ('{"enableNetworkPolicy": "false"}', "unknown", "update-addon --cluster-name physics"),
        (None, "unknown", "enable-network-policy-controller"),
    ],
)
def test_check_reports_whether_an_existing_cluster_enforces_policies(lab, values, status, message):
    plane = lab.create_cluster("physics")
    if values:
        plane.add_ons["vpc-cni"] = {"addonName": "vpc-cni", "configurationValues": values}
    policy = found(lab, lab.planned(cluster="physics"))["NetworkPolicy in us-east-1/physics"]
    assert policy.status == status
    assert message in policy.message


@AWS
def test_check_says_that_deploy_enforces_policies_in_its_own_cluster(lab):
    policy = found(lab, lab.planned())["NetworkPolicy in us-east-1/cloudgan"]
    assert (policy.status, "`deploy` switches it on" in policy.message) == ("ok", True)


@AZURE
def test_the_quota_of_the_size_of_the_system_node_is_checked(lab):
    lab.azure.arm.unsold = ("Standard_D2s_v3",)
    lab.azure.lists.limits = {"standardDSv5Family": 1, "standardDv2Family": 0}
    (found,) = missing(lab, lab.plan()).values()
    assert found.subject == "quota standardDSv5Family in eastus"


@AZURE
def test_each_right_that_is_missing_is_named(lab):
    roles = (ROLE, READER_ROLE, CREDENTIAL_ROLE)
    some = [one for role in roles for one in actions(role) if "agentPools/" not in one]
    lab.azure.lists.allowed = [{"actions": some}]
    assert {one.subject.rpartition("/")[2] for one in missing(lab).values()} == {
        "read",
        "write",
        "delete",
    }
    lab.azure.lists.allowed = [{"actions": ["*/read"]}, {"actions": ["Microsoft.*"]}]
    assert missing(lab) == {}
    lab.azure.lists.allowed = [{"actions": ["*"], "notActions": ["Microsoft.Compute/*/read"]}]
    assert {one.subject.split("/")[0] for one in missing(lab).values()} == {
        "permission Microsoft.Compute"
    }


@AZURE
def test_one_of_several_subscriptions_has_to_be_named(lab, monkeypatch):
    other = SUBSCRIPTION.replace("bb", "dd")
    lab.azure.lists.subscriptions.append({"subscriptionId": other, "displayName": "Theirs"})
    with pytest.raises(ConfigError, match="Give --subscription, or set AZURE_SUBSCRIPTION_ID"):
        lab.cloud().identify()
    asked = lab.azure.cloud(requests.target(SUBSCRIPTION, "eastus", None, None))
    assert asked.identify()["name"] == "Physics"
    monkeypatch.setenv("AZURE_SUBSCRIPTION_ID", other)
    assert lab.cloud().identify()["name"] == "Theirs"
    wrong = requests.target(SUBSCRIPTION.replace("bb", "be"), "eastus", None, None)
    with pytest.raises(UnknownNameError, match=f"Did you mean '{SUBSCRIPTION}'"):
        lab.azure.cloud(wrong).identify()
    lab.azure.lists.subscriptions.clear()
    with pytest.raises(CredentialsError, match="has no subscription"):
        lab.cloud().identify()


@AZURE
def test_without_setup_the_error_names_the_command_to_run(lab):
    lab.azure.arm.resources = {
        name: one for name, one in lab.azure.arm.resources.items() if "identity" not in name
    }
    with pytest.raises(ConfigError, match="cloudgan setup --provider=azure --region=eastus"):
        lab.plan()


def test_without_any_login_the_error_names_the_command_to_log_in(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CLOUDGAN_NO_METADATA_SERVER", "true")
    with pytest.raises(CredentialsError, match="no Azure login found; run: az login, or set"):
        AzureClient.open(requests.target(None, "eastus", None, None)).check(None)


@AZURE
def test_the_error_of_a_wrong_secret_has_azures_words_without_the_secret(lab, monkeypatch):
    from azure.core.exceptions import ClientAuthenticationError

    class Wrong:
        def get_token(self, *_, **__):
            raise ClientAuthenticationError(
                "DefaultAzureCredential failed\n\tEnvironmentCredential: Authentication failed:"
                " AADSTS7000215: Invalid client secret provided. Trace ID: 1"
            )

    api = lab.azure.api(credential=Wrong())
    with pytest.raises(
        CredentialsError, match=r"AADSTS7000215.*provided\.\); run: az login"
    ) as error:
        api.read("/subscriptions?api-version=2022-12-01")
    assert "Trace" not in str(error.value)
