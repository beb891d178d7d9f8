"""A fourth cloud is rows: resources of a small server are created, waited for, listed and destroyed."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
import requests

from cloudgan.core.errors import ConfigError, LaunchError
from cloudgan.core.labels import RUN, SHARED
from cloudgan.launch.clouds.engine import Engine, names_of_gone
from cloudgan.launch.clouds.rows import BusyError, Kind, Rows, ask, resolve
from cloudgan.schema.plan import Step
from cloudgan.schema.resource import Listing
from emulators.http import Answer, HttpServer

STATES = {"booting": "creating", "up": "ready", "broken": "failed", "leaving": "deleting"}


def described(resource, body):
    return replace(resource, node_type=body.get("type"), nodes=body.get("count", 0))


CLUSTER = Kind(
    name="Nimbus cluster",
    order=50,
    path="{region}/clusters/{name}",
    states=STATES,
    labels="meta.tags",
    region="region",
    created="meta.at",
    fee="Nimbus hour",
    may_be_foreign=True,
)
POOL = Kind(
    name="Nimbus pool",
    order=10,
    path="{region}/pools/{name}",
    states=STATES,
    labels="meta.tags",
    region="region",
    refine=described,
    explain=lambda api, resource, body: replace(resource, reason=body.get("why", "")),
)
END = Kind(
    name="Nimbus timer",
    order=60,
    path="{region}/timers/{name}",
    states=STATES,
    labels="meta.tags",
    region="region",
    ends_run=True,
)
KINDS = (CLUSTER, POOL, END)


class Nimbus:
    """The server: documents by path. A new one is `booting`, and `leaving` before it is gone, for two looks.

    `busy` and `refused` answer so many next POSTs and DELETEs with 423; `silent` regions give 503.
    """

    def __init__(self):
        self.there, self.looks, self.seen = {}, {}, []
        self.busy, self.refused, self.silent = 0, 0, set()

    def answer(self, method, path, body):
        self.seen.append(f"{method} {path}")
        if path.partition("/")[0] in self.silent:
            return 503, {}
        return getattr(self, method.lower())(path, body)

    def post(self, path, body):
        if self.busy:
            self.busy -= 1
            return 423, {}
        if path in self.there:
            return 409, {}
        self.there[path], self.looks[path] = body | {"status": "booting"}, 2
        return 200, {}

    def delete(self, path, _):
        if self.refused:
            self.refused -= 1
            return 423, {}
        if path in self.there:
            self.there[path]["status"], self.looks[path] = "leaving", 2
        return 200, {}

    def get(self, path, _):
        if "/" not in path:
            return 200, {key: one for key, one in self.there.items() if key.startswith(path)}
        one = self.there.get(path, {})
        self.looks[path] = self.looks.get(path, 0) - 1
        if self.looks[path] <= 0 and one.get("status") == "booting":
            one["status"] = "up"
        if self.looks[path] <= 0 and one.get("status") == "leaving":
            one = self.there.pop(path) and {}
        return (200, one) if one else (404, {})


class Transport:
    """What a cloud adds to its rows: how one asks, and what its answers mean."""

    def __init__(self, url):
        self.url = url

    def send(self, method, path, body=None):
        answer = requests.request(method, f"{self.url}/{path}", json=body, timeout=5)
        if answer.status_code in (404, 409):
            return None
        if not answer.ok:
            kind = BusyError if answer.status_code == 423 else LaunchError
            raise kind(f"{method} {path}: {answer.status_code}")
        return answer.json()

    def get(self, kind, name):
        return self.send("GET", name)

    def create(self, kind, step, body):
        self.send(step.method, step.path, body)

    def delete(self, kind, name):
        self.send("DELETE", name)


class NimbusClient(Rows):
    def list_resources(self, run=None, regions=None):
        parts = [ask(one, lambda one=one: self._in(one, run)) for one in ("east", "west")]
        silent = [one for part in parts for one in part.silent]
        return Listing((one for part in parts for one in part), silent)

    def _in(self, region, run):
        found = [
            kind.resource(name, body)
            for name, body in self.transport.send("GET", region).items()
            for kind in KINDS
            if re.fullmatch(rf"\w+/{kind.path.split('/')[1]}/[^/]+", name)
        ]
        return Listing(one for one in found if run in (None, one.run))


@pytest.fixture
def server():
    nimbus = Nimbus()

    def answer(asked):
        body = json.loads(asked.body) if asked.body else {}
        return Answer(*nimbus.answer(asked.method, asked.target.strip("/"), body))

    there = HttpServer(answer)
    nimbus.url = there.url
    yield nimbus
    there.close()


@pytest.fixture
def cloud(server):
    references = {"cluster.address": lambda step: f"address of {step.ref['name']}"}
    return NimbusClient(Transport(server.url), KINDS, references=references, poll_seconds=0.001)


@pytest.fixture
def engine(cloud):
    return Engine(cloud, poll_seconds=0.01, gone_seconds=5)


def step_of(kind, name, tags, **body):
    ref = {"region": "west", "name": name}
    body |= {"meta": {"tags": tags, "at": "2026-11-28T05:00:00Z"}}
    path = kind.name_of(ref)
    return Step(
        ensure=f"{kind.name} {name}", kind=kind.name, ref=ref, method="POST", path=path, at="cloud",
        body=body,
    )  # fmt: skip


@pytest.fixture
def plan(plan_of):
    return plan_of(gang_timeout_seconds=5)


@pytest.fixture
def steps(plan):
    own = plan.labels().as_dict()
    address = {"$ref": "cluster.address"}
    return (
        step_of(END, "gan", own, at={"$after_seconds": 3600}),
        step_of(CLUSTER, "cloudgan", {SHARED: "cluster"}),
        step_of(POOL, "gan", own, type="v100", count=2, joins=address),
    )


def test_resources_are_created_once_listed_and_deleted_in_order(server, cloud, engine, plan, steps):
    assert [engine.ensure(step, plan) for step in steps] == [True] * 3
    assert [engine.ensure(step, plan) for step in steps] == [False] * 3
    assert [one for one in server.seen if one.startswith("POST")] == [
        "POST west/timers/gan", "POST west/clusters/cloudgan", "POST west/pools/gan",
    ]  # fmt: skip
    assert server.there["west/pools/gan"]["joins"] == "address of gan"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", server.there["west/timers/gan"]["at"])
    listed = {one.kind: one for one in engine.list()}
    assert listed["Nimbus pool"].run == "gan"
    assert (listed["Nimbus pool"].nodes, listed["Nimbus pool"].node_type) == (2, "v100")
    assert listed["Nimbus cluster"].created_at == "2026-11-28T05:00:00Z"
    assert [one.ends_run for one in listed.values()].count(True) == 1
    server.refused = 2
    gone = list(names_of_gone(engine.destroy(engine.list())))
    assert gone == [
        "Nimbus pool west/pools/gan",
        "Nimbus cluster west/clusters/cloudgan",
        "Nimbus timer west/timers/gan",
    ]
    assert server.there == {}


def test_another_operation_is_waited_for_and_a_taken_name_is_no_error(server, engine, plan, steps):
    server.busy = 3
    assert engine.ensure(steps[2], plan)
    engine.cloud.create(steps[2])  # as after a lost answer
    assert server.seen.count("POST west/pools/gan") == 5


def test_an_operation_that_does_not_end_is_reported(server, plan, steps):
    server.busy = 10**6
    cloud = NimbusClient(Transport(server.url), KINDS, poll_seconds=0.001, busy_seconds=0.05)
    with pytest.raises(LaunchError, match="Nimbus cluster cloudgan was not accepted within 0 s"):
        cloud.create(steps[1])


@pytest.mark.parametrize("kind", [CLUSTER, POOL], ids=lambda kind: kind.name)
def test_only_a_kind_that_may_be_foreign_is_used_without_labels(server, engine, plan, steps, kind):
    step = next(one for one in steps if one.kind == kind.name)
    server.there[step.path], server.looks[step.path] = {"status": "up", "meta": {}}, 0
    before = dict(server.there)
    if kind.may_be_foreign:
        assert not engine.ensure(step, plan)
    else:
        with pytest.raises(ConfigError, match="is not managed by cloudgan"):
            engine.ensure(step, plan)
    assert server.there == before


def test_a_region_that_does_not_answer_is_silent_and_the_others_are_listed(
    server, engine, plan, steps
):
    engine.ensure(steps[2], plan)
    server.silent = {"east"}
    found = engine.list("gan")
    assert [one.name for one in found] == ["west/pools/gan"]
    assert found.silent == ("east (GET east: 503)",)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"kind": "Nimbus moon"}, "no resources of the kind 'Nimbus moon'"),
        ({"body": {"a": [{"$ref": "moon"}]}}, "no value called 'moon'"),
    ],
)
def test_a_step_of_an_edited_plan_is_refused_before_its_request(server, cloud, steps, step, why):
    with pytest.raises(LaunchError, match=why):
        cloud.create(steps[1].model_copy(update=step))
    assert server.there == {}


def test_names_and_references_are_the_same_thing():
    ref = {"region": "west", "name": "gan"}
    assert POOL.ref_of(POOL.name_of(ref)) == ref
    with pytest.raises(LaunchError, match=r"west/gan is no Nimbus pool: expected \{region\}/pools"):
        POOL.ref_of("west/gan")
    assert resolve({"a": ({"$ref": "b"}, 1)}, str.upper) == {"a": ["B", 1]}
    assert RUN not in resolve({"$ref": "x", "and": 1}, str.upper), "another key: no marker"
