"""A file that is whole or absent: written beside its place, then renamed into it."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING, BinaryIO

from cloudgan.stores.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UNFINISHED = ".tmp"


@contextlib.contextmanager
def whole_file(path: Path, *, if_absent: bool = False) -> Iterator[BinaryIO]:
    """Gives a file to write to that takes the place of `path` when the block ends well.

    If the block raises, or the process dies, `path` is as it was. The file beside has a name of
    its own, so that two writers of one `path` don't write into each other's.

    Raises:
        FileExistsError: `if_absent`, and `path` exists.
        StoreError: The folder forbids it or the disk is full.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}{UNFINISHED}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if if_absent:
            path.hardlink_to(beside)  # unlike a rename, this fails where there is a file
        else:
            beside.replace(path)
    except FileExistsError:
        if if_absent:
            raise
        raise StoreError(
            f"{path}: cannot be written (a file is where a folder should be)"
        ) from None
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror or error})") from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
