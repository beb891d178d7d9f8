"""`cloudgan shell`: a shell beside a worker of a run."""

from __future__ import annotations

import sys

from cloudgan.api.remote_commands import open_shell
from cloudgan.core.command import command
from cloudgan.schema.options.runs import ShellOptions


@command
def shell(options: ShellOptions) -> None:
    """Runs the command."""
    found = open_shell(options.run, worker=options.worker, locator=options.locator)
    sys.exit(found.exit_code)
