"""Opens the store that a URL names; an SDK is imported only when its cloud is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import urlsplit

from cloudgan.core.errors import ConfigError, nearest
from cloudgan.stores.folder import FolderStore

if TYPE_CHECKING:
    from cloudgan.stores.store import Store


class _Backend(NamedTuple):
    module: str
    name: str
    extra: str
    example: str


_BACKENDS = {
    "gs": _Backend("cloudgan.stores.gcs", "GcsStore", "gcp", "gs://BUCKET/prefix"),
    "s3": _Backend("cloudgan.stores.s3", "S3Store", "aws", "s3://BUCKET/prefix"),
    "https": _Backend(
        "cloudgan.stores.azure",
        "AzureStore",
        "azure",
        "https://ACCOUNT.blob.core.windows.net/CONTAINER/prefix",
    ),
}


def open_store(url: str) -> Store:
    """Opens a store, without asking its server anything yet.

    Args:
        url: A folder, ``file:///folder``, ``gs://bucket/prefix``, ``s3://bucket/prefix`` or
            ``https://ACCOUNT.blob.core.windows.net/CONTAINER/prefix``.

    Raises:
        ConfigError: It is none of these, or the cloud's SDK is not installed.
        CredentialsError: No login for this cloud was found.
    """
    if not url:
        raise ConfigError(f"a store without a name; write {_known()}")
    scheme, colon, _ = url.partition("://")
    if not colon and not url.startswith("file:"):
        return FolderStore.from_url(url)
    scheme = urlsplit(url).scheme or scheme
    if scheme == "file":
        return FolderStore.from_url(url)
    if scheme not in _BACKENDS:
        hint = nearest(scheme, ("file", *_BACKENDS))
        raise ConfigError(f"unknown kind of store {scheme!r} in {url!r}.{hint} Known: {_known()}.")
    backend = _BACKENDS[scheme]
    try:
        module = importlib.import_module(backend.module)
    except ImportError as error:
        raise ConfigError(
            f"{url}: needs the SDK of this cloud, which is not installed ({error});"
            f" type: pip install 'cloudgan[{backend.extra}]'"
        ) from error
    return cast("Store", getattr(module, backend.name).from_url(url))


def _known() -> str:
    return ", ".join(("a folder", "file:///folder", *(b.example for b in _BACKENDS.values())))
