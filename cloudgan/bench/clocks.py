"""Wall and CPU time of work in this process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def timed(work: Callable[[], None], count: int) -> dict[str, float]:
    """Returns wall seconds and CPU seconds of all threads, for one of `count` pieces of work."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"seconds": wall / count, "cpu_seconds": cpu / count}
