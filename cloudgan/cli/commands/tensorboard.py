"""`cloudgan tensorboard`: losses and metrics of a run in TensorBoard."""

from __future__ import annotations

from cloudgan.api import tensorboard as boards
from cloudgan.cli.views.output import print_json, progress_bars
from cloudgan.core.command import command
from cloudgan.schema.options.runs import TensorboardOptions


@command
def tensorboard(options: TensorboardOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    with (
        progress_bars(as_json=True) as progress,
        boards.tensorboard(
            options.run, port=options.port, locator=options.locator, progress=progress
        ) as board,
    ):
        if as_json:
            print_json({"run": options.run, "url": board.url})
        else:
            print(f"TensorBoard of {options.run}: {board.url} (Ctrl-C ends it)", flush=True)
        board.follow()
