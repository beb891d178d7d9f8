"""Answers of services that are too deep, too large or of another kind end in one error, not in a traceback."""

import contextlib
from types import SimpleNamespace

import pytest

from cloudgan.core import documents
from cloudgan.core.errors import CloudganError
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.worker.preemption import MetadataService
from emulators.http import Answer, HttpServer

DEEP = b'{"a":' * 3000 + b"1" + b"}" * 3000
ANSWERS = {
    "deep": DEEP,
    "deep list": b"[" * 100_000,
    "digits": b'{"a": ' + b"9" * 5000 + b"}",
    "too large": b'{"a": "' + b"x" * 5000 + b'"}',
    "of another kind": b"[1]",
    "no JSON": b"<html>",
}
ODD_ERRORS = {
    "nulls": b'{"error": {"code": null, "message": null, "details": null, "errors": null}}',
    "numbers": b'{"error": {"code": [1], "message": 1, "details": 1, "errors": true}}',
    "mappings": b'{"error": {"code": {}, "details": {"a": 1}, "errors": [1, null]}}',
}


@pytest.fixture
def service(monkeypatch):
    """The URL of a server whose every answer is `content`."""
    monkeypatch.setattr(documents, "MAX_BYTES", 4096)
    state = SimpleNamespace(content=b"", status=200, url="")

    with contextlib.closing(HttpServer(lambda _: Answer(state.status, state.content))) as server:
        state.url = server.url
        yield state


def kubernetes(url):
    pytest.importorskip("kubernetes")
    from cloudgan.launch.kubernetes.kubeconfig import connect_by_token

    with connect_by_token(url, None, lambda: "token") as client:
        yield lambda: ClusterApi(client, patience_seconds=0).get("/api/v1/nodes")
        yield lambda: list(ClusterApi(client, patience_seconds=0).watch("/x", "", "1", seconds=1))


def google(url):
    requests = pytest.importorskip("requests")
    pytest.importorskip("google.auth")
    from cloudgan.launch.clouds.gcp.api import GoogleApi

    with requests.Session() as session:
        api = GoogleApi(session, "lab", endpoint=url, patience_seconds=0)
        yield lambda: api.send("GET", "https://container.googleapis.com/v1/x")


def azure(url):
    transports = pytest.importorskip("azure.core.pipeline.transport")
    from azure.core.credentials import AccessToken

    from cloudgan.launch.clouds.azure.api import ArmApi

    class Plain(transports.RequestsTransport):
        """Azure's pipeline sends a token by TLS only."""

        def send(self, request, **options):
            request.url = request.url.replace("https:", "http:")
            return super().send(request, **options)

    token = AccessToken("t", 2**31)
    login = SimpleNamespace(get_token=lambda *_, **__: token)
    with Plain() as transport:
        here = url.replace("http:", "https:")
        api = ArmApi(login, base_url=here, transport=transport, attempts=1)
        yield lambda: api.read("/subscriptions/x?api-version=1")


def metadata(url):
    for cloud in ("aws", "azure"):
        yield MetadataService(cloud, url).read_notice


@pytest.mark.parametrize("client", [kubernetes, google, azure, metadata])
def test_an_answer_beyond_the_limits_is_one_error(service, client):
    kinds = (CloudganError, ValueError) if client is metadata else CloudganError
    for name, service.content in ANSWERS.items():
        for call in client(service.url):
            if client is azure and name == "of another kind":
                continue  # no resource
            with pytest.raises(kinds) as caught:
                call()
            assert len(str(caught.value)) < 600, name


@pytest.mark.parametrize("client", [kubernetes, google, azure, metadata])
@pytest.mark.parametrize("name", ["deep", "deep list", *ODD_ERRORS])
def test_an_error_with_a_deep_or_odd_body_is_the_error_of_its_status(service, client, name):
    service.content, service.status = (ANSWERS | ODD_ERRORS)[name], 400
    for call in client(service.url):
        with pytest.raises((CloudganError, ValueError), match=r"400|\[\[|returned"):
            call()
