"""`cloudgan exec`: one command beside a worker of a run."""

from __future__ import annotations

import sys

from cloudgan.api.remote_commands import execute
from cloudgan.cli.views.output import print_json, progress_bars
from cloudgan.core.command import command
from cloudgan.schema.options.runs import ExecOptions


@command
def exec_(options: ExecOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    kept: dict[bool, bytearray] = {False: bytearray(), True: bytearray()}

    def show(content: bytes, is_error: bool) -> None:
        if as_json:
            kept[is_error] += content
            return
        stream = (sys.stderr if is_error else sys.stdout).buffer
        stream.write(content)
        stream.flush()

    with progress_bars(as_json=True) as progress:
        found = execute(
            options.run,
            options.command,
            worker=options.worker,
            output=show,
            locator=options.locator,
            progress=progress,
        )
    if as_json:
        texts = {
            "stdout": kept[False].decode(errors="replace"),
            "stderr": kept[True].decode(errors="replace"),
        }
        print_json(found._asdict() | texts)
    sys.exit(found.exit_code)
