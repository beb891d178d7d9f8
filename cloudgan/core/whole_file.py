"""A file that readers see as it was or as it is, never half of it."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from cloudgan.core.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file beside and renames it, so that readers see the old or the new one.

    Raises:
        DataError: The disk is full or forbids it; the old file is as it was.
    """
    beside = path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise DataError(f"{path}: cannot be written ({error.strerror})") from error


def write_other(path: Path, text: str) -> bool:
    """Writes a file unless it holds just this; whether it was written.

    Raises:
        DataError: It cannot be written; the old one is as it was.
    """
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    write_whole(path, text.encode())
    return True
