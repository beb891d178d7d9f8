"""Patches, server-side apply, dry runs."""

from __future__ import annotations

import json

import pytest
from kubernetes import dynamic

from emulators.kubernetes.raw_requests import config_map, raw, refusal

MERGE, STRATEGIC = (f"application/{kind}-patch+json" for kind in ("merge", "strategic-merge"))


def test_patches_of_the_three_kinds(connect, core):
    main = {"name": "t", "image": "busybox:1", "env": [{"name": "A", "value": "1"}]}
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [main], "schedulingGates": [{"name": "g"}]},
    }
    core.create_namespaced_pod("default", pod)
    path, api = "/api/v1/namespaces/default/pods/p", connect()
    added = {"spec": {"containers": [{"name": "t", "image": "busybox:2"}]}}
    code, outcome = raw(api, "PATCH", path, added, STRATEGIC)
    (only,) = outcome["spec"]["containers"]
    assert (code, only["image"], only["env"]) == (200, "busybox:2", main["env"])
    code, outcome = raw(api, "PATCH", path, {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert (code, outcome["metadata"]["labels"]) == (200, {"a": "b"})
    change = [
        {"op": "test", "path": "/metadata/labels/a", "value": "b"},
        {"op": "replace", "path": "/metadata/labels/a", "value": "c"},
        {"op": "add", "path": "/metadata/labels/x~1y", "value": "d"},
    ]
    code, outcome = raw(api, "PATCH", path, change, "application/json-patch+json")
    assert (code, outcome["metadata"]["labels"]) == (200, {"a": "c", "x/y": "d"})
    code, outcome = raw(api, "PATCH", path, change, "application/json-patch+json")
    assert (code, outcome["reason"]) == (422, "Invalid")


def test_applying_shares_an_object_by_its_fields(connect):
    kind = dynamic.DynamicClient(connect()).resources.get(api_version="v1", kind="ConfigMap")

    def apply(manager, force=False, **data):
        body = {"apiVersion": "v1", "kind": "ConfigMap", **config_map(**data)}
        return kind.server_side_apply(
            body, "settings", "default", field_manager=manager, force_conflicts=force
        ).to_dict()

    assert apply("one", a="1", b="1")["data"] == {"a": "1", "b": "1"}
    assert apply("two", c="2")["data"] == {"a": "1", "b": "1", "c": "2"}
    with pytest.raises(dynamic.exceptions.ConflictError) as refused:
        apply("two", a="2", c="2")
    status = json.loads(refused.value.body)
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    assert status["details"]["causes"][0]["field"] == ".data.a"
    # With force, the manager becomes the owner; a field is deleted when its last owner no longer applies it.
    assert apply("two", force=True, a="2", c="2")["data"] == {"a": "2", "b": "1", "c": "2"}
    assert apply("one", b="3")["data"] == {"a": "2", "b": "3", "c": "2"}
    left = apply("two", a="2")
    assert left["data"] == {"a": "2", "b": "3"}
    owners = {
        one["manager"]: one["fieldsV1"]["f:data"] for one in left["metadata"]["managedFields"]
    }
    assert owners == {"one": {"f:b": {}}, "two": {"f:a": {}}}
    before = left["metadata"]["resourceVersion"]
    assert apply("two", a="2")["metadata"]["resourceVersion"] == before, "nothing has changed"


def test_a_dry_run_checks_and_changes_nothing(core, batch, make_job, cluster):
    made = core.create_namespaced_config_map("default", config_map(), dry_run="All")
    assert made.metadata.uid
    assert cluster.find("configmaps", "default", "settings") is None
    core.create_namespaced_config_map("default", config_map(a="1"))
    core.patch_namespaced_config_map("settings", "default", {"data": {"a": "2"}}, dry_run="All")
    core.delete_namespaced_config_map("settings", "default", dry_run="All")
    assert cluster.find("configmaps", "default", "settings")["data"] == {"a": "1"}
    refusal(core.create_namespaced_config_map, "default", config_map("No"), dry_run="All")
