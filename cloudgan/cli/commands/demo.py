"""`cloudgan demo`: simulation, training, validation and cost on this machine."""

from __future__ import annotations

from cloudgan.api import demo as api
from cloudgan.core.command import body_of, command
from cloudgan.core.progress import Progress
from cloudgan.reports.result import Result
from cloudgan.schema.options.showers import DemoOptions


@command
def demo(options: DemoOptions, *, progress: Progress) -> Result:
    """Returns the verdict, the time and the cost."""
    return body_of(api.demo)(options, progress=progress).result()
