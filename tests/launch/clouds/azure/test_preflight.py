"""`check` on Azure names each missing login, service, permission and quota."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import ConfigError, CredentialsError, UnknownNameError
from cloudgan.launch.clouds.azure import planner as requests
from cloudgan.launch.clouds.azure.client import AzureClient
from cloudgan.launch.clouds.azure.preflight import CREDENTIAL_ROLE, READER_ROLE, ROLE, actions
from cloudgan.launch.clouds.azure.transport import ArmApi
from emulators.azure.cloud import SUBSCRIPTION

SPOT = "azure/Standard_NC4as_T4_v3/eastus/spot"


def missing(lab, plan=None):
    return [one for one in lab.cloud().check(plan) if one.status == "missing"]


def test_a_subscription_that_has_all_lacks_nothing(lab):
    for plan in (lab.plan(), lab.plan(offer=SPOT), None):
        assert missing(lab, plan) == []
    (login, *_) = lab.cloud().check(None)
    assert "a-service-principal, subscription Physics" in login.message


def test_check_makes_nothing(lab):
    before = lab.azure.arm.held()
    lab.azure.arm.calls.clear()
    lab.cloud().check(lab.plan(), "eastus")
    assert {method for method, _ in lab.azure.arm.calls} == {"GET"}
    assert lab.azure.arm.held() == before


def test_a_quota_is_named_with_how_much_to_ask_for_and_where(lab):
    lab.azure.lists.limits = {"StandardNCASv3_T4Family": 6}
    (found,) = missing(lab, lab.plan(nodes=2))
    assert found.subject == "quota StandardNCASv3_T4Family in eastus"
    assert found.is_quota
    assert "8 vCPUs are needed and 6 of 6 are free; ask for 8 of" in found.message
    assert "Azure's words for StandardNCASv3_T4Family" in found.message


def test_spot_has_a_quota_of_its_own(lab):
    lab.azure.lists.limits = {"lowPriorityCores": 3, "StandardNCASv3_T4Family": 0}
    (found,) = missing(lab, lab.plan(offer=SPOT))
    assert found.subject == "quota lowPriorityCores in eastus"


def test_the_node_of_the_cluster_itself_counts_unless_it_is_there(lab):
    lab.azure.lists.limits = {"cores": 4}
    (found,) = missing(lab, lab.plan())
    assert found.message.startswith("6 vCPUs are needed and 4 of 4 are free")


def test_the_quota_of_the_size_of_the_system_node_is_checked(lab):
    lab.azure.arm.unsold = ("Standard_D2s_v3",)
    lab.azure.lists.limits = {"standardDSv5Family": 1, "standardDv2Family": 0}
    (found,) = missing(lab, lab.plan())
    assert found.subject == "quota standardDSv5Family in eastus"


def test_each_right_that_is_missing_is_named(lab):
    roles = (ROLE, READER_ROLE, CREDENTIAL_ROLE)
    some = [one for role in roles for one in actions(role) if "agentPools/" not in one]
    lab.azure.lists.allowed = [{"actions": some}]
    assert {one.subject.rpartition("/")[2] for one in missing(lab)} == {"read", "write", "delete"}
    lab.azure.lists.allowed = [{"actions": ["*/read"]}, {"actions": ["Microsoft.*"]}]
    assert missing(lab) == []
    lab.azure.lists.allowed = [{"actions": ["*"], "notActions": ["Microsoft.Compute/*/read"]}]
    assert {one.subject.split("/")[0] for one in missing(lab)} == {"permission Microsoft.Compute"}


def test_a_service_that_is_off_is_named_with_what_turns_it_on(lab):
    lab.azure.lists.off = ("ContainerService",)
    (found,) = missing(lab)
    assert found.message.endswith("az provider register --namespace Microsoft.ContainerService")


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


def test_the_error_of_a_wrong_secret_has_azures_words_without_the_secret(lab, monkeypatch):
    from azure.core.exceptions import ClientAuthenticationError

    class Wrong:
        def get_token(self, *_, **__):
            raise ClientAuthenticationError(
                "DefaultAzureCredential failed\n\tEnvironmentCredential: Authentication failed:"
                " AADSTS7000215: Invalid client secret provided. Trace ID: 1"
            )

    api = lab.azure.api(credential=Wrong())
    assert isinstance(api, ArmApi)
    with pytest.raises(
        CredentialsError, match=r"AADSTS7000215.*provided\.\); run: az login"
    ) as error:
        api.read("/subscriptions?api-version=2022-12-01")
    assert "Trace" not in str(error.value)
