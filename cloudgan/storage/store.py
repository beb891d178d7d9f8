"""`Store`, what stores of all kinds share, its errors, and `open_store`, which opens the store that a URL names."""

from __future__ import annotations

import contextlib
import importlib
import io
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, ClassVar, Final, NamedTuple, cast
from urllib.parse import SplitResult, unquote, urlsplit

from cloudgan.core import clouds, settings
from cloudgan.core.atomic_file import TEMPORARY_SUFFIX, atomic_writer
from cloudgan.core.errors import CloudganError, ConfigError, CredentialsError, TryAgain, nearest
from cloudgan.core.user_text import check_text

_WRITE: Final = "cloudganwrite"
"""Metadata key that identifies our own write."""
_INVALID: Final = "{!r} is no valid object name; use one such as folder/file.npz"


class StoreError(CloudganError):
    """A store operation failed; the message names store, object and reason.

    It ends a process that an agent or a block watches with the exit code of `TryAgain`.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        if settings.is_watched():
            self.exit_code = TryAgain.exit_code


STORE_FAILED = "the store failed"
"""Begins the last line of a pod that gave up on its store: the launcher counts them."""


class StoreCredentialsError(CredentialsError, StoreError):
    """The store's login is missing, refused or not ready.

    To a person it says how to log in. A pod treats it as any failure of the store: its identity may take
    minutes to be ready, and may fail for minutes later.
    """


class BucketMissingError(ConfigError):
    """The bucket or container does not exist."""


class ObjectMissingError(StoreError):
    """The object does not exist."""


class ObjectExistsError(StoreError):
    """The object was to be created and exists already, or has another version than the one to be replaced."""


class Store(ABC):
    """Objects with names such as ``checkpoints/step-000000100.npz``, relative to `url`.

    All methods raise `BucketMissingError` for a missing bucket, `StoreCredentialsError` for missing or
    insufficient credentials, and `StoreError` for other failures. They retry transient failures for
    about a minute at most. Each kind of store adds its requests, which get the keys in the bucket, and what
    its errors mean.
    """

    owner: ClassVar[str] = ""
    """Whose credentials it takes, in messages."""
    noun: ClassVar[str] = "bucket"
    login_hint: ClassVar[str] = ""
    failures: ClassVar[tuple[type[Exception], ...]] = ()
    """What its SDK raises, for `_error`."""

    def __init__(self, bucket: str = "", prefix: tuple[str, ...] = ()) -> None:
        self._name, self._prefix = bucket, prefix

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL, as `open_store` accepts it."""

    def put(
        self,
        name: str,
        content: Path | bytes,
        *,
        if_absent: bool = False,
        if_version: str | None = None,
    ) -> None:
        """Writes an object atomically: readers see the old object or the new one.

        Args:
            name: Name of the object.
            content: Path of a file, or the bytes.
            if_absent: Create the object; exactly one of several concurrent writers succeeds.
            if_version: Replace this version, as `version` returned it; empty: like `if_absent`.

        Raises:
            ObjectExistsError: The condition does not hold; the object is unchanged.
        """
        expected = "" if if_absent else if_version
        mark = secrets.token_hex(8)
        with self._translate_errors(name), _open_content(content) as body:
            key = self._key(name)
            is_new = self._upload(key, body, {_WRITE: mark}, expected)
            # A retry after a lost response finds the object of the first try.
            if not is_new and self._head(name)[1].get(_WRITE) != mark:
                problem = "was changed since it was read" if expected else "already exists"
                raise ObjectExistsError(f"{self.url}/{name}: {problem}")

    def get(self, name: str, path: Path) -> None:
        """Downloads an object to a file, which is replaced only when the download is complete.

        Raises:
            ObjectMissingError: The object does not exist.
        """
        with self._translate_errors(name), atomic_writer(path, error_class=StoreError) as file:
            self._download(self._key(name), file)

    def read(self, name: str) -> bytes:
        """Returns the content of a small object.

        Raises:
            ObjectMissingError: The object does not exist.
        """
        content = io.BytesIO()
        with self._translate_errors(name):
            self._download(self._key(name), content)
        return content.getvalue()

    def version(self, name: str) -> str:
        """Returns the version of an object, for `put`; empty: it does not exist. Ask before you read the content."""
        return self._head(name)[0]

    def list(self, prefix: str = "") -> tuple[str, ...]:
        """Returns all names that start with `prefix`, sorted."""
        start = object_key(self._prefix, "")
        with self._translate_errors(prefix):
            return tuple(sorted(key.removeprefix(start) for key, _ in self._list(start + prefix)))

    def size_bytes(self, prefix: str = "") -> int:
        """Returns the total size of the objects whose names start with `prefix`."""
        with self._translate_errors(prefix):
            return sum(size for _, size in self._list(object_key(self._prefix, prefix)))

    def delete(self, name: str) -> None:
        """Deletes an object or a folder object, whose name ends in a slash; it may be missing."""
        if not is_addressable(name.removesuffix("/")):
            raise ValueError(_INVALID.format(name))
        with contextlib.suppress(ObjectMissingError), self._translate_errors(name):
            self._remove(object_key(self._prefix, name))

    @abstractmethod
    def _upload(
        self, key: str, body: BinaryIO, metadata: dict[str, str], expected: str | None
    ) -> bool:
        """Writes an object; False: it has not the expected version (empty: it is to be created)."""

    @abstractmethod
    def _version(self, key: str) -> tuple[str, Mapping[str, str]]:
        """Returns the version of an object, and its metadata."""

    @abstractmethod
    def _download(self, key: str, file: BinaryIO) -> None:
        """Writes the content of an object to an empty file."""

    @abstractmethod
    def _list(self, prefix: str) -> Iterable[tuple[str, int]]:
        """Yields key and size of each object whose key starts with `prefix`."""

    @abstractmethod
    def _remove(self, key: str) -> None:
        """Deletes an object."""

    def _error(self, url: str, error: Exception) -> CloudganError:
        """Returns the error of an object for one of `failures`."""
        return StoreError(f"{url}: {error}")

    def _head(self, name: str) -> tuple[str, Mapping[str, str]]:
        """Returns version and metadata of an object; empty: it does not exist."""
        with contextlib.suppress(ObjectMissingError), self._translate_errors(name):
            return self._version(self._key(name))
        return "", {}

    def _key(self, name: str) -> str:
        return object_key(self._prefix, check_object_name(name))

    def _no_bucket(self, url: str) -> BucketMissingError:
        return BucketMissingError(
            f"{url}: no {self.noun} {self._name!r}; create it or correct the URL"
        )

    def _rejected(self, url: str, why: object) -> StoreCredentialsError:
        return StoreCredentialsError(
            f"{url}: {self.owner} rejected these credentials ({why}); {self.login_hint}"
        )

    @contextlib.contextmanager
    def _translate_errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except CloudganError:  # some are OSErrors too
            raise
        except self.failures as error:
            raise self._error(f"{self.url}/{name}", error) from error


def open_store(url: str) -> Store:
    """Opens a store without sending a request.

    Args:
        url: A folder, ``file:///folder``, ``gs://bucket/prefix``, ``s3://bucket/prefix`` or
            ``https://ACCOUNT.blob.core.windows.net/CONTAINER/prefix``.
    """
    if not url:
        raise ConfigError(f"the store URL is empty; valid: {_valid()}")
    check_text("the store URL", url)
    scheme = split_url(url).scheme if "://" in url or url.startswith("file:") else "file"
    scheme = scheme or url.partition("://")[0]
    if scheme == "file":
        folder = importlib.import_module("cloudgan.storage.folder")
        return cast("Store", folder.FolderStore.from_url(url))
    cloud = _cloud_of(url, scheme)
    try:
        store = clouds.load(cloud, clouds.find(cloud).store)
    except ConfigError as error:
        raise ConfigError(f"{url}: {error}") from error
    return cast("Store", store.from_url(url))


def check_bucket(url: str) -> None:
    """Checks that a URL names a bucket of a cloud; imports no SDK."""
    cloud = clouds.find(_cloud_of(url, url.partition("://")[0]))
    BucketAddress.parse(url, cloud.bucket_example)


def _cloud_of(url: str, scheme: str) -> str:
    """Returns the cloud of a bucket."""
    cloud = clouds.of_bucket(f"{scheme}://")
    if cloud is None:
        hint = nearest(scheme, ("file", *(row.bucket_scheme for row in clouds.CLOUDS.values())))
        raise ConfigError(f"unknown store type {scheme!r} in {url!r}.{hint} Valid: {_valid()}.")
    return cloud


def split_url(url: str) -> SplitResult:
    """Splits the URL of a store."""
    try:
        return urlsplit(url)
    except ValueError as error:
        raise ConfigError(f"store {url!r} is not a URL ({error}); valid: {_valid()}") from error


def _valid() -> str:
    buckets = (row.bucket_example for row in clouds.CLOUDS.values())
    return ", ".join(("a folder", "file:///folder", *buckets))


class BucketAddress(NamedTuple):
    """A prefix in a bucket.

    Attributes:
        host: The URL's authority: the bucket, or the host of an Azure account.
        path: The non-empty parts of the path.
    """

    host: str
    path: tuple[str, ...]

    @classmethod
    def parse(cls, url: str, example: str) -> BucketAddress:
        """Parses a URL; `example` is shown in errors."""
        parts = split_url(url)
        if not parts.hostname:
            raise ConfigError(f"store {url!r} names no bucket; write it like {example}")
        if "@" in parts.netloc or parts.query or parts.fragment:
            shown = f"{parts.scheme}://{parts.hostname}{parts.path}"
            raise ConfigError(
                f"store {shown!r} contains credentials, a ? or a #; remove them: credentials are"
                f" read from the environment. Write it like {example}"
            )
        path = tuple(part for part in unquote(parts.path).split("/") if part)
        if ".." in path:
            raise ConfigError(f"store {url!r} has '..' in its path; write it like {example}")
        return cls(parts.netloc, path)


def object_key(prefix: tuple[str, ...], name: str) -> str:
    """Returns the key in the bucket of the object `name` in a store under `prefix`."""
    return "/".join((*prefix, name))


def is_addressable(name: str) -> bool:
    """Whether a request for an object of this name reaches this object in every kind of store.

    A client may normalise ``runs/a/../b`` to another object's name before it sends the request.
    """
    parts = name.split("/")
    return not (set(parts) & {"", ".", ".."} or not name.isprintable() or "\\" in name)


def delete_objects(store: Store, names: Iterable[str]) -> tuple[str, ...]:
    """Deletes listed objects, including the folder objects that a cloud's console creates.

    Returns:
        The names that cannot be deleted safely, such as ``runs/a/../b``; they are unchanged.
    """
    left = []
    for name in names:
        if is_addressable(name.removesuffix("/")):
            store.delete(name)
        else:
            left.append(name)
    return tuple(left)


def undeletable(names: tuple[str, ...]) -> str:
    """Returns the sentence about the names that `delete_objects` returned."""
    return (
        f"{len(names)} objects remain, such as {names[0]!r}: a request for this name might reach"
        " another object. Delete them in the cloud's console"
    )


def check_object_name(name: str) -> str:
    """Returns `name` if every kind of store accepts it.

    Raises:
        ValueError: The name is empty, absolute, contains ``..``, or has a temporary file's suffix.
    """
    if not is_addressable(name):
        raise ValueError(_INVALID.format(name))
    if name.endswith(TEMPORARY_SUFFIX):
        raise ValueError(f"{name!r} ends in {TEMPORARY_SUFFIX}, the suffix of temporary files")
    return name


@contextlib.contextmanager
def _open_content(content: Path | bytes) -> Iterator[BinaryIO]:
    """Yields the content as a seekable binary stream.

    Raises:
        StoreError: The file is missing or cannot be read.
    """
    if isinstance(content, bytes):
        yield io.BytesIO(content)
        return
    try:
        file = content.open("rb")
    except OSError as error:
        raise StoreError(f"{content}: cannot be read for upload ({error.strerror})") from error
    with file:
        yield file


def retry_on_store_error(
    function: Callable[[], None],
    *,
    patience_seconds: float,
    pause_seconds: float,
    say: Callable[[str], None],
) -> Callable[[], None]:
    """Returns `function` with retries while the store fails.

    The result raises TryAgain after `patience_seconds` of failures.
    """

    def try_again() -> None:
        started, is_reported = time.monotonic(), False
        while True:
            try:
                function()
            except StoreError as error:
                if time.monotonic() - started > patience_seconds:
                    raise TryAgain(
                        f"{STORE_FAILED} for {patience_seconds:.0f} s: {error}"
                    ) from error
                if not is_reported:
                    say(f"{error}; retrying every {pause_seconds:.0f} s")
                is_reported = True
                time.sleep(pause_seconds)
            else:
                return

    return try_again
