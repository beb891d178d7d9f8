"""`cloudgan shell`: a shell beside a worker of a run."""

from __future__ import annotations

import sys

from cloudgan.api.remote_commands import open_shell
from cloudgan.api.targets import THIS_FOLDER, RunLocator
from cloudgan.cli.options.launch_flags import run_flags
from cloudgan.cli.options.shared_flags import with_flags


@with_flags(locator=run_flags)
def shell(name: str, *, worker: int = 0, locator: RunLocator = THIS_FOLDER) -> None:
    """Connects this terminal with a shell beside a running worker; exits with its exit code.

    Ctrl-C and Ctrl-D go to the shell; the run continues when it ends.

    Args:
        name: Name of the run.
        worker: Index of the worker.
        locator: Where the run is; from the shared flags.
    """
    found = open_shell(name, worker=worker, locator=locator)
    sys.exit(found.exit_code)
