"""A store in a container of Azure Blob Storage."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING, Any

from azure.core import exceptions as found
from azure.identity import DefaultAzureCredential
from azure.storage.blob import BlobServiceClient

from cloudgan.core.errors import CloudganError, ConfigError, CredentialsError
from cloudgan.core.settings import variable
from cloudgan.stores.address import Address, key
from cloudgan.stores.content import opened
from cloudgan.stores.store import (
    BucketMissingError,
    ObjectExistsError,
    ObjectMissingError,
    StoreError,
    checked,
)
from cloudgan.stores.whole_file import whole_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_EXAMPLE = "https://ACCOUNT.blob.core.windows.net/CONTAINER/prefix"
_DOMAIN = ".blob.core."
_WRITE = "cloudganwrite"  # metadata that tells our own write from another's
_HOW = (
    "type: az login, or set AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_KEY, or run where a managed"
    " identity is attached; it needs the role Storage Blob Data Contributor on the container"
)
_DENIED = (401, 403)


def blob_client(account_url: str, credential: Any = None, *, attempts: int = 4) -> Any:
    """Makes a client with bounded patience: at most about a minute for one call.

    Args:
        account_url: Such as ``https://ACCOUNT.blob.core.windows.net``.
        credential: A key, a SAS token or a credential of azure-identity; without it
            AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_KEY, or whatever `DefaultAzureCredential` finds.
        attempts: How often a request is sent at most.
    """
    credential = (
        credential
        or variable("AZURE_STORAGE_SAS_TOKEN")
        or variable("AZURE_STORAGE_KEY")
        or DefaultAzureCredential()
    )
    return BlobServiceClient(
        account_url,
        credential=credential,
        retry_total=attempts - 1,
        initial_backoff=1,
        increment_base=2,
        connection_timeout=5,
        read_timeout=30,
    )


class AzureStore:
    """Blobs of one container under one prefix."""

    def __init__(self, container: str, prefix: tuple[str, ...] = (), *, client: Any) -> None:
        self._name, self._prefix = container, prefix
        self._container = client.get_container_client(container)

    @classmethod
    def from_url(cls, url: str) -> AzureStore:
        """Takes ``https://ACCOUNT.blob.core.windows.net/CONTAINER/prefix``.

        Raises:
            ConfigError: The URL is not of this form.
        """
        address = Address.of(url, _EXAMPLE)
        if _DOMAIN not in address.host or not address.path:
            raise ConfigError(f"store {url!r} names no container; write it like {_EXAMPLE}")
        client = blob_client(f"https://{address.host}")
        return cls(address.path[0], address.path[1:], client=client)

    @property
    def url(self) -> str:
        """``https://ACCOUNT.blob.core.windows.net/CONTAINER/prefix``."""
        account: str = self._container.url.partition("?")[0].rstrip("/")  # after it: a SAS token
        return key((account, *self._prefix), "").rstrip("/")

    def put(self, name: str, content: Path | bytes, *, if_absent: bool = False) -> None:
        """Uploads a blob, which appears when all of it is there; see `Store.put`."""
        mark = secrets.token_hex(8)
        with self._told(name), opened(content) as body:
            blob = self._blob(name)
            try:
                blob.upload_blob(body, overwrite=not if_absent, metadata={_WRITE: mark})
            except found.ResourceExistsError as error:
                if getattr(error, "error_code", None) != "BlobAlreadyExists":
                    raise
                # A retry after a lost answer finds the blob that the first try created.
                if blob.get_blob_properties().metadata.get(_WRITE) != mark:
                    raise ObjectExistsError(f"{self.url}/{name}: exists already") from error

    def get(self, name: str, path: Path) -> None:
        """Downloads a blob beside `path` and renames it; see `Store.get`."""
        with self._told(name), whole_file(path) as file:
            self._blob(name).download_blob().readinto(file)

    def read(self, name: str) -> bytes:
        """Downloads a blob; see `Store.read`."""
        with self._told(name):
            content: bytes = self._blob(name).download_blob().readall()
        return content

    def list(self, prefix: str = "") -> tuple[str, ...]:
        """Lists the container under the prefix, page by page; see `Store.list`."""
        start = key(self._prefix, "")
        with self._told(prefix):
            names = self._container.list_blob_names(name_starts_with=start + prefix)
            return tuple(sorted(name.removeprefix(start) for name in names))

    def size_bytes(self, prefix: str = "") -> int:
        """Adds up what a listing tells; see `Store.size_bytes`."""
        start = key(self._prefix, "")
        with self._told(prefix):
            blobs = self._container.list_blobs(name_starts_with=start + prefix)
            return sum(blob.size or 0 for blob in blobs)

    def delete(self, name: str) -> None:
        """Deletes a blob; see `Store.delete`."""
        with self._told(name), contextlib.suppress(ObjectMissingError), self._told(name):
            self._blob(name).delete_blob()

    def _blob(self, name: str) -> Any:
        return self._container.get_blob_client(key(self._prefix, checked(name)))

    @contextlib.contextmanager
    def _told(self, name: str) -> Iterator[None]:
        where = f"{self.url}/{name}"
        try:
            yield
        except CloudganError:
            raise
        except found.ClientAuthenticationError as error:
            raise CredentialsError(
                f"{where}: Azure refused this login ({_first_line(error)}); {_HOW}"
            ) from error
        except found.HttpResponseError as error:
            raise self._translated(where, error) from error
        except found.AzureError as error:
            raise StoreError(
                f"{where}: Blob Storage did not answer as it should ({_first_line(error)})"
            ) from error

    def _translated(self, where: str, error: found.HttpResponseError) -> CloudganError:
        code = getattr(error, "error_code", None)
        if code == "ContainerNotFound":
            return BucketMissingError(
                f"{where}: there is no container {self._name!r}; create it or correct it"
            )
        if error.status_code == 404:  # noqa: PLR2004  HTTP's own number
            return ObjectMissingError(f"{where}: no such blob")
        if error.status_code in _DENIED:
            return CredentialsError(
                f"{where}: Azure refused this login ({_first_line(error)}); {_HOW}"
            )
        return StoreError(f"{where}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
