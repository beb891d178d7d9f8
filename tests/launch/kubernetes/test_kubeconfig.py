"""Kubeconfigs and their clients."""

import json
import os
import ssl
import stat
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from cloudgan.core.errors import CloudganError, ConfigError, CredentialsError, UnknownNameError
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.launch.kubernetes.kubeconfig import connect, connect_by_certificate, find_context
from emulators.certificates import authority, write_certificates

TOKEN = "planted-token-0123456789"  # noqa: S105  must not be shown


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


def test_a_context_is_found_by_name_and_the_current_one_is_the_default(kubeconfig):
    kubeconfig(entry("lab", namespace="gan") | {"current-context": "lab"}, entry("cern"))
    assert find_context(None) == ("lab", "https://lab.example:6443", "gan")
    assert find_context("cern") == ("cern", "https://cern.example:6443", None)


def test_an_unknown_context_is_refused_with_the_nearest(kubeconfig):
    kubeconfig(entry("lab-gpu"), entry("cern"))
    with pytest.raises(UnknownNameError, match=r"Did you mean 'lab-gpu'\? Known: cern, lab-gpu"):
        find_context("lab-gpus")


def test_a_missing_kubeconfig_is_reported_with_the_alternatives(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match=r"no kubeconfig at .*none; set KUBECONFIG, .*local"):
        find_context("lab")


def test_without_a_current_context_context_is_required(kubeconfig):
    kubeconfig(entry("lab"))
    with pytest.raises(ConfigError, match=r"no current context; give --context=NAME\. Valid: lab"):
        find_context(None)


def test_the_first_of_several_kubeconfigs_takes_precedence(kubeconfig, tmp_path):
    """As kubectl reads them: https://kubernetes.io/docs/concepts/configuration."""
    first = entry("lab", server="https://first.example") | {"current-context": "lab"}
    second = entry("lab", server="https://second.example") | {"current-context": "other"}
    paths = kubeconfig(first, second)
    os.environ["KUBECONFIG"] = os.pathsep.join([str(tmp_path / "missing"), *paths])
    assert find_context(None).server == "https://first.example"
    assert connect("lab").configuration.host == "https://first.example"


def test_a_context_may_be_defined_across_several_files(kubeconfig):
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
def test_an_invalid_kubeconfig_is_refused_with_its_path(kubeconfig, content):
    (path,) = kubeconfig(content)
    with pytest.raises(ConfigError, match=path) as refused:
        find_context("lab")
    assert "planted" not in str(refused.value), "a part of the file may contain credentials"


@pytest.mark.parametrize("part", ["contexts", "clusters", "users"])
def test_a_kubeconfig_with_an_empty_section_is_handled(kubeconfig, part):
    kubeconfig(entry("lab") | {part: None})
    if part == "users":
        assert find_context("lab").name == "lab"
    else:
        with pytest.raises(ConfigError, match="lab"):
            find_context("lab")


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("gke-gcloud-auth-plugin", "run: gcloud components install gke-gcloud-auth-plugin"),
        ("aws", "run: pip install awscli"),
        ("aws-iam-authenticator", "see https://docs.aws.amazon.com/"),
        ("kubelogin", "run: az aks install-cli"),
        ("/opt/none/gke-gcloud-auth-plugin", "gcloud components install"),
    ],
)
def test_a_missing_credential_plugin_is_reported_with_the_install_command(
    kubeconfig, monkeypatch, tmp_path, command, hint
):
    monkeypatch.setenv("PATH", str(tmp_path))
    kubeconfig(entry("lab", plugin(command)))
    with pytest.raises(CredentialsError, match="not on the PATH") as refused:
        find_context("lab")
    assert command in str(refused.value)
    assert hint in str(refused.value)
    assert "run: see" not in str(refused.value)


def test_an_unknown_credential_plugin_shows_the_install_hint(kubeconfig):
    kubeconfig(entry("lab", plugin("own-login", installHint="\nask the help desk\nat CERN")))
    with pytest.raises(CredentialsError, match=r"'own-login'.*PATH; ask the help desk$"):
        find_context("lab")


def test_a_credential_plugin_provides_the_token(kubeconfig, tmp_path):
    said = credential(token=TOKEN)
    kubeconfig(entry("lab", plugin(program(tmp_path, "login", f"echo '{said}'"))))
    client = connect("lab")
    assert TOKEN in str(client.configuration.api_key)
    assert TOKEN not in repr(client) + repr(client.configuration) + repr(find_context("lab"))


@pytest.mark.parametrize(
    "script", ["true", "exit 3", "echo no JSON", f"echo '{credential()}'", "echo '{}'"]
)
def test_a_credential_plugin_without_a_token_is_an_error(kubeconfig, tmp_path, script):
    kubeconfig(entry("lab", plugin(program(tmp_path, "login", script))))
    with pytest.raises(CredentialsError, match=r"login' of context 'lab' .* returned no token"):
        connect("lab")


def test_a_token_may_be_in_a_file(kubeconfig, tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN)
    kubeconfig(entry("lab", {"tokenFile": str(path)}))
    client = connect("lab")
    assert TOKEN in str(client.configuration.api_key)
    assert TOKEN not in repr(client)


def test_a_kubeconfig_that_the_client_rejects_is_an_error(kubeconfig):
    kubeconfig(
        entry("lab", {"client-certificate": "/nowhere/cert.pem", "client-key": "/nowhere/k"})
    )
    with pytest.raises(ConfigError, match=r"config-0: .*cert\.pem"):
        connect("lab")


@pytest.mark.parametrize(
    "server",
    [
        f"https://marie:{TOKEN}@lab.example:6443/",
        f"https://{TOKEN}@127.0.0.1:9",
        f"marie:{TOKEN}@lab.example",
        f"https://lab.example:6443/?token={TOKEN}",
        f"https://lab.example:6443/#{TOKEN}",
        f"https://lab.example/k8s@{TOKEN}",
    ],
)
def test_a_server_url_with_a_secret_is_refused_and_not_shown(kubeconfig, server):
    kubeconfig(entry("lab", server=server))
    for act in (find_context, connect):
        with pytest.raises(ConfigError, match=r"cluster 'lab' of .*login or a token") as refused:
            act("lab")
        assert TOKEN not in str(refused.value)


def test_the_password_of_a_proxy_is_not_shown(kubeconfig):
    config = entry("lab", server="https://lab.example:6443/")
    config["clusters"][0]["cluster"]["proxy-url"] = f"http://marie:{TOKEN}@127.0.0.1:9"
    kubeconfig(config)
    with pytest.raises(CloudganError) as unreachable:
        ClusterApi(connect("lab"), patience_seconds=0).get("/api/v1/nodes")
    assert TOKEN not in str(unreachable.value)


class Names(BaseHTTPRequestHandler):
    def do_GET(self):
        subject = dict(part[0] for part in self.connection.getpeercert()["subject"])
        content = f'{{"user": "{subject["commonName"]}"}}'.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def test_a_client_certificate_is_sent_and_no_file_of_it_remains(tmp_path, monkeypatch):
    files = write_certificates(tmp_path)
    context = files.context()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(files.authority)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Names)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    files_of_logins = tmp_path / "temporary"
    files_of_logins.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(files_of_logins))
    pem = [path.read_text() for path in (files.authority, files.certificate, files.key)]
    client = connect_by_certificate(f"https://127.0.0.1:{server.server_port}", *pem)
    assert list(Path(files_of_logins).iterdir()) == []
    assert ClusterApi(client).get("/api/v1/nodes") == {"user": "test authority"}
    client.close()
    pem[0] = authority(("unknown.example",)).certificate.decode()
    with pytest.raises(Exception, match=r"(?i)certificate"):
        ClusterApi(
            connect_by_certificate(f"https://127.0.0.1:{server.server_port}", *pem),
            patience_seconds=0,
        ).get("/api/v1/nodes")
    server.shutdown()
    server.server_close()
