"""What Google is sent, as files for people, held against Google's discovery documents."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from cloudgan.core.plan import Place
from cloudgan.providers.gcp.requests import setup_steps
from google_cloud.discovery import api
from google_cloud.project import APIS
from providers.gcp.lab import GOLDEN
from providers.gcp.write_golden import PLANS, render

HOSTS = {api(*one).host: api(*one) for one in APIS}
PLACE = Place(provider="gcp", account="lab", region="us-central1", zone="us-central1-a")


def wrong(method, url, body):
    """Says what Google's documents have against a request."""
    address = urlsplit(url)
    found = HOSTS[address.netloc].match(method, address.path)
    if found is None:
        return [f"there is no method {method} {url}"]
    query = {key: values[-1] for key, values in parse_qs(address.query).items()}
    return [
        *found.api.wrong_query(found.method, query),
        *found.api.wrong_request(found.method, body),
    ]


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_gives_the_requests_that_somebody_read(name):
    golden = (GOLDEN / f"{name}.yaml").read_text(encoding="utf-8")
    assert render(name) == golden, "if that is meant: run write_golden.py, and read the diff"


def test_there_is_a_golden_for_each_plan_and_none_else():
    assert sorted(path.stem for path in GOLDEN.glob("*.yaml")) == sorted(PLANS)


@pytest.mark.parametrize("name", PLANS)
def test_all_that_is_sent_is_as_google_describes_it(name):
    for step in yaml.safe_load_all((GOLDEN / f"{name}.yaml").read_text(encoding="utf-8")):
        assert not wrong(step["method"], step["path"], step["body"]), step["ensure"]


@pytest.mark.parametrize("step", setup_steps(PLACE), ids=lambda step: step.ensure)
def test_so_is_what_setup_sends(step):
    assert not wrong(step.method, step.path, step.body)


def test_a_wrong_field_would_be_found():
    body = {"nodePool": {"config": {"maxRunDurations": "60s"}}}
    url = "https://container.googleapis.com/v1/projects/p/locations/z/clusters/c/nodePools"
    assert "maxRunDurations" in wrong("POST", url, body)[0]
