"""Warm start: a new run begins with the networks of a trained one (`--init-from`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.schema.run_folder import find_run_folder
from cloudgan.training.checkpoint import Checkpoints, not_finite

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.schema.config import RunConfig
    from cloudgan.training.checkpoint import Checkpoint

WARM_START_KEYS = (
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
    "angle",
    "cell_marginals",
)
"""Model keys that must equal those of the other run; losses and learning rates may differ."""


def find_warm_start(
    config: RunConfig, say: Callable[[str], None] = lambda _: None
) -> Checkpoint | None:
    """Returns the newest checkpoint of the run in `training.init_from`; None if it is not set.

    Args:
        config: Of the new run.
        say: Shows a line if a newer checkpoint is damaged.

    Raises:
        DataError: That run has no checkpoint that can be used.
        ConfigError: Its networks differ.
    """
    if not config.training.init_from:
        return None
    folder = find_run_folder(config.training.init_from)
    found, damaged = Checkpoints(folder.checkpoints).newest()
    for each in damaged:
        say(f"--init-from: checkpoint not used: {each.reason}")
    if found is None:
        raise DataError(
            f"--init-from={config.training.init_from}: no checkpoint in {folder.checkpoints};"
            " name the folder of a trained run"
        )
    theirs, ours = found.state.config.model, config.model
    differ = [name for name in WARM_START_KEYS if getattr(theirs, name) != getattr(ours, name)]
    if bool(theirs.ema_decay) != bool(ours.ema_decay):
        differ.append("ema_decay")
    if differ:
        listed = "; ".join(
            f"{name} is {getattr(theirs, name)}, here {getattr(ours, name)}" for name in differ
        )
        raise ConfigError(
            f"--init-from={config.training.init_from}: its networks differ ({listed}); use the same"
            " preset, or omit --init-from"
        )
    if problem := not_finite(found.arrays):
        raise DataError(
            f"--init-from={config.training.init_from}: {found.path}: {problem}; that training"
            " diverged. Name another run"
        )
    return found
