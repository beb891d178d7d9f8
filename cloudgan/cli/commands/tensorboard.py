"""`cloudgan tensorboard`: losses and metrics of a run in TensorBoard."""

from __future__ import annotations

from cloudgan.api import tensorboard as boards
from cloudgan.api.targets import THIS_FOLDER, RunLocator
from cloudgan.cli.options.launch_flags import run_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.views.output import print_json, progress_bars


@with_flags(locator=run_flags)
def tensorboard(
    name: str, *, port: int = 6006, json: bool = False, locator: RunLocator = THIS_FOLDER
) -> None:
    """Shows the record of a run in TensorBoard on this machine, until Ctrl-C.

    Reads the record from the store of the run every 30 s; the pods need no open port. The epochs have
    the tags of `train --tensorboard`.

    Args:
        name: Name of the run.
        port: Port on this machine.
        json: Print the address as JSON.
        locator: Where the run is; from the shared flags.
    """
    with (
        progress_bars(as_json=True) as progress,
        boards.tensorboard(name, port=port, locator=locator, progress=progress) as board,
    ):
        if json:
            print_json({"run": name, "url": board.url})
        else:
            print(f"TensorBoard of {name}: {board.url} (Ctrl-C ends it)", flush=True)
        board.follow()
