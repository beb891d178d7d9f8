"""The flags that `train`, `plan` and `deploy` share: what is trained, and how."""

from __future__ import annotations

from typing import Any, Literal

from cloudgan.api.run_options import config_keys
from cloudgan.schema.ecal_unit import EcalUnit


def training_flags(
    *,
    data: str | None = None,
    unit: EcalUnit | None = None,
    held_out: float | None = None,
    preset: str | None = None,
    config: str | None = None,
    epochs: int | None = None,
    batch: int | None = None,
    global_batch: int | None = None,
    loop: Literal["custom", "fit"] | None = None,
    replicas: int | None = None,
    precision: Literal["float32", "bfloat16", "mixed", "float64"] | None = None,
    conv_impl: Literal["auto", "published", "phases", "fast"] | None = None,
    scale_lr: Literal["none", "linear", "sqrt"] | None = None,
    seed: int | None = None,
    max_steps: int | None = None,
    max_seconds: float | None = None,
    steps_per_loop: int | None = None,
    checkpoint_every_steps: int | None = None,
    validate_every: int | None = None,
    until: str | None = None,
    patience: int | None = None,
    smooth: int | None = None,
    tensorboard: bool = False,
    parallel: Literal["none", "downpour", "easgd", "gem"] | None = None,
    ranks: int | None = None,
    group: int | None = None,
    masters: int | None = None,
    sync_every: int | None = None,
    master_sync_every: int | None = None,
    elastic_force: float | None = None,
    damping: Literal["staleness", "mean", "none"] | None = None,
    synchronous: bool = False,
    master_optimizer: Literal["sgd", "adam", "rmsprop", "adadelta"] | None = None,
    stages: str | None = None,
    trace: bool = False,
) -> tuple[dict[str, Any], str | None]:
    """Returns the given options by their dotted keys in run.yaml, and the path of --config.

    Args:
        data: Showers: HDF5 or TFRecord files (path, glob or comma list), or a folder or bucket from
            `cloudgan convert`.
        unit: Unit of ECAL in files of --data that state none, where several fit.
        held_out: Share of the showers kept for validation, which needs 200. Default: 0.1.
        preset: {presets}.
        config: A run.yaml; flags override its keys.
        epochs: Passes over the training showers.
        batch: Showers per replica and step.
        global_batch: Showers per step of all replicas together, instead of --batch.
        loop: custom, or fit (Keras); both train identically.
        replicas: Replicas per process. Default: one per GPU, one on a CPU.
        precision: Of the arithmetic; weights stay float32, or float64. mixed is bfloat16, or float16 or float32
            where the device has no bfloat16.
        conv_impl: published layers, or faster implementations of the same functions of the same weights.
        scale_lr: Learning rate for larger global batches, with warm-up.
        seed: Of every random number.
        max_steps: Stop after this many steps.
        max_seconds: Stop after this many seconds of training.
        steps_per_loop: Steps per call of the device; signals take effect between two calls.
        checkpoint_every_steps: Save a checkpoint after this many steps, in addition to every five
            minutes.
        validate_every: Validate every N epochs: compare generated showers with held-out ones, and keep
            the best checkpoint for --step=best. 0 disables it.
        until: Stop when a quality metric meets a limit, such as "metric<0.15"; without
            --validate-every each epoch is validated. Metrics: metric, response, profile_z, hits,
            angle, separation. An empty value (--until=) removes the criterion.
        patience: Stop when the metric of --until, or metric, has not improved in this many validations.
        smooth: Compare the median of the last N validations instead of single ones; with --patience.
        tensorboard: Write TensorBoard summaries into the run's folder.
        parallel: Update rule between masters and workers that train asynchronously, each a rank of
            MPI. none: no masters.
        ranks: Masters and workers together. Default: all of the MPI world that started this program,
            or in `plan` one worker rank per accelerator, or per node without one.
        group: Ranks of a worker, which train one batch together.
        masters: Masters that serve workers; with several, rank 0 is above them.
        sync_every: Steps of a worker between two exchanges with its master.
        master_sync_every: Updates of a master between two exchanges with rank 0 above it. Default: 8.
        elastic_force: Of easgd, divided by the workers of a master; above 0 and below their number.
        damping: Of downpour: weight of an update, 1/staleness, 1/workers or 1.
        synchronous: Of downpour: the master applies the mean of one update per worker.
        master_optimizer: Of downpour.
        stages: Layers from which on a network is on the next device, such as conv3 or conv2,conv4.
        trace: With --parallel, write trace.json into the run's folder: what all ranks did when, for
            https://ui.perfetto.dev.
    """
    options = dict(locals())
    del options["config"]
    return config_keys(options), config
