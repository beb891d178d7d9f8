"""Requests and responses with the official client."""

from __future__ import annotations

import pytest
from kubernetes import client, watch
from kubernetes.client import ApiException

from emulators.kubernetes import local_cluster
from emulators.kubernetes.raw_requests import config_map, raw, refusal


def test_objects_are_made_read_changed_and_deleted(core):
    made = core.create_namespaced_config_map("default", config_map(a="1"))
    assert made.metadata.uid
    assert made.metadata.creation_timestamp
    assert core.read_namespaced_config_map("settings", "default").data == {"a": "1"}
    made.data["a"] = "2"
    changed = core.replace_namespaced_config_map("settings", "default", made)
    assert int(changed.metadata.resource_version) > int(made.metadata.resource_version)
    core.patch_namespaced_config_map("settings", "default", {"data": {"b": "3", "a": None}})
    assert core.read_namespaced_config_map("settings", "default").data == {"b": "3"}
    assert core.delete_namespaced_config_map("settings", "default")["status"] == "Success"
    status = refusal(core.read_namespaced_config_map, "settings", "default")
    assert (status["code"], status["reason"]) == (404, "NotFound")
    assert status["message"] == 'configmaps "settings" not found'


def test_an_old_version_of_an_object_is_a_conflict(core):
    made = core.create_namespaced_config_map("default", config_map())
    core.patch_namespaced_config_map("settings", "default", {"data": {"b": "1"}})
    status = refusal(core.replace_namespaced_config_map, "settings", "default", made)
    assert (status["code"], status["reason"]) == (409, "Conflict")
    assert "please apply your changes to the latest version" in status["message"]


def test_a_name_is_taken_once(core):
    core.create_namespaced_config_map("default", config_map())
    status = refusal(core.create_namespaced_config_map, "default", config_map())
    assert (status["code"], status["reason"]) == (409, "AlreadyExists")
    drawn = {"metadata": {"generateName": "draw-"}}
    one, two = (core.create_namespaced_config_map("default", drawn).metadata.name for _ in "ab")
    assert one != two
    assert one.startswith("draw-")


def test_nothing_is_made_in_a_namespace_that_is_not_there(core):
    status = refusal(core.create_namespaced_config_map, "nowhere", config_map())
    assert (status["code"], status["message"]) == (404, 'namespaces "nowhere" not found')


@pytest.mark.parametrize(
    ("path", "value", "code", "text"),
    [
        (["spec", "paralelism"], 2, 400, 'unknown field "spec.paralelism"'),
        (["spec", "backoffLimit"], "two", 400, "cannot unmarshal string into Go struct field"),
        (["spec", "template", "spec", "containers"], [], 0, ""),
        (["metadata", "name"], "No_label", 422, "RFC 1123"),
        (["metadata", "labels"], {"run": "a b"}, 422, "a valid label must be an empty string"),
        (["kind"], "Jobb", 400, "does not match the expected kind"),
    ],
)
def test_a_manifest_is_read_strictly(connect, path, value, code, text):
    main = {"name": "t", "image": "busybox:1"}
    job = {
        "kind": "Job",
        "apiVersion": "batch/v1",
        "metadata": {"name": "gan"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [main]}}},
    }
    parent = job
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    got, outcome = raw(connect(), "POST", "/apis/batch/v1/namespaces/default/jobs", job)
    if code:
        assert (got, outcome["code"]) == (code, code)
        assert text in outcome["message"]


def test_unknown_fields_are_dropped_where_the_request_allows_it(connect):
    body = config_map() | {"dada": {"a": "1"}}
    path = "/api/v1/namespaces/default/configmaps?fieldValidation=Warn"
    code, made = raw(connect(), "POST", path, body)
    assert code == 201
    assert "dada" not in made


def test_selectors_and_pages(core):
    for index in range(5):
        body = config_map(f"s{index}")
        body["metadata"]["labels"] = {"index": str(index), **({"odd": ""} if index % 2 else {})}
        core.create_namespaced_config_map("default", body)

    def listed(**query):
        found = core.list_namespaced_config_map("default", **query)
        return [one.metadata.name for one in found.items]

    assert listed(label_selector="index in (1, 3),odd") == ["s1", "s3"]
    assert listed(label_selector="index,!odd") == ["s0", "s2", "s4"]
    assert listed(label_selector="index!=1,odd") == ["s3"]
    assert listed(field_selector="metadata.name=s2") == ["s2"]
    page = core.list_namespaced_config_map("default", label_selector="index", limit=3)
    assert page.metadata.remaining_item_count == 2
    rest = core.list_namespaced_config_map(
        "default", label_selector="index", limit=3, _continue=page.metadata._continue
    )
    names = [one.metadata.name for one in (*page.items, *rest.items)]
    assert names == [f"s{index}" for index in range(5)]
    assert rest.metadata._continue is None


def test_a_page_of_an_expired_list_gets_410(core, cluster):
    core.create_namespaced_config_map("default", config_map())
    page = core.list_namespaced_config_map("default", limit=1)
    core.create_namespaced_config_map("default", config_map("other"))
    cluster.forget_history()
    status = refusal(
        core.list_namespaced_config_map, "default", limit=1, _continue=page.metadata._continue
    )
    assert (status["code"], status["reason"]) == (410, "Expired")


def test_a_watch_sees_each_change_from_a_version_on(core):
    first = core.create_namespaced_config_map("default", config_map(a="1"))
    core.patch_namespaced_config_map("settings", "default", {"data": {"a": "2"}})
    core.patch_namespaced_config_map("settings", "default", {"metadata": {"labels": {"run": "x"}}})
    core.create_namespaced_config_map("kube-system", config_map("elsewhere"))
    core.delete_namespaced_config_map("settings", "default")
    seen = watch.Watch().stream(
        core.list_namespaced_config_map,
        "default",
        label_selector="run=gan",
        resource_version=first.metadata.resource_version,
        timeout_seconds=1,
    )
    # The watcher gets a deletion for an object that no longer matches its selector.
    assert [(one["type"], one["object"].data) for one in seen] == [
        ("MODIFIED", {"a": "2"}),
        ("DELETED", {"a": "2"}),
    ]


def test_a_watch_from_an_expired_version_gets_410(core, cluster):
    old = core.create_namespaced_config_map("default", config_map())
    core.create_namespaced_config_map("default", config_map("other"))
    cluster.forget_history()
    watching = watch.Watch().stream(
        core.list_namespaced_config_map,
        "default",
        resource_version=old.metadata.resource_version,
        timeout_seconds=5,
    )
    with pytest.raises(ApiException) as gone:
        list(watching)
    assert gone.value.status == 410


def test_dependents_go_with_their_owner(core, cluster):
    owner = core.create_namespaced_config_map("default", config_map("owner"))
    child = config_map("child")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    child["metadata"]["ownerReferences"] = [reference | {"uid": owner.metadata.uid}]
    core.create_namespaced_config_map("default", child)
    core.delete_namespaced_config_map("owner", "default")
    cluster.wait_for(lambda: cluster.find("configmaps", "default", "child") is None)


def test_a_finalizer_keeps_an_object(core, cluster):
    body = config_map()
    body["metadata"]["finalizers"] = ["example.org/wait"]
    core.create_namespaced_config_map("default", body)
    core.delete_namespaced_config_map("settings", "default")
    assert core.read_namespaced_config_map("settings", "default").metadata.deletion_timestamp
    core.patch_namespaced_config_map("settings", "default", {"metadata": {"finalizers": None}})
    assert cluster.find("configmaps", "default", "settings") is None


def test_a_namespace_takes_everything_along(core, cluster):
    core.create_namespace({"metadata": {"name": "runs"}})
    assert cluster.find("serviceaccounts", "runs", "default")
    core.create_namespaced_config_map("runs", config_map())
    core.delete_namespace("runs")
    cluster.wait_for(lambda: cluster.find("namespaces", None, "runs") is None)
    assert not cluster.select("configmaps", "runs")


def test_the_events_of_the_job_and_the_status_of_the_quota_report_a_quota(core, cluster, make_job):
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"requests.nvidia.com/gpu": "2"}}}
    core.create_namespaced_resource_quota("default", quota)
    limits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    make_job("exec sleep 60", workers=3, container=limits)
    event = cluster.wait_for(
        lambda: next(
            (one for one in cluster.select("events") if one["reason"] == "FailedCreate"), 0
        )
    )
    assert event["type"] == "Warning"
    assert (
        "exceeded quota: few, requested: requests.nvidia.com/gpu=1, "
        "used: requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=2"
    ) in event["message"]
    assert len(cluster.select("pods")) == 2
    used = {"requests.nvidia.com/gpu": "2"}
    cluster.wait_for(
        lambda: cluster.find("resourcequotas", "default", "few")["status"].get("used") == used
    )


def test_a_config_map_holds_one_mebibyte(core):
    status = refusal(
        core.create_namespaced_config_map, "default", config_map(a="x" * (1024 * 1024 + 1))
    )
    assert "Too long: may not be more than 1048576 bytes" in status["message"]


def test_custom_kinds_are_served_and_checked(connect, cluster):
    api = connect()
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}
        },
    }
    version = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": schema}
    definition = {
        "metadata": {"name": "runs.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"plural": "runs", "kind": "Run", "singular": "run"},
            "versions": [version],
        },
    }
    client.ApiextensionsV1Api(api).create_custom_resource_definition(definition)
    runs = client.CustomObjectsApi(api)
    where = ("example.org", "v1", "default", "runs")
    body = {"apiVersion": "example.org/v1", "kind": "Run", "metadata": {"name": "r"}}
    runs.create_namespaced_custom_object(*where, body | {"spec": {"size": 2}})
    assert runs.list_namespaced_custom_object(*where)["items"][0]["spec"] == {"size": 2}
    body["metadata"] = {"name": "s"}
    wrong = refusal(runs.create_namespaced_custom_object, *where, body | {"spec": {"size": 0}})
    assert (wrong["code"], "spec.size" in wrong["message"]) == (422, True)
    wrong = refusal(runs.create_namespaced_custom_object, *where, body | {"spec": {"sise": 1}})
    assert 'unknown field "spec.sise"' in wrong["message"]


def test_discovery_shows_gang_and_queue_only_where_they_are(tmp_path, connect):
    def groups(api):
        found = client.ApisApi(api).get_api_versions().groups
        return {version.group_version for group in found for version in group.versions}

    here = groups(connect())
    assert {"batch/v1", "networking.k8s.io/v1", "rbac.authorization.k8s.io/v1"} <= here
    assert not {"scheduling.k8s.io/v1beta1", "kueue.x-k8s.io/v1beta1"} & here


def test_a_job_waits_for_its_queue(tmp_path):
    with local_cluster(root=tmp_path, gang=True, kueue=True, version="1.37") as cluster:
        settings = client.Configuration(host=cluster.url)
        settings.ssl_ca_cert = str(cluster.ca)
        settings.api_key = {"authorization": f"Bearer {cluster.token()}"}
        with client.ApiClient(settings) as api:
            found = client.ApisApi(api).get_api_versions().groups
            assert {"scheduling.k8s.io", "kueue.x-k8s.io"} <= {group.name for group in found}
            main = {"name": "t", "image": "busybox:1", "command": ["true"]}
            labels = {"kueue.x-k8s.io/queue-name": "physics"}
            gang = {"schedulingPolicy": {"gang": {"minCount": 1}}}
            pod = {"restartPolicy": "Never", "containers": [main]}
            job = {"metadata": {"name": "gan", "labels": labels}}
            job["spec"] = {"template": {"spec": pod}, "scheduling": gang}
            made = client.BatchV1Api(api).create_namespaced_job("default", job)
            assert made.spec.suspend
            assert made.spec.scheduling is not None
            queue = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue"}
            queue |= {"metadata": {"name": "physics"}, "spec": {"clusterQueue": "all"}}
            where = ("kueue.x-k8s.io", "v1beta1", "default", "localqueues")
            client.CustomObjectsApi(api).create_namespaced_custom_object(*where, queue)
            cluster.wait_for(
                lambda: cluster.find("jobs", "default", "gan")["status"].get("completionTime")
            )
            api.rest_client.pool_manager.clear()
