"""What is trained and how: the flags that `train`, `plan` and `deploy` share."""

from __future__ import annotations

from typing import Any, Literal


def training_flags(
    *,
    data: str | None = None,
    preset: str | None = None,
    config: str | None = None,
    epochs: int | None = None,
    batch: int | None = None,
    global_batch: int | None = None,
    loop: Literal["custom", "fit"] | None = None,
    replicas: int | None = None,
    precision: Literal["float32", "bfloat16", "mixed", "float64"] | None = None,
    kernels: Literal["auto", "published", "phases", "fast"] | None = None,
    tune: Literal["auto", "off"] | None = None,
    scale_lr: Literal["none", "linear", "sqrt"] | None = None,
    seed: int | None = None,
    max_steps: int | None = None,
    max_seconds: float | None = None,
    steps_per_loop: int | None = None,
    checkpoint_every_steps: int | None = None,
    validate_every: int | None = None,
    until: str | None = None,
    tensorboard: bool = False,
) -> tuple[dict[str, Any], str | None]:
    """Returns what was asked, by the dotted keys of run.yaml, and the run.yaml that was named.

    Args:
        data: Showers: HDF5 or TFRecord file, glob, comma list, or a folder from `cloudgan convert`.
        preset: paper (51x51x25, the published 3DGAN), mini (for laptops), fixed25 or smoke.
        config: A run.yaml; flags override its keys.
        epochs: Passes over the training showers.
        batch: Showers per replica and step.
        global_batch: Showers per step of all replicas together, instead of --batch.
        loop: custom, or fit (Keras drives); both learn the same.
        replicas: Replicas per process; default one per GPU, one on a CPU.
        precision: Of the arithmetic; weights stay float32, or float64. mixed is bfloat16, or what
            comes nearest where the device has none.
        kernels: published layers, or faster forms of the same functions of the same weights.
        tune: Try once per machine, for seconds, how long runs compute fastest, and remember it.
        scale_lr: Learning rate for larger global batches, with warm-up.
        seed: Of every random number.
        max_steps: Stop after this many steps.
        max_seconds: Stop after this many seconds of training.
        steps_per_loop: Steps per call of the device; signals are heard between two calls.
        checkpoint_every_steps: Save after this many steps, beside every five minutes.
        validate_every: Epochs from one look at the generator's showers, beside held-back ones, to the
            next; the best checkpoint is kept for --step=best. 0: none.
        until: Stop once a number of such a look is good enough, such as "metric<0.15"; without
            --validate_every every epoch is looked at. Numbers: metric, response, profile_z, hits,
            angle, separation. --until= asks for nothing any more.
        tensorboard: Write TensorBoard summaries into the run's folder.
    """
    asked = {
        "data.path": data,
        "model.preset": preset,
        "training.epochs": epochs,
        "training.batch_per_replica": batch,
        "training.global_batch_size": global_batch,
        "training.loop": loop,
        "training.replicas": replicas,
        "training.precision": precision,
        "training.kernels": kernels,
        "training.tune": tune,
        "training.scale_lr": scale_lr,
        "training.seed": seed,
        "training.max_steps": max_steps,
        "training.max_seconds": max_seconds,
        "training.steps_per_loop": steps_per_loop,
        "training.validate_every": validate_every,
        "training.until": until,
        "training.tensorboard": tensorboard or None,
        "checkpoint.every_steps": checkpoint_every_steps,
    }
    return asked, config
