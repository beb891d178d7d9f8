"""What is to be stored, a file or bytes, as one open stream."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING, BinaryIO

from cloudgan.stores.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def opened(content: Path | bytes) -> Iterator[BinaryIO]:
    """Gives the content as a stream that can be read again from its beginning.

    Raises:
        StoreError: The file is missing or cannot be read.
    """
    if isinstance(content, bytes):
        yield io.BytesIO(content)
        return
    try:
        file = content.open("rb")
    except OSError as error:
        raise StoreError(f"{content}: cannot be read to be stored ({error.strerror})") from error
    with file:
        yield file
