"""`check` on Azure names each missing login, service, permission and quota."""

import pytest

from cloudgan.core.errors import ConfigError, CredentialsError, UnknownNameError
from cloudgan.launch.clouds.azure import planner as requests
from cloudgan.launch.clouds.azure.api import ArmApi
from cloudgan.launch.clouds.azure.client import AzureClient
from cloudgan.launch.clouds.azure.preflight import CREDENTIAL_ROLE, READER_ROLE, ROLE, actions
from emulators.azure.cloud import SUBSCRIPTION


def missing(lab, plan=None):
    return [one for one in lab.cloud().check(plan) if one.status == "missing"]


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
