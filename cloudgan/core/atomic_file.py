"""Atomic file writes: readers see the old file or the new one, never a part of it."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from typing import TYPE_CHECKING, BinaryIO, Final

from cloudgan.core.errors import CloudganError, DataError, DiskFullError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEMPORARY_SUFFIX: Final = ".tmp"
DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers of a full disk, an exhausted quota, and a limit of the process on file sizes."""


@contextlib.contextmanager
def atomic_writer(
    path: Path,
    *,
    if_absent: bool = False,
    durable: bool = True,
    error_class: type[CloudganError] = DataError,
) -> Iterator[BinaryIO]:
    """Yields a temporary file beside `path` and renames it to `path` when the block succeeds.

    If the block raises or the process dies, `path` is unchanged. The temporary file has a unique
    name, so concurrent writers of one path do not interfere.

    Args:
        path: Target; missing parent folders are created.
        if_absent: Create the file only if it does not exist.
        durable: Flush to the disk (fsync) before the rename.
        error_class: Raised when the folder is not writable or the disk is full.

    Raises:
        DiskFullError: The disk is full, unless another `error_class` is given.
        FileExistsError: `if_absent`, and `path` exists.
    """
    temporary = path.with_name(
        f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}{TEMPORARY_SUFFIX}"
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        if if_absent:
            path.hardlink_to(temporary)  # a rename would replace an existing file
        else:
            temporary.replace(path)
    except OSError as error:
        exists = isinstance(error, FileExistsError)
        if exists and if_absent:
            raise
        reason = "a file is in place of a folder" if exists else error.strerror or error
        if error.errno in DISK_FULL and error_class is DataError:
            error_class = DiskFullError
        raise error_class(f"{path}: cannot be written ({reason})") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_atomic(path: Path, content: bytes) -> None:
    """Replaces a file atomically.

    Raises:
        DataError: The folder is not writable or the disk is full; the old file is unchanged.
    """
    with atomic_writer(path) as file:
        file.write(content)


def write_if_changed(path: Path, text: str) -> bool:
    """Writes a file unless it already holds `text`; returns whether it was written.

    Raises:
        DataError: The file cannot be written; the old file is unchanged.
    """
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    write_atomic(path, text.encode())
    return True
