"""Who one is to a registry: user and password, as `docker login` or `skopeo login` left them."""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.core import settings
from cloudgan.registries.reference import DOCKER_HUB

if TYPE_CHECKING:
    from collections.abc import Iterable

_DOCKER_HUB_KEYS = ("https://index.docker.io/v1/", "index.docker.io", DOCKER_HUB)


class Login(NamedTuple):
    """Is used at once and never written anywhere."""

    user: str
    password: str

    def header(self) -> str:
        """Returns the value of Authorization."""
        pair = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return f"Basic {pair}"


def files() -> tuple[Path, ...]:
    """Returns where logins may lie, those first that skopeo, podman and Docker look at first."""
    named = settings.variable("REGISTRY_AUTH_FILE")
    runtime = settings.variable("XDG_RUNTIME_DIR")
    docker = settings.variable("DOCKER_CONFIG")
    found = [Path(named)] if named else []
    found += [Path(runtime) / "containers" / "auth.json"] if runtime else []
    return (*found, (Path(docker) if docker else Path.home() / ".docker") / "config.json")


def saved_login(host: str, paths: Iterable[Path] | None = None) -> Login | None:
    """Returns the login of a registry that somebody made on this machine.

    Programs that Docker keeps logins in (`credsStore`) are not asked.

    Args:
        host: Of the registry, such as docker.io.
        paths: Files to look into; None: the usual ones.
    """
    names = _DOCKER_HUB_KEYS if host == DOCKER_HUB else (host, f"https://{host}")
    for path in files() if paths is None else paths:
        try:
            known = json.loads(path.read_bytes()).get("auths") or {}
        except (OSError, ValueError, AttributeError):
            continue
        for name in names:
            found = _decoded(known.get(name) or {})
            if found:
                return found
    return None


def _decoded(entry: dict[str, str]) -> Login | None:
    try:
        text = base64.b64decode(entry.get("auth", "")).decode()
    except (AttributeError, binascii.Error, UnicodeDecodeError, TypeError):
        return None
    user, colon, password = text.partition(":")
    return Login(user, password.rstrip("\0")) if colon and user else None
