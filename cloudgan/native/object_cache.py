"""Machine code kept between runs, so that only the first one compiles."""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING

from cloudgan.core.errors import DataError
from cloudgan.core.whole_file import write_whole

if TYPE_CHECKING:
    from pathlib import Path

MOST_FILES = 500
"""About 40 MB; a paper run needs 30."""
_DIGEST_BYTES = 32


class ObjectCache:
    """Files of a folder, each named by what decides its content and beginning with its digest."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> bytes | None:
        """Returns what was kept; None where nothing was, or where it is not whole."""
        path = self._folder / key
        with contextlib.suppress(OSError):
            content = path.read_bytes()
            digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
            if hashlib.sha256(code).digest() == digest:
                path.touch()  # the oldest go first
                return code
        return None

    def put(self, key: str, code: bytes) -> None:
        """Keeps `code`; a full disk or a folder that is read only keeps nothing."""
        with contextlib.suppress(DataError):
            write_whole(self._folder / key, hashlib.sha256(code).digest() + code)
            self._prune()

    def _prune(self) -> None:
        with contextlib.suppress(OSError):
            files = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime)
            for path in files[: max(0, len(files) - MOST_FILES)]:
                path.unlink(missing_ok=True)
