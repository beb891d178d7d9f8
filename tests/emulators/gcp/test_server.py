"""The emulator rejects what Google rejects."""

from __future__ import annotations

import pytest
import requests

from emulators.gcp.discovery import api
from emulators.gcp.server import TOKEN, GoogleServer, Route, serving

CLUSTERS = "container.googleapis.com/v1/projects/lab/locations/us-central1-a/clusters"
CREATE, LIST = (f"container.projects.locations.clusters.{verb}" for verb in ("create", "list"))
BODY = {"cluster": {"name": "gan"}}


@pytest.fixture
def made():
    return []


@pytest.fixture
def server(made):
    def create(call):
        made.append(call.body["cluster"]["name"])
        return {"name": "operation-1", "operationType": "CREATE_CLUSTER", "status": "RUNNING"}

    routes = {
        CREATE: Route(create, ("container.clusters.create",)),
        LIST: Route(lambda call: {"clusters": [{"name": one} for one in made]}),
    }
    with serving(GoogleServer((api("container", "v1"),), routes)) as running:
        running.tokens["reader"] = frozenset({"container.clusters.list"})
        yield running


@pytest.fixture
def ask(server):
    with requests.Session() as session:
        session.trust_env = False

        def send(verb, path, body=None, token=TOKEN):
            login = {"Authorization": f"Bearer {token}"}
            return session.request(verb, f"{server.url}/{path}", json=body, headers=login)

        yield send


@pytest.mark.parametrize(
    ("verb", "path", "body", "token", "status"),
    [
        ("POST", CLUSTERS, BODY, TOKEN, 200),
        ("POST", CLUSTERS, {"cluster": {"nameTYPO": "gan"}}, TOKEN, 400),
        ("POST", CLUSTERS, {"cluster": {"name": 3}}, TOKEN, 400),
        ("POST", CLUSTERS, {"cluster": {"name": "gan", "endpoint": "192.0.2.1"}}, TOKEN, 400),
        (
            "POST",
            CLUSTERS,
            {"cluster": {"nodePools": [{"config": {"maxRunDuration": "1h"}}]}},
            TOKEN,
            400,
        ),
        ("POST", CLUSTERS, {"cluster": {"releaseChannel": {"channel": "SLOW"}}}, TOKEN, 400),
        ("POST", CLUSTERS, BODY, "outsider", 401),
        ("POST", CLUSTERS, BODY, "reader", 403),
        ("GET", f"{CLUSTERS}?pageSiz=3", None, TOKEN, 400),
        ("GET", CLUSTERS.replace("clusters", "clutters"), None, TOKEN, 404),
        ("GET", "nowhere.googleapis.com/v1/x", None, TOKEN, 404),
        ("GET", f"{CLUSTERS}/gan", None, TOKEN, 501),
    ],
)
def test_a_request_is_answered_as_the_document_and_the_login_allow(
    ask, made, *, verb, path, body, token, status
):
    assert ask(verb, path, body, token).status_code == status
    assert made == (["gan"] if status == 200 else [])


def test_an_answer_of_ours_that_breaks_the_contract_is_seen(server, ask):
    server.routes[LIST] = Route(lambda call: {"clutters": []})
    assert ask("GET", CLUSTERS).status_code == 500
    assert "clutters" in server.troubles.pop()
