"""Permissions and the responses without them."""

from __future__ import annotations

from kubernetes import client

from emulators.kubernetes.raw_requests import config_map, raw, refusal


def test_an_unknown_token_is_refused(connect):
    status = refusal(client.CoreV1Api(connect("wrong")).list_namespaced_pod, "default")
    assert (status["code"], status["reason"]) == (401, "Unauthorized")


def test_a_token_does_what_its_roles_say(cluster, connect, core):
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get"]}]
    role = {"kind": "Role", "metadata": {"namespace": "default"}, "rules": rules}
    mine = connect(cluster.token([role], user="launcher"))
    limited = client.CoreV1Api(mine)
    limited.create_namespaced_config_map("default", config_map())
    status = refusal(limited.delete_namespaced_config_map, "settings", "default")
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"] == (
        'configmaps "settings" is forbidden: User "launcher" cannot delete resource '
        '"configmaps" in API group "" in the namespace "default"'
    )
    status = refusal(limited.list_pod_for_all_namespaces)
    assert status["message"].endswith('in API group "" at the cluster scope')
    assert refusal(limited.create_namespaced_config_map, "kube-system", config_map())["code"] == 403
    # Applying an object that is not there creates it, which is a right of its own.
    rules[0]["verbs"] = ["patch"]
    path = "/api/v1/namespaces/default/configmaps/new?fieldManager=me"
    code, outcome = raw(mine, "PATCH", path, config_map("new"), "application/apply-patch+yaml")
    assert (code, "cannot create" in outcome["message"]) == (403, True)


def test_access_reviews_answer_from_the_same_rules(cluster, connect):
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["*"], "namespace": "default"}
    ]
    reviews = client.AuthorizationV1Api(connect(cluster.token(rules)))

    def may(verb, resource, group="batch", namespace="default"):
        asked = {"verb": verb, "resource": resource, "group": group, "namespace": namespace}
        body = {"spec": {"resourceAttributes": asked}}
        return reviews.create_self_subject_access_review(body).status.allowed

    assert may("create", "jobs")
    assert not may("create", "jobs", namespace="kube-system")
    assert not may("create", "pods", group="")


def test_role_bindings_in_the_cluster_count(cluster, connect, core):
    roles = client.RbacAuthorizationV1Api(connect())
    rules = [{"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["list"]}]
    roles.create_namespaced_role("default", {"metadata": {"name": "sees"}, "rules": rules})
    mine = client.CoreV1Api(connect(cluster.token(user="ada")))
    assert refusal(mine.list_namespaced_pod, "default")["code"] == 403
    group = "rbac.authorization.k8s.io"
    body = {
        "metadata": {"name": "ada-sees"},
        "roleRef": {"kind": "Role", "name": "sees", "apiGroup": group},
        "subjects": [{"kind": "User", "name": "ada", "apiGroup": group}],
    }
    roles.create_namespaced_role_binding("default", body)
    assert mine.list_namespaced_pod("default").items == []
