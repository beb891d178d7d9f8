"""How long to wait between two looks at something that a cloud makes or removes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIRST: Final = 1 / 16


def pauses(poll_seconds: float) -> Iterator[float]:
    """Yields pauses without end: short ones first, for what is there in a moment, such as a bucket."""
    pause = poll_seconds * _FIRST
    while True:
        yield pause
        pause = min(2 * pause, poll_seconds)
