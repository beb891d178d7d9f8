"""The folder of a run whose checkpoint no training wrote."""

from __future__ import annotations

from cloudgan.data.summary import AngleFit, TrainingSummary
from cloudgan.schema.config import RunConfig
from cloudgan.schema.presets import find_preset
from cloudgan.schema.record import Numerics
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.checkpoint import Checkpoints, State
from exports.example_weights import example_weights

ENERGY_GEV, THETA_RAD = (10.0, 100.0), (1.1, 2.0)


def example_run(path, preset="smoke", step=7, **changes):
    """Writes run.yaml and one checkpoint; returns the weights of its averaged generator."""
    model = find_preset(preset).model_copy(update=changes)
    config = RunConfig(model=model)
    folder = RunFolder(path)
    folder.write_config(config)
    summary = TrainingSummary(
        count=180,
        sampled=180,
        energy_range_gev=ENERGY_GEV,
        theta_range_rad=THETA_RAD,
        mtheta_range_rad=(1.0, 2.1),
        layer_fraction=(0.02,) * 25,
        mean_image_sum_per_unit=20.0,
        contained_fraction=0.98,
        angle_fit=AngleFit(offset_rad=0.1, slope=0.9),
        particle="electron",
    )
    numerics = Numerics(
        processor="a processor",
        device="CPU",
        threads=2,
        replicas=1,
        workers=1,
        global_batch_size=32,
        precision="float32",
        math_library="Eigen",
        tensorflow="2.21.0",
        keras="3.15.1",
    )
    state = State(
        step=step,
        train_seconds=12.5,
        config_hash="0" * 16,
        config=config,
        numerics=numerics,
        summary=summary,
    )
    weights = example_weights(model)
    part = "ema_generator" if model.ema_decay else "generator"
    arrays = {
        f"{part}/{number:03d}/{name.partition('/')[2]}": value
        for number, (name, value) in enumerate(weights.items())
    }
    Checkpoints(folder.checkpoints).save(state, arrays)
    return weights
