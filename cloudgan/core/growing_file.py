"""Reads a file that another process still writes, line by line."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_POLL_SECONDS: Final = 0.2


def lines_of(path: Path, is_over: Callable[[], bool] | None = None) -> Iterator[str]:
    """Yields the lines of a file, the last one too where it lacks its end.

    Args:
        path: The file.
        is_over: Asked whether more will come; None: what is there is all.
    """
    with path.open("rb") as file:
        rest = b""
        while True:
            over = is_over is None or is_over()  # asked first: what was written before it is read
            *whole, rest = (rest + file.read()).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace")
            if over:
                break
            time.sleep(_POLL_SECONDS)
    if rest:
        yield rest.decode(errors="replace")
