"""Raw requests and requests that are expected to fail."""

from __future__ import annotations

import json

import pytest
from kubernetes.client import ApiException


def refusal(call, *arguments, **keywords):
    """Returns the Status that a call is refused with."""
    with pytest.raises(ApiException) as refused:
        call(*arguments, **keywords)
    status = json.loads(refused.value.body)
    assert status["kind"] == "Status"
    assert status["code"] == refused.value.status
    return status


def raw(api, method, path, body=None, kind="application/json"):
    """Sends a request that the typed client would refuse; returns status and answer."""
    headers = {"Content-Type": kind, "Accept": "application/json"}
    headers |= {"Authorization": api.configuration.get_api_key_with_prefix("BearerToken")}
    response = api.call_api(method, api.configuration.host + path, headers, body)
    response.read()
    return response.status, json.loads(response.data)


def config_map(name="settings", **data):
    return {"metadata": {"name": name, "labels": {"run": "gan"}}, "data": data}
