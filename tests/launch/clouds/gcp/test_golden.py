"""Golden requests, checked against Google's discovery documents."""

from __future__ import annotations

from functools import cache
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from cloudgan.launch.clouds.gcp.planner import setup_steps
from cloudgan.schema.plan import Target
from emulators.gcp.discovery import api
from emulators.gcp.project import APIS
from launch.clouds.gcp.lab import GOLDEN
from launch.clouds.gcp.write_golden import PLANS, render

PLACE = Target(provider="gcp", account="lab", region="us-central1", zone="us-central1-a")


@cache
def hosts():
    """The documents take a second to read: not where the tests are only collected."""
    return {api(*one).host: api(*one) for one in APIS}


def violations(method, url, body):
    """Returns the violations of the discovery documents by a request."""
    address = urlsplit(url)
    found = hosts()[address.netloc].match(method, address.path)
    if found is None:
        return [f"there is no method {method} {url}"]
    query = {key: values[-1] for key, values in parse_qs(address.query).items()}
    return [
        *found.api.wrong_query(found.method, query),
        *found.api.wrong_request(found.method, body),
    ]


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_yields_the_golden_requests(name):
    golden = (GOLDEN / f"{name}.yaml").read_text(encoding="utf-8")
    assert render(name) == golden, "if intended, run `make golden` and review the diff"


def test_each_plan_has_a_golden():
    assert sorted(path.stem for path in GOLDEN.glob("*.yaml")) == sorted(PLANS)


@pytest.mark.parametrize("name", PLANS)
def test_golden_requests_match_the_discovery_documents(name):
    for step in yaml.safe_load_all((GOLDEN / f"{name}.yaml").read_text(encoding="utf-8")):
        assert not violations(step["method"], step["path"], step["body"]), step["ensure"]


@pytest.mark.parametrize("step", setup_steps(PLACE), ids=lambda step: step.ensure)
def test_setup_requests_match_the_discovery_documents(step):
    assert not violations(step.method, step.path, step.body)


def test_a_wrong_field_is_detected():
    body = {"nodePool": {"config": {"maxRunDurations": "60s"}}}
    url = "https://container.googleapis.com/v1/projects/p/locations/z/clusters/c/nodePools"
    assert "maxRunDurations" in violations("POST", url, body)[0]
