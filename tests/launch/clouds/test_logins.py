"""A login that has to be renewed: what refuses it ends a command, what does not answer is asked again."""

import contextlib
import datetime as dt
import time

import boto3
import botocore.exceptions as aws
import botocore.session
import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError
from botocore.credentials import RefreshableCredentials
from google.auth import exceptions as google
from google.auth.transport.requests import AuthorizedSession
from google.oauth2.credentials import Credentials

from cloudgan.core.errors import CredentialsError, LaunchError
from cloudgan.launch.clouds.aws.login import ClusterToken, signed_token
from cloudgan.launch.clouds.aws.requests import Aws
from cloudgan.launch.clouds.azure.api import ArmApi
from cloudgan.launch.clouds.gcp.api import GoogleApi
from cloudgan.launch.clouds.gcp.login import Login
from cloudgan.launch.kubernetes.api import ApiError, ClusterApi
from cloudgan.launch.kubernetes.kubeconfig import connect_by_token
from cloudgan.storage.s3 import S3Store
from cloudgan.storage.store import StoreCredentialsError
from emulators.http import Answer, HttpServer

HOUR_AGO = dt.datetime.now(tz=dt.UTC) - dt.timedelta(hours=1)


class GoogleLogin(Credentials):
    """An expired login that fails to renew."""

    def __init__(self, error):
        super().__init__("old", expiry=HOUR_AGO.replace(tzinfo=None))
        self.error = error

    def refresh(self, request):
        raise self.error


class AzureLogin:
    def __init__(self, error):
        self.error = error

    def get_token(self, *scopes, **options):
        raise self.error


def aws_session(found):
    """A session whose login has expired; its renewal fails, or returns a login."""

    def renew():
        if isinstance(found, Exception):
            raise found
        return found

    session = botocore.session.Session()
    session._credentials = RefreshableCredentials("a", "b", "c", HOUR_AGO, renew, "sso")
    return boto3.Session(botocore_session=session, region_name="eu-west-1")


def google_request(error):
    session = AuthorizedSession(GoogleLogin(error))
    return GoogleApi(session, "lab", patience_seconds=0.02, pause_seconds=0.01).project_number


OF_CLOUD = {
    "gcp": (google_request, lambda error: Login(GoogleLogin(error), "lab").token()),
    "aws": (
        lambda found: Aws(aws_session(found), "eu-west-1", attempts=1).login,
        lambda found: signed_token(aws_session(found), "cloudgan", "eu-west-1"),
    ),
    "azure": (
        lambda error: ArmApi(AzureLogin(error), attempts=1).send("GET", "/subscriptions"),
        lambda error: ArmApi(AzureLogin(error)).token("scope"),
    ),
}
EXPIRED = {
    "access_key": "a",
    "secret_key": "b",
    "token": "c",
    "expiry_time": HOUR_AGO.isoformat(),
}
ROWS = (
    ("gcp", google.TransportError("no route"), LaunchError, "did not answer.*no route"),
    ("gcp", google.RefreshError("internal_failure", retryable=True), LaunchError, "did not answer"),
    ("gcp", google.RefreshError("invalid_grant"), CredentialsError, "invalid_grant.*gcloud auth"),
    ("gcp", google.OAuthError("subject token expired"), CredentialsError, "subject token.*gcloud"),
    ("aws", aws.ConnectTimeoutError(endpoint_url="https://sso"), LaunchError, "Connect timeout"),
    ("aws", aws.UnauthorizedSSOTokenError(), CredentialsError, "SSO session.*expired.*AWS_PROFILE"),
    ("aws", EXPIRED, CredentialsError, "still expired.*AWS_PROFILE"),
    ("azure", ServiceRequestError("no route"), LaunchError, "did not answer.*no route"),
    ("azure", ClientAuthenticationError("AADSTS700082"), CredentialsError, "az login"),
)
if hasattr(aws, "LoginError"):
    ROWS += (("aws", aws.LoginRefreshRequired(), CredentialsError, "aws login.*AWS_PROFILE"),)


@pytest.mark.parametrize("part", ["request", "token of a cluster"])
@pytest.mark.parametrize(("cloud", "error", "kind", "words"), ROWS)
def test_a_refused_login_is_told_from_a_service_that_does_not_answer(
    cloud, error, kind, words, part
):
    with pytest.raises(kind, match=words) as caught:
        OF_CLOUD[cloud][part != "request"](error)
    assert type(caught.value) is kind


@pytest.mark.parametrize("found", [EXPIRED, aws.UnauthorizedSSOTokenError()])
def test_a_store_of_aws_says_so_too(found):
    store = S3Store("lab", client=aws_session(found).client("s3"))
    with pytest.raises(StoreCredentialsError, match=r"expired.*AWS_PROFILE"):
        store.list()


@pytest.mark.parametrize(("seconds", "asked"), [(3600, 1), (299, 3)])
def test_a_token_of_azure_is_kept_until_it_nears_its_end(seconds, asked):
    scopes = []

    class Azure:
        def get_token(self, scope, **options):
            scopes.append(scope)
            return AccessToken(f"token {len(scopes)}", int(time.time()) + seconds)

    api = ArmApi(Azure())
    assert [api.token("cluster") for _ in range(3)][-1] == f"token {asked}"
    assert api.token("another") == f"token {asked + 1}"
    assert scopes == [*["cluster"] * asked, "another"]


def test_a_token_of_aws_is_kept_until_it_nears_its_end(monkeypatch):
    now, tokens = [0.0], iter(("first", "second"))
    monkeypatch.setattr("cloudgan.launch.clouds.aws.login.signed_token", lambda *_: next(tokens))
    monkeypatch.setattr("cloudgan.launch.clouds.aws.login.monotonic_seconds", lambda: now[0])
    token = ClusterToken(None, "cloudgan", "eu-west-1")
    assert [token(), token()] == ["first", "first"]
    now[0] = 599.0
    assert token() == "first"
    now[0] = 600.0
    assert token() == "second", "EKS takes one for fifteen minutes"


def test_a_cluster_waits_for_a_token_as_for_its_own_answer():
    answers = iter(("first", LaunchError("no route"), LaunchError("no route"), "second"))

    def token():
        if isinstance(found := next(answers), Exception):
            raise found
        return found

    with contextlib.closing(HttpServer(lambda _: Answer(200, b"{}"))) as server:
        client, said = connect_by_token(server.url, None, token), []
        assert ClusterApi(client, say=said.append).get("/apis") == {}
    assert len(said) == 0, "not reached before, so the retries are not reported"
    assert next(answers, None) is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [(LaunchError("no route"), ApiError), (CredentialsError("refused"), CredentialsError)],
)
def test_a_token_that_does_not_come_ends_the_request(error, kind):
    answers = iter(("first",))

    def token():
        for found in answers:
            return found
        raise error

    client = connect_by_token("https://127.0.0.1:9", None, token)
    with pytest.raises(kind, match=str(error)):
        ClusterApi(client, patience_seconds=0.01).get("/apis")
