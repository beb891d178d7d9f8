"""Store in a container of Azure Blob Storage."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from azure.core import exceptions as errors
from azure.identity import DefaultAzureCredential
from azure.storage.blob import BlobServiceClient

from cloudgan.core.atomic_file import atomic_writer
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.core.settings import may_ask_metadata_server, variable
from cloudgan.storage.store import (
    BucketAddress,
    BucketMissingError,
    ObjectExistsError,
    ObjectMissingError,
    StoreCredentialsError,
    StoreError,
    check_object_name,
    deletable_name,
    object_key,
    open_content,
)

_EXAMPLE = "https://ACCOUNT.blob.core.windows.net/CONTAINER/prefix"
_DOMAIN = ".blob.core."
_WRITE = "cloudganwrite"  # metadata key that identifies our own write
_LOGIN_HINT = (
    "run: az login, or set AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_KEY, or run where a managed"
    " identity is attached; it needs the role Storage Blob Data Contributor on the container"
)
_DENIED = (401, 403)


def find_login() -> Any:
    """Returns the login that azure-identity finds; managed identities only where one may answer."""
    away = not may_ask_metadata_server()
    return DefaultAzureCredential(exclude_managed_identity_credential=away)


def blob_client(account_url: str, credential: Any = None, *, attempts: int = 4) -> Any:
    """Returns a client that retries one call for at most about a minute.

    Args:
        account_url: Such as ``https://ACCOUNT.blob.core.windows.net``.
        credential: Key, SAS token or azure-identity credential; default: AZURE_STORAGE_SAS_TOKEN,
            AZURE_STORAGE_KEY, else that of `find_login`.
        attempts: Maximum number of requests.
    """
    credential = (
        credential
        or variable("AZURE_STORAGE_SAS_TOKEN")
        or variable("AZURE_STORAGE_KEY")
        or find_login()
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
        """Opens ``https://ACCOUNT.blob.core.windows.net/CONTAINER/prefix``."""
        address = BucketAddress.parse(url, _EXAMPLE)
        if _DOMAIN not in address.host or not address.path:
            raise ConfigError(f"store {url!r} names no container; write it like {_EXAMPLE}")
        client = blob_client(f"https://{address.host}")
        return cls(address.path[0], address.path[1:], client=client)

    @property
    def url(self) -> str:
        """``https://ACCOUNT.blob.core.windows.net/CONTAINER/prefix``."""
        account: str = self._container.url.partition("?")[0].rstrip("/")  # after it: a SAS token
        return object_key((account, *self._prefix), "").rstrip("/")

    def put(self, name: str, content: Path | bytes, *, if_absent: bool = False) -> None:
        """Uploads a blob; see `Store.put`."""
        mark = secrets.token_hex(8)
        with self._translate_errors(name), open_content(content) as body:
            blob = self._blob(name)
            try:
                blob.upload_blob(body, overwrite=not if_absent, metadata={_WRITE: mark})
            except errors.ResourceExistsError as error:
                if getattr(error, "error_code", None) != "BlobAlreadyExists":
                    raise
                # A retry after a lost response finds the blob of the first try.
                if blob.get_blob_properties().metadata.get(_WRITE) != mark:
                    raise ObjectExistsError(f"{self.url}/{name}: already exists") from error

    def get(self, name: str, path: Path) -> None:
        """Downloads a blob to `path` atomically; see `Store.get`."""
        with self._translate_errors(name), atomic_writer(path, error_class=StoreError) as file:
            self._blob(name).download_blob().readinto(file)

    def read(self, name: str) -> bytes:
        """Downloads a blob; see `Store.read`."""
        with self._translate_errors(name):
            content: bytes = self._blob(name).download_blob().readall()
        return content

    def list(self, prefix: str = "") -> tuple[str, ...]:
        """Lists the container under the prefix; see `Store.list`."""
        start = object_key(self._prefix, "")
        with self._translate_errors(prefix):
            names = self._container.list_blob_names(name_starts_with=start + prefix)
            return tuple(sorted(name.removeprefix(start) for name in names))

    def size_bytes(self, prefix: str = "") -> int:
        """Sums the sizes in a listing; see `Store.size_bytes`."""
        start = object_key(self._prefix, "")
        with self._translate_errors(prefix):
            blobs = self._container.list_blobs(name_starts_with=start + prefix)
            return sum(blob.size or 0 for blob in blobs)

    def delete(self, name: str) -> None:
        """Deletes a blob; see `Store.delete`."""
        with (
            self._translate_errors(name),
            contextlib.suppress(ObjectMissingError),
            self._translate_errors(name),
        ):
            key = object_key(self._prefix, deletable_name(name))
            self._container.get_blob_client(key).delete_blob()

    def _blob(self, name: str) -> Any:
        return self._container.get_blob_client(object_key(self._prefix, check_object_name(name)))

    @contextlib.contextmanager
    def _translate_errors(self, name: str) -> Iterator[None]:
        url = f"{self.url}/{name}"
        try:
            yield
        except CloudganError:
            raise
        except errors.ClientAuthenticationError as error:
            raise StoreCredentialsError(
                f"{url}: Azure rejected these credentials ({_first_line(error)}); {_LOGIN_HINT}"
            ) from error
        except errors.HttpResponseError as error:
            raise self._error(url, error) from error
        except errors.AzureError as error:
            raise StoreError(f"{url}: Blob Storage failed ({_first_line(error)})") from error

    def _error(self, url: str, error: errors.HttpResponseError) -> CloudganError:
        code = getattr(error, "error_code", None)
        if code == "ContainerNotFound":
            return BucketMissingError(
                f"{url}: no container {self._name!r}; create it or correct the URL"
            )
        if error.status_code == 404:  # noqa: PLR2004  HTTP's own number
            return ObjectMissingError(f"{url}: no such blob")
        if error.status_code in _DENIED:
            return StoreCredentialsError(
                f"{url}: Azure rejected these credentials ({_first_line(error)}); {_LOGIN_HINT}"
            )
        return StoreError(f"{url}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
