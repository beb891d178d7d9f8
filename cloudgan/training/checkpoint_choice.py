"""Chooses one checkpoint of a run: of a step, the best validated one, or the newest. No TensorFlow here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cloudgan.core.errors import DataError
from cloudgan.core.progress import Silent
from cloudgan.training.checkpoint import Checkpoints, read_checkpoint

if TYPE_CHECKING:
    from cloudgan.core.progress import Progress
    from cloudgan.schema.run_folder import RunFolder
    from cloudgan.training.checkpoint import Checkpoint


def find_checkpoint(
    folder: RunFolder, step: int | Literal["best"] | None, progress: Progress | None = None
) -> Checkpoint:
    """Reads the checkpoint of a step, the best validated one, or the newest that is not damaged.

    Args:
        folder: Of the run.
        step: Number of the step, "best", or None for the newest.
        progress: Shows the damaged ones that are newer.

    Raises:
        DataError: No such checkpoint, or it is damaged.
    """
    config = folder.read_config()
    checkpoints = Checkpoints(folder.checkpoints, url=config.checkpoint.url if config else "")
    if step not in (None, "best"):
        return _of_step(folder, checkpoints, int(step))
    newest, damaged = checkpoints.newest()
    for each in damaged:
        (progress or Silent()).say(f"checkpoint not used: {each.reason}")
    if newest is None:
        raise _missing(folder, checkpoints, "")
    if step is None:
        return newest
    if newest.state.best is None:
        raise DataError(
            f"{folder.path} has no best checkpoint: no epoch was validated. Resume it with"
            " --validate-every=1, or give the number of a step"
        )
    return _of_step(folder, checkpoints, newest.state.best.step)


def _of_step(folder: RunFolder, checkpoints: Checkpoints, step: int) -> Checkpoint:
    path = checkpoints.fetch(step)
    if not path.exists():
        raise _missing(folder, checkpoints, f" of step {step}")
    return read_checkpoint(path)


def _missing(folder: RunFolder, checkpoints: Checkpoints, which: str) -> DataError:
    have = ", ".join(map(str, checkpoints.steps())) or "none"
    return DataError(
        f"{folder.path} has no checkpoint{which}; available: {have}. Train first:"
        f" cloudgan train --run={folder.path} --data=FILE"
    )
