"""Saved registry logins of other programs."""

from __future__ import annotations

import base64
import json

from cloudgan.launch.container_registry.login import RegistryLogin, login_files, saved_login


def auths(**entries):
    return json.dumps({"auths": entries})


def entry(pair):
    return {"auth": base64.b64encode(pair.encode()).decode()}


def test_a_login_is_found_under_the_names_that_programs_use(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(
        auths(**{"ghcr.io": entry("marie:radium"), "https://index.docker.io/v1/": entry("a:b:c")})
    )
    assert saved_login("ghcr.io", [file]) == RegistryLogin("marie", "radium")
    assert saved_login("docker.io", [file]) == RegistryLogin("a", "b:c"), (
        "a password may have a colon"
    )
    assert saved_login("quay.io", [file]) is None


def test_an_invalid_entry_is_no_login(tmp_path):
    file = tmp_path / "config.json"
    for text in (
        "no JSON",
        "[]",
        '{"auths": null}',
        auths(**{"ghcr.io": {}}),
        auths(**{"ghcr.io": {"auth": "%%%"}}),
        auths(**{"ghcr.io": {"auth": base64.b64encode(b"alone").decode()}}),
    ):
        file.write_text(text)
        assert saved_login("ghcr.io", [file, tmp_path / "missing"]) is None


def test_the_files_are_those_of_podman_and_docker(tmp_path, monkeypatch):
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "named.json"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    assert login_files() == (
        tmp_path / "named.json",
        tmp_path / "run" / "containers" / "auth.json",
        tmp_path / "docker" / "config.json",
    )
    monkeypatch.delenv("REGISTRY_AUTH_FILE")
    monkeypatch.delenv("DOCKER_CONFIG")
    assert login_files()[-1].parts[-2:] == (".docker", "config.json")


def test_the_header_is_that_of_basic_authentication():
    assert RegistryLogin("marie", "radium").header() == "Basic bWFyaWU6cmFkaXVt"
