"""The folder of a run whose checkpoint no training wrote."""

from __future__ import annotations

from cloudgan.data.summary import AngleFit
from cloudgan.schema.config import RunConfig
from cloudgan.schema.presets import find_preset
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.checkpoint import Checkpoints
from exports.example_weights import example_weights
from records import checkpoint_state

ENERGY_GEV, THETA_RAD = (10.0, 100.0), (1.1, 2.0)


def example_run(path, preset="smoke", step=7, **changes):
    """Writes run.yaml and one checkpoint; returns the weights of its averaged generator."""
    model = find_preset(preset).model_copy(update=changes)
    config = RunConfig(model=model)
    folder = RunFolder(path)
    folder.write_config(config)
    state = checkpoint_state(
        step,
        config,
        count=180,
        energy_range_gev=ENERGY_GEV,
        theta_range_rad=THETA_RAD,
        angle_fit=AngleFit(offset_rad=0.1, slope=0.9),
        particle="electron",
    )
    weights = example_weights(model)
    part = "ema_generator" if model.ema_decay else "generator"
    arrays = {
        f"{part}/{number:03d}/{name.partition('/')[2]}": value
        for number, (name, value) in enumerate(weights.items())
    }
    Checkpoints(folder.checkpoints).save(state, arrays)
    return weights
