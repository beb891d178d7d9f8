"""Store in a container of Azure Blob Storage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from azure.core import MatchConditions
from azure.core import exceptions as errors
from azure.identity import DefaultAzureCredential
from azure.storage.blob import BlobServiceClient

from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.core.settings import may_ask_metadata_server, variable
from cloudgan.storage.store import BucketAddress, ObjectMissingError, Store, StoreError, object_key

_EXAMPLE = "https://ACCOUNT.blob.core.windows.net/CONTAINER/prefix"
_DOMAIN = ".blob.core."
_LOGIN_HINT = (
    "run: az login, or set AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_KEY, or run where a managed"
    " identity is attached; it needs the role Storage Blob Data Contributor on the container"
)
_DENIED = (401, 403)
# ConditionNotMet, 412: the blob has another ETag, or is gone
# (https://learn.microsoft.com/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations,
# 2026-12-01).
_CONFLICT = {"BlobAlreadyExists", "ConditionNotMet"}


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


class AzureStore(Store):
    """Blobs of one container under one prefix."""

    owner, noun = "Azure", "container"
    login_hint = _LOGIN_HINT
    failures = (errors.AzureError,)

    def __init__(self, container: str, prefix: tuple[str, ...] = (), *, client: Any) -> None:
        super().__init__(container, prefix)
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

    def _upload(
        self, key: str, body: BinaryIO, metadata: dict[str, str], expected: str | None
    ) -> bool:
        blob = self._container.get_blob_client(key)
        options: dict[str, Any] = {}
        if expected:
            options = {"etag": expected, "match_condition": MatchConditions.IfNotModified}
        try:
            blob.upload_blob(body, overwrite=expected != "", metadata=metadata, **options)
        except (errors.ResourceExistsError, errors.ResourceModifiedError) as error:
            if getattr(error, "error_code", None) not in _CONFLICT:
                raise
            return False
        return True

    def _version(self, key: str) -> tuple[str, Mapping[str, str]]:
        found = self._container.get_blob_client(key).get_blob_properties()
        return found.etag, found.metadata or {}

    def _download(self, key: str, file: BinaryIO) -> None:
        self._container.get_blob_client(key).download_blob().readinto(file)

    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        for blob in self._container.list_blobs(name_starts_with=prefix):
            yield blob.name, blob.size or 0

    def _remove(self, key: str) -> None:
        self._container.get_blob_client(key).delete_blob()

    def _error(self, url: str, error: Exception) -> CloudganError:
        why = str(error).partition("\n")[0]
        if isinstance(error, errors.ClientAuthenticationError):
            return self._rejected(url, why)
        if not isinstance(error, errors.HttpResponseError):
            return StoreError(f"{url}: Blob Storage failed ({why})")
        if getattr(error, "error_code", None) == "ContainerNotFound":
            return self._no_bucket(url)
        if error.status_code == 404:  # noqa: PLR2004  HTTP's own number
            return ObjectMissingError(f"{url}: no such blob")
        if error.status_code in _DENIED:
            return self._rejected(url, why)
        return StoreError(f"{url}: {why}")
