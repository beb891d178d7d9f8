"""Notes in the run's record that the cloud took a worker's machine away."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from cloudgan.core import record
from cloudgan.core.clock import utc_now
from cloudgan.core.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.worker.metadata import Notice


def note(path: Path, worker: int, notice: Notice) -> None:
    """Adds the line; the training process, which writes all others, has ended by now.

    A record that is not there, or cannot be read, gets none: it would be one of nothing.
    """
    try:
        lines = record.read(path).lines
    except DataError:
        return
    step = lines[-1].step if lines else 0
    told = {"worker": worker, "cloud": notice.cloud, "seconds": notice.seconds}
    line = record.Noticed(time=utc_now(), step=step, **told)
    with contextlib.suppress(OSError):
        record.append(path, line)
