"""`cloudgan exec`: one command beside a worker of a run."""

from __future__ import annotations

import sys

from cloudgan.api.remote_commands import execute
from cloudgan.api.targets import THIS_FOLDER, RunLocator
from cloudgan.cli.options.launch_flags import run_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.options.signature import CommandWords
from cloudgan.cli.views.output import print_json, progress_bars


@with_flags(locator=run_flags)
def exec(  # noqa: A001  the name of the command
    name: str,
    command: CommandWords,
    *,
    worker: int = 0,
    json: bool = False,
    locator: RunLocator = THIS_FOLDER,
) -> None:
    """Runs a command beside a running worker and exits with its exit code.

    On Kubernetes in the worker's container, on Slurm on its node, locally in its folder; with the
    worker's environment variables and no standard input. No shell expands the words: use
    `sh -c '...'`. After Ctrl-C a command in a pod may continue.

    Args:
        name: Name of the run.
        command: Program and arguments.
        worker: Index of the worker.
        json: Print exit code and output as JSON when the command has ended.
        locator: Where the run is; from the shared flags.
    """
    kept: dict[bool, bytearray] = {False: bytearray(), True: bytearray()}

    def show(content: bytes, is_error: bool) -> None:
        if json:
            kept[is_error] += content
            return
        stream = (sys.stderr if is_error else sys.stdout).buffer
        stream.write(content)
        stream.flush()

    with progress_bars(as_json=True) as progress:
        found = execute(
            name, command, worker=worker, output=show, locator=locator, progress=progress
        )
    if json:
        texts = {
            "stdout": kept[False].decode(errors="replace"),
            "stderr": kept[True].decode(errors="replace"),
        }
        print_json(found._asdict() | texts)
    sys.exit(found.exit_code)
