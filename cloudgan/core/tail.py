"""Reads the lines that another process writes, or wrote before it ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

_POLL_SECONDS: Final = 0.2
_LAST_LINES: Final = 12


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


def last_lines(text: str) -> str:
    """Returns the end of a message about a process that failed: the last lines that it wrote, if any."""
    lines = text.splitlines()[-_LAST_LINES:]
    return "; its last lines:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""
