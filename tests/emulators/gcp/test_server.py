"""The emulator rejects what Google rejects."""

from __future__ import annotations

import datetime as dt
from email.utils import parsedate_to_datetime

import pytest
import requests

from emulators.gcp.discovery import api
from emulators.gcp.refusal import Refusal
from emulators.gcp.server import TOKEN, GoogleServer, Route, serving

CLUSTERS = "container.googleapis.com/v1/projects/lab/locations/us-central1-a/clusters"
CREATE, LIST = (f"container.projects.locations.clusters.{verb}" for verb in ("create", "list"))

OUTSIDER, READER = "outsider", "reader"


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
        yield running


@pytest.fixture
def ask(server):
    with requests.Session() as session:
        session.trust_env = False

        def send(verb, path, body=None, token=TOKEN):
            login = {"Authorization": f"Bearer {token}"}
            return session.request(verb, f"{server.url}/{path}", json=body, headers=login)

        yield send


def test_what_the_document_describes_is_taken(ask, made, server):
    answer = ask("POST", CLUSTERS, {"cluster": {"name": "gan"}})
    assert (answer.status_code, made) == (200, ["gan"])
    assert server.methods() == [CREATE]


@pytest.mark.parametrize(
    "body",
    [
        {"cluster": {"nameTYPO": "gan"}},
        {"cluster": {"name": 3}},
        {"cluster": {"name": "gan", "endpoint": "192.0.2.1"}},
        {"cluster": {"nodePools": [{"config": {"maxRunDuration": "1h"}}]}},
        {"cluster": {"releaseChannel": {"channel": "SLOW"}}},
    ],
    ids=["unknown field", "wrong type", "output only", "wrong duration", "no such choice"],
)
def test_what_google_would_refuse_is_refused(ask, made, body):
    answer = ask("POST", CLUSTERS, body)
    assert answer.status_code == 400
    assert answer.json()["error"]["status"] == "INVALID_ARGUMENT"
    assert not made


def test_an_unknown_parameter_is_refused(ask):
    assert ask("GET", f"{CLUSTERS}?pageSiz=3").status_code == 400


def test_a_path_that_no_document_has_is_not_found(ask):
    assert ask("GET", CLUSTERS.replace("clusters", "clutters")).status_code == 404
    assert ask("GET", "nowhere.googleapis.com/v1/x").status_code == 404


def test_a_method_that_is_not_built_says_so(ask):
    assert ask("GET", f"{CLUSTERS}/gan").status_code == 501


def test_an_answer_of_ours_that_breaks_the_contract_is_seen(server, ask):
    server.routes[LIST] = Route(lambda call: {"clutters": []})
    assert ask("GET", CLUSTERS).status_code == 500
    assert "clutters" in server.troubles.pop()


def test_an_unknown_token_gets_401_and_a_missing_permission_403(server, ask, made):
    body = {"cluster": {"name": "gan"}}
    assert ask("POST", CLUSTERS, body, token=OUTSIDER).status_code == 401
    server.tokens[READER] = frozenset({"container.clusters.list"})
    answer = ask("POST", CLUSTERS, body, token=READER)
    assert answer.status_code == 403
    assert "container.clusters.create" in answer.json()["error"]["message"]
    assert not made


def test_a_planned_refusal_strikes_as_often_as_planned(server, ask, made):
    server.refuse("clusters.create", Refusal(429, "slowly"), times=2)
    codes = [ask("POST", CLUSTERS, {"cluster": {"name": "gan"}}).status_code for _ in range(3)]
    assert codes == [429, 429, 200]
    assert made == ["gan"]


@pytest.mark.parametrize("acts", [True, False])
def test_an_answer_is_lost_after_or_before_the_server_acts(server, ask, made, acts):
    server.lose_answer("clusters.create", acts=acts)
    with pytest.raises(requests.ConnectionError):
        ask("POST", CLUSTERS, {"cluster": {"name": "gan"}})
    assert made == (["gan"] if acts else [])


def test_time_is_counted_in_requests(server, ask):
    done = []
    server.later(2, lambda: done.append("then"))
    ask("GET", CLUSTERS)
    assert not done
    ask("GET", CLUSTERS)
    assert done == ["then"]


def test_the_clock_of_the_server_can_be_wrong(server, ask):
    server.skew = dt.timedelta(hours=2)
    outcome = parsedate_to_datetime(ask("GET", CLUSTERS).headers["Date"])
    assert outcome - dt.datetime.now(dt.UTC) > dt.timedelta(hours=1)
