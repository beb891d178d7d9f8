"""Who one is to the registry of an image: as its cloud says, else as somebody logged in here."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING

from cloudgan.core.errors import CredentialsError
from cloudgan.registries.login import saved_login

if TYPE_CHECKING:
    from cloudgan.registries.login import Login

_HOSTS = {
    "gcp": r"gcr\.io|[a-z]+\.gcr\.io|[a-z0-9-]+-docker\.pkg\.dev",
    "aws": r"\d{12}\.dkr\.ecr(-fips)?\.[a-z0-9-]+\.amazonaws\.com(\.cn)?",
    "azure": r"[a-z0-9]{5,50}\.azurecr\.(io|cn|us)",
}


def cloud_of(host: str) -> str | None:
    """Returns whose private registry a host is; None: no cloud's that we know."""
    return next((cloud for cloud, text in _HOSTS.items() if re.fullmatch(text, host)), None)


def registry_login(host: str) -> Login | None:
    """Returns the login of a registry; None: there is none, which is enough for what is public.

    What `docker login` or `skopeo login` left goes first, since somebody meant it.

    Args:
        host: As images name it, such as europe-docker.pkg.dev.

    Raises:
        CredentialsError: The registry is a cloud's that lets us not in, or whose SDK is not here.
    """
    saved, cloud = saved_login(host), cloud_of(host)
    if saved or cloud is None:
        return saved
    try:
        module = importlib.import_module(f"cloudgan.providers.{cloud}.registry_login")
    except ImportError as error:
        raise CredentialsError(
            f"the login of {host} needs this cloud's SDK, which is not installed ({error}); type:"
            f" pip install 'cloudgan[{cloud}]'"
        ) from error
    found: Login = module.login(host)
    return found
