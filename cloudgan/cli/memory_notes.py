"""Whether what a plan asks for has the memory that the training will take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.core.errors import ConfigError
from cloudgan.core.memory import in_gib
from cloudgan.cost.catalog import load_catalog
from cloudgan.training.expected_memory import footprint_on

if TYPE_CHECKING:
    from cloudgan.core.config import RunConfig
    from cloudgan.core.plan import Workers

_GIB = 1 << 30


def memory_notes(config: RunConfig, workers: Workers) -> tuple[str, ...]:
    """Returns a warning where the batch will not fit; nothing where it will, or nobody knows.

    Accelerators are compared with the catalogue, others with the memory that a worker asks for.
    What TPUs take was never measured.
    """
    each = workers.accelerators_per_node or config.training.replicas or 1
    try:
        batch = config.global_batch(each * workers.nodes) // (each * workers.nodes)
    except ConfigError:
        return ()  # told where it is refused
    if workers.accelerators_per_node:
        has = _memory_gib(workers.accelerator)
        takes = footprint_on(config, "GPU").of_replica(batch)
        whose = f"one {workers.accelerator}"
    else:
        has = workers.memory_gib
        takes = footprint_on(config, "CPU").of_process(batch, each)
        whose = "a worker"
    if has is None or takes <= has * _GIB:
        return ()
    note = (
        f"a batch of {batch} per replica takes about {in_gib(takes)} and {whose} has {has:.3g} GiB;"
        " ask for a smaller --batch, or for more memory"
    )
    return (note,)


def _memory_gib(accelerator: str | None) -> float | None:
    """The least that the catalogue knows of; None: unknown, or a TPU."""
    if accelerator is None or accelerator.startswith("TPU"):
        return None
    rows = (row for row in load_catalog().rows if row.accelerator == accelerator)
    known = (row.accelerator_memory_gib for row in rows)
    return min((memory for memory in known if memory), default=None)
