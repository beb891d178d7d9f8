"""Compares the accelerators of a worker with those that its plan pays for."""

from __future__ import annotations

from cloudgan.core import settings
from cloudgan.core.cuda_libraries import describe_libraries
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import nvidia_gpus


def refuse_missing_accelerators(found: int, library: str = "TensorFlow") -> None:
    """Refuses to train with fewer accelerators than the plan pays for.

    Args:
        found: Accelerators that `library` sees.
        library: Name of the engine's library.

    Raises:
        ConfigError: Fewer than planned; the message has the causes that this machine shows.
    """
    planned = settings.planned_accelerators()
    if found >= planned:
        return
    there = nvidia_gpus()
    listed = f"{len(there)} x {there[0].name}" if there else "no GPU"
    if hidden := settings.variable("CUDA_VISIBLE_DEVICES"):
        listed += f", with CUDA_VISIBLE_DEVICES={hidden}"
    raise ConfigError(
        f"the plan has {planned} accelerators for this worker (CLOUDGAN_ACCELERATORS), and {library}"
        f" finds {found}; nothing was trained. nvidia-smi lists {listed}; {describe_libraries()}. Without"
        " a driver, the node or its device plugin is at fault: run `cloudgan check`. Without libraries,"
        " deploy without --image, or use an image with cloudgan[gpu] (`cloudgan image --kind=gpu`)"
    )
