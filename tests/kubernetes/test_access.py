"""Kubeconfigs, whole and broken; no cluster is spoken to."""

from __future__ import annotations

import json
import os
import stat

import pytest
import yaml

from cloudgan.core.errors import ConfigError, CredentialsError, UnknownNameError
from cloudgan.kubernetes.access import connect, find_context

TOKEN = "planted-token-0123456789"  # noqa: S105  that is what must not be seen


def entry(name, user=None, *, server=None, namespace=None):
    cluster = {"server": server or f"https://{name}.example:6443"}
    context = {"cluster": name, "user": name} | ({"namespace": namespace} if namespace else {})
    return {
        "clusters": [{"name": name, "cluster": cluster}],
        "contexts": [{"name": name, "context": context}],
        "users": [{"name": name, "user": user or {"token": TOKEN}}],
    }


@pytest.fixture
def kubeconfig(tmp_path, monkeypatch):
    """Writes kubeconfigs and points KUBECONFIG to them."""

    def write(*contents):
        paths = []
        for number, content in enumerate(contents):
            path = tmp_path / f"config-{number}"
            text = content if isinstance(content, str) else yaml.safe_dump(content)
            path.write_text(text)
            paths.append(str(path))
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join(paths))
        return paths

    return write


def program(folder, name, script):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def plugin(command, **more):
    version = {"apiVersion": "client.authentication.k8s.io/v1beta1"}
    return {"exec": version | {"command": command, "interactiveMode": "Never"} | more}


def credential(**status):
    return json.dumps(
        {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "kind": "ExecCredential",
            "status": status,
        }
    )


def test_the_current_context_is_taken_where_none_is_named(kubeconfig):
    kubeconfig(entry("lab", namespace="gan") | {"current-context": "lab"})
    assert find_context(None) == ("lab", "https://lab.example:6443", "gan")


def test_a_context_is_taken_by_its_name(kubeconfig):
    kubeconfig(entry("lab") | {"current-context": "lab"}, entry("cern"))
    assert find_context("cern") == ("cern", "https://cern.example:6443", None)


def test_an_unknown_context_is_refused_with_the_nearest(kubeconfig):
    kubeconfig(entry("lab-gpu"), entry("cern"))
    with pytest.raises(UnknownNameError, match=r"Did you mean 'lab-gpu'\? Known: cern, lab-gpu"):
        find_context("lab-gpus")


def test_without_a_kubeconfig_the_user_is_told_what_else_there_is(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match=r"no kubeconfig at .*none; set KUBECONFIG .*local"):
        find_context("lab")


def test_without_a_current_context_one_has_to_be_named(kubeconfig):
    kubeconfig(entry("lab"))
    with pytest.raises(ConfigError, match=r"no current context; give --context=NAME\. Known: lab"):
        find_context(None)


def test_of_several_kubeconfigs_the_first_that_says_a_thing_counts(kubeconfig, tmp_path):
    """As kubectl reads them: https://kubernetes.io/docs/concepts/configuration."""
    first = entry("lab", server="https://first.example") | {"current-context": "lab"}
    second = entry("lab", server="https://second.example") | {"current-context": "other"}
    paths = kubeconfig(first, second)
    os.environ["KUBECONFIG"] = os.pathsep.join([str(tmp_path / "missing"), *paths])
    assert find_context(None).server == "https://first.example"
    assert connect("lab").configuration.host == "https://first.example"


def test_a_context_may_be_put_together_from_several_files(kubeconfig):
    whole = entry("lab")
    kubeconfig(
        {"contexts": whole["contexts"]}, {"clusters": whole["clusters"], "users": whole["users"]}
    )
    assert find_context("lab").server == "https://lab.example:6443"
    assert connect("lab").configuration.host == "https://lab.example:6443"


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "users: {token: planted\n\ty: z",
        "- a list",
        "contexts: 1",
        "contexts: nonsense",
        "contexts: [nonsense]",
        "contexts: [{context: {}}]",
    ],
)
def test_a_kubeconfig_that_is_none_is_refused_by_name(kubeconfig, content):
    (path,) = kubeconfig(content)
    with pytest.raises(ConfigError, match=path) as refused:
        find_context("lab")
    assert "planted" not in str(refused.value), "a piece of the file may hold a login"


@pytest.mark.parametrize("part", ["contexts", "clusters", "users"])
def test_a_kubeconfig_with_an_empty_part_is_no_fault_of_ours(kubeconfig, part):
    kubeconfig(entry("lab") | {part: None})
    if part == "users":
        assert find_context("lab").name == "lab"
    else:
        with pytest.raises(ConfigError, match="lab"):
            find_context("lab")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("gke-gcloud-auth-plugin", "type: gcloud components install gke-gcloud-auth-plugin"),
        ("aws", "type: pip install awscli"),
        ("aws-iam-authenticator", "see https://docs.aws.amazon.com/"),
        ("kubelogin", "type: az aks install-cli"),
        ("/opt/none/gke-gcloud-auth-plugin", "gcloud components install"),
    ],
)
def test_a_login_program_that_is_missing_is_named_with_what_to_type(
    kubeconfig, monkeypatch, tmp_path, command, told
):
    monkeypatch.setenv("PATH", str(tmp_path))
    kubeconfig(entry("lab", plugin(command)))
    with pytest.raises(CredentialsError, match="not on the PATH") as refused:
        find_context("lab")
    assert command in str(refused.value)
    assert told in str(refused.value)
    assert "type: see" not in str(refused.value)


def test_a_login_program_nobody_knows_says_what_its_kubeconfig_says(kubeconfig):
    kubeconfig(entry("lab", plugin("own-login", installHint="\nask the help desk\nat CERN")))
    with pytest.raises(CredentialsError, match=r"'own-login'.*PATH; ask the help desk$"):
        find_context("lab")


def test_a_login_program_gives_the_token(kubeconfig, tmp_path):
    said = credential(token=TOKEN)
    kubeconfig(entry("lab", plugin(program(tmp_path, "login", f"echo '{said}'"))))
    client = connect("lab")
    assert TOKEN in str(client.configuration.api_key)
    assert TOKEN not in repr(client) + repr(client.configuration) + repr(find_context("lab"))


@pytest.mark.parametrize(
    "script", ["true", "exit 3", "echo no JSON", f"echo '{credential()}'", "echo '{}'"]
)
def test_a_login_program_that_gives_no_token_is_told(kubeconfig, tmp_path, script):
    kubeconfig(entry("lab", plugin(program(tmp_path, "login", script))))
    with pytest.raises(CredentialsError, match=r"login', by which context 'lab' .* gave no token"):
        connect("lab")


def test_a_token_may_stand_in_a_file(kubeconfig, tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN)
    kubeconfig(entry("lab", {"tokenFile": str(path)}))
    client = connect("lab")
    assert TOKEN in str(client.configuration.api_key)
    assert TOKEN not in repr(client)


def test_a_kubeconfig_that_the_client_cannot_use_is_told(kubeconfig):
    kubeconfig(
        entry("lab", {"client-certificate": "/nowhere/cert.pem", "client-key": "/nowhere/k"})
    )
    with pytest.raises(ConfigError, match=r"config-0: .*cert\.pem"):
        connect("lab")


def test_what_a_context_is_shown_as_holds_no_login(kubeconfig):
    kubeconfig(entry("lab", server=f"https://marie:{TOKEN}@lab.example:6443/"))
    assert find_context("lab").server == "https://lab.example:6443/"
