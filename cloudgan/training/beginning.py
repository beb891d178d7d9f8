"""What a run begins with where it is to go on with the networks of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.run_folder import RunFolder
from cloudgan.training.checkpoint import Checkpoints, read_state

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.core.config import RunConfig

SAME = (
    "networks",
    "image_shape",
    "latent_size",
    "noise_channels",
    "condition",
    "optimizer",
    "image_scale",
    "image_power",
    "energy_scaled_output",
    "calibrated_output",
    "output_activation",
)
"""What a preset must share with that of the other run; losses and rates may differ."""


def find_beginning(config: RunConfig) -> Path | None:
    """Returns the newest checkpoint of the run that `training.begin_with` names; None without one.

    Raises:
        DataError: That run has no checkpoint.
        ConfigError: Its networks are other ones.
    """
    if not config.training.begin_with:
        return None
    folder = RunFolder(config.training.begin_with)
    path = Checkpoints(folder.checkpoints, keep=1).latest()
    if path is None:
        raise DataError(
            f"--begin_with={config.training.begin_with}: there is no checkpoint in"
            f" {folder.checkpoints}; name the folder of a run that was trained here"
        )
    theirs, ours = read_state(path).config.model, config.model
    differ = [name for name in SAME if getattr(theirs, name) != getattr(ours, name)]
    if bool(theirs.generator_average) != bool(ours.generator_average):
        differ.append("generator_average")
    if differ:
        told = "; ".join(
            f"{name} is {getattr(theirs, name)} there, {getattr(ours, name)} here"
            for name in differ
        )
        raise ConfigError(
            f"--begin_with={config.training.begin_with}: its networks are other ones ({told});"
            " train with the same preset, or without --begin_with"
        )
    return path
