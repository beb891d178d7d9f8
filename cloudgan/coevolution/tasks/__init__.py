"""What the cells train: a ring of Gaussians with known answer, and showers."""

from __future__ import annotations

from pathlib import Path

from cloudgan.coevolution.task import Task
from cloudgan.core.progress import Progress
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.schema.config import RunConfig


def find_task(
    config: CoevolutionConfig,
    run_config: RunConfig | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> Task:
    """Returns the task of a grid; imports its module only.

    Showers need their run.yaml and a store from `cloudgan convert`.
    """
    if config.task == "ring":
        from cloudgan.coevolution.tasks.ring import Ring  # noqa: PLC0415

        return Ring(config)
    from cloudgan.coevolution.tasks.showers import Showers  # noqa: PLC0415

    if run_config is None or folder is None:
        raise ValueError("the task showers needs a run.yaml and a store")
    return Showers(config, run_config, folder, progress)
