"""Atomic file writes: readers see the old file or the new one, never a part of it."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from cloudgan.core.errors import CloudganError, DataError, DiskFullError

TEMPORARY_SUFFIX: Final = ".tmp"
DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers of a full disk, an exhausted quota, and a limit of the process on file sizes."""


_WRITING: set[Path] = set()
"""Temporary files and folders of this process."""


def remove_unfinished() -> None:
    """Removes the temporary files of this process, which ends now and leaves no block in order."""
    for path in tuple(_WRITING):
        shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def temporary_path(path: Path) -> Path:
    """Returns a unique name beside `path`, for a file or folder that is renamed to it when complete."""
    unique = f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}{TEMPORARY_SUFFIX}"
    return path.with_name(unique)


def unfinished(path: Path) -> list[Path]:
    """Returns the temporary files of killed writers of `path`, and of living ones: lock it first."""
    name = re.compile(rf"{re.escape(path.name)}\.\d+-[0-9a-f]{{8}}{re.escape(TEMPORARY_SUFFIX)}")
    return [found for found in path.parent.iterdir() if name.fullmatch(found.name)]


def write_error(
    path: Path, error: OSError, error_class: type[CloudganError] = DataError
) -> CloudganError:
    """Returns the error for a file that could not be written.

    A full disk is a run that failed, exit code 1: a `DiskFullError` where `error_class` means invalid
    input.
    """
    full = error.errno in DISK_FULL
    if full and error_class.exit_code != DiskFullError.exit_code:
        error_class = DiskFullError
    exists = isinstance(error, FileExistsError)
    reason = "a file is in place of a folder" if exists else error.strerror or error
    advice = "; free space, then run the command again" if full else ""
    return error_class(f"{path}: cannot be written ({reason}){advice}")


@contextlib.contextmanager
def atomic_writer(
    path: Path,
    *,
    if_absent: bool = False,
    durable: bool = True,
    mode: int = 0o666,
    error_class: type[CloudganError] = DataError,
) -> Iterator[BinaryIO]:
    """Yields a temporary file beside `path` and renames it to `path` when the block succeeds.

    If the block raises or the process dies, `path` is unchanged. The temporary file has a unique
    name, so concurrent writers of one path do not interfere.

    Args:
        path: Target; missing parent folders are created.
        if_absent: Create the file only if it does not exist.
        durable: Flush to the disk (fsync) before the rename.
        mode: Of the new file; the umask applies.
        error_class: Raised when the folder is not writable.

    Raises:
        DiskFullError: The disk is full, unless `error_class` has exit code 1 too.
        FileExistsError: `if_absent`, and `path` exists.
    """
    temporary = temporary_path(path)
    _WRITING.add(temporary)
    try:
        # A rename would replace /dev/null for every program.
        if path.exists() and not path.is_file():
            kind = "folder" if path.is_dir() else "device or pipe"
            raise error_class(f"{path}: cannot be written (a {kind} is in place of a file)")
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "x+b", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        if if_absent:
            path.hardlink_to(temporary)  # a rename would replace an existing file
        else:
            temporary.replace(path)
    except OSError as error:
        if if_absent and isinstance(error, FileExistsError):
            raise
        raise write_error(path, error, error_class) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        _WRITING.discard(temporary)


@contextlib.contextmanager
def atomic_folder(path: Path, *, error_class: type[CloudganError] = DataError) -> Iterator[Path]:
    """Yields a folder beside `path`, which becomes `path` when the block succeeds.

    If the block raises, `path` is unchanged and the folder is removed.

    Args:
        path: Target; missing parent folders are created, and an existing folder is replaced.
        error_class: Raised when a folder is not writable.

    Raises:
        DiskFullError: The disk is full, unless `error_class` has exit code 1 too.
    """
    beside = temporary_path(path)
    _WRITING.add(beside)
    try:
        beside.mkdir(parents=True)
        yield beside
        old = path.replace(temporary_path(path)) if path.exists() else None
        beside.replace(path)
        if old:
            shutil.rmtree(old)
    except OSError as error:
        raise write_error(path, error, error_class) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        _WRITING.discard(beside)


def write_atomic(path: Path, content: bytes) -> None:
    """Replaces a file atomically."""
    with atomic_writer(path) as file:
        file.write(content)


def write_if_changed(path: Path, text: str) -> bool:
    """Writes a file unless it already holds `text`; returns whether it was written."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    write_atomic(path, text.encode())
    return True
