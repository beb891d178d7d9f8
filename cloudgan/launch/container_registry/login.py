"""Registry logins: saved by `docker login`, `podman login` or `skopeo login`, or the cloud's own."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from cloudgan.core import clouds, settings
from cloudgan.core.documents import parse_json, read_bytes, validated
from cloudgan.core.errors import ConfigError, CredentialsError, DataError

DOCKER_HUB = "docker.io"
_DOCKER_HUB_KEYS = ("https://index.docker.io/v1/", "index.docker.io", DOCKER_HUB)


class RegistryLogin(NamedTuple):
    """User and password of a registry; kept in memory only."""

    user: str
    password: str

    def header(self) -> str:
        """Returns the value of the header Authorization."""
        pair = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return f"Basic {pair}"


def registry_login(host: str) -> RegistryLogin | None:
    """Returns the login of a registry; None if there is none, which suffices for public images.

    A saved login takes precedence over the cloud's own.

    Args:
        host: As in image references, such as europe-docker.pkg.dev.

    Raises:
        CredentialsError: The cloud refuses the login, or its SDK is not installed.
    """
    saved, cloud = saved_login(host), clouds.of_registry(host)
    if saved or cloud is None:
        return saved
    try:
        login = clouds.load(cloud, clouds.find(cloud).registry_login)
    except ConfigError as error:
        raise CredentialsError(f"registry {host}: {error}") from error
    found: RegistryLogin | None = login(host)
    return found


def login_files() -> tuple[Path, ...]:
    """Returns the files of saved logins in the order of skopeo, podman and Docker."""
    named = settings.variable("REGISTRY_AUTH_FILE")
    runtime = settings.variable("XDG_RUNTIME_DIR")
    docker = settings.variable("DOCKER_CONFIG")
    found = [Path(named)] if named else []
    found += [Path(runtime) / "containers" / "auth.json"] if runtime else []
    return (
        *found,
        (Path(docker) if docker else settings.home_folder() / ".docker") / "config.json",
    )


class _LoginEntry(BaseModel):
    auth: str | None = None


class _LoginFile(BaseModel):
    auths: dict[str, _LoginEntry] | None = None


def saved_login(host: str, paths: Iterable[Path] | None = None) -> RegistryLogin | None:
    """Returns the saved login of a registry on this machine.

    Does not call credential helpers (`credsStore`).

    Args:
        host: Such as docker.io.
        paths: Files to read; None: `login_files`.
    """
    names = _DOCKER_HUB_KEYS if host == DOCKER_HUB else (host, f"https://{host}")
    for path in login_files() if paths is None else paths:
        try:
            known = validated(_LoginFile, parse_json(read_bytes(path), str(path)), str(path))
        except DataError:
            continue
        for name in names:
            found = _decoded((known.auths or {}).get(name))
            if found:
                return found
    return None


def _decoded(entry: _LoginEntry | None) -> RegistryLogin | None:
    try:
        text = base64.b64decode((entry and entry.auth) or "").decode()
    except ValueError:  # also of base64 and of UTF-8
        return None
    user, colon, password = text.partition(":")
    return RegistryLogin(user, password.rstrip("\0")) if colon and user else None
