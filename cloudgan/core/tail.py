"""Reads the lines of a file that another process may still be writing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

_POLL_SECONDS: Final = 0.2


def tail_lines(path: Path, is_over: Callable[[], bool] | None = None) -> Iterator[str]:
    """Yields the lines of a file, including an unterminated last line.

    Args:
        path: The file.
        is_over: Returns whether the writer has finished; None reads the present content only.
    """
    with path.open("rb") as file:
        rest = b""
        while True:
            over = is_over is None or is_over()  # before the read, so that no last line is lost
            *lines, rest = (rest + file.read()).split(b"\n")
            for line in lines:
                yield line.decode(errors="replace")
            if over:
                break
            time.sleep(_POLL_SECONDS)
    if rest:
        yield rest.decode(errors="replace")
