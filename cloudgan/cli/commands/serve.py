"""`cloudgan serve`: all runs of this folder as a local page."""

from __future__ import annotations

from cloudgan.cli.views.output import print_json
from cloudgan.core.command import command
from cloudgan.launch.operations.run_pages import RunServer
from cloudgan.schema.options.runs import ServeOptions


@command
def serve(options: ServeOptions, *, as_json: bool = False) -> None:
    """Serves until Ctrl-C, and prints the address."""
    with RunServer(options.port) as server:
        if as_json:
            print_json({"schema_version": 1, "url": server.url})
        else:
            print(server.url)
            print("all runs of this folder, for this machine only; Ctrl-C ends it", flush=True)
        server.wait()
