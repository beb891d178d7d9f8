"""The plugin that shows GPUs: pinned, modest, and only on nodes that cloudgan made."""

from __future__ import annotations

import re

import pytest

from cloudgan.kubernetes.device_plugin import GPU_NODE, device_plugin_step


@pytest.fixture
def pod():
    return device_plugin_step().body["spec"]["template"]["spec"]


def test_it_is_found_where_it_is_made_and_no_run_owns_it():
    step = device_plugin_step()
    assert step.find == f"{step.path}/{step.body['metadata']['name']}"
    assert step.ensure.startswith("DaemonSet ")
    assert not [name for name in step.body["metadata"]["labels"] if name.startswith("cloudgan-")]


def test_its_image_is_pinned_by_digest(pod):
    (container,) = pod["containers"]
    assert re.search(r":v[0-9.]+@sha256:[0-9a-f]{64}$", container["image"])


def test_it_runs_on_nodes_with_our_label_whatever_keeps_others_away(pod):
    assert pod["nodeSelector"] == dict(GPU_NODE)
    keys = {one["key"] for one in pod["tolerations"]}
    assert {"nvidia.com/gpu", "kubernetes.azure.com/scalesetpriority"} <= keys
    assert {one["operator"] for one in pod["tolerations"]} == {"Exists"}


def test_it_may_not_become_more_than_it_is(pod):
    (container,) = pod["containers"]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert pod["automountServiceAccountToken"] is False
