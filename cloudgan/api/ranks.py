"""The ranks of a run: what is refused before anything starts, and the layout as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cloudgan.core import settings
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import nvidia_gpus
from cloudgan.ranks.layout import Layout, make_layout, size_for
from cloudgan.ranks.placement import check_accelerators, no_tpu
from cloudgan.reports.table import Number, Table
from cloudgan.schema.config import RunConfig


def has_ranks(config: RunConfig) -> bool:
    """Whether masters and workers train the run."""
    if settings.is_mpi_rank() and not config.parallel.has_ranks:
        raise ConfigError(
            "this process is a rank of an MPI world (mpiexec or srun), but the run has no --parallel:"
            " each rank would train the same run; give --parallel=easgd, downpour or gem, or start"
            " cloudgan without mpiexec"
        )
    return config.parallel.has_ranks


def local_layout(config: RunConfig, world: int | None = None) -> Layout:
    """Returns the layout of a run with ranks on this machine, or in an existing MPI world.

    Args:
        config: The run's configuration.
        world: Ranks of the MPI world that this process is in; None: there is none.
    """
    parallel = config.parallel
    size = parallel.ranks or world
    if size is None:
        example = size_for(2 * parallel.masters, parallel)
        raise ConfigError(
            f"--parallel={parallel.mode} needs the number of ranks: give --ranks={example}, or start"
            f" the program in an MPI world, such as `mpiexec -n {example} cloudgan train ...`"
        )
    if world is not None and world != size:
        raise ConfigError(
            f"--ranks={size}, but the MPI world that started this program has {world}; omit --ranks,"
            f" or start {size} processes"
        )
    if settings.has_tpu():
        raise ConfigError(no_tpu(parallel))
    layout = make_layout(size, parallel)
    if world is None:
        check_accelerators(layout, parallel, nodes=1, per_node=len(nvidia_gpus()))
    return layout


def layout_table(layout: Layout) -> Table:
    """Returns a row per rank."""
    rows = tuple(
        (
            row["rank"],
            row["role"],
            "-" if row["worker"] is None else row["worker"],
            "-" if row["member"] is None else row["member"],
            "-" if row["exchanges_with"] is None else row["exchanges_with"],
            ", ".join(map(str, row["serves"])) or "-",
        )
        for row in layout.as_json()["roles"]
    )
    heads = ("rank", "role", "worker", "member of group", "exchanges with", "serves ranks")
    return Table(heads, rows, f"Layout: {layout.describe()}", "rlrrrl")


def stages_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Returns a row per network and device, from `device_stages.place`."""
    cells = tuple(
        (
            row["network"],
            row["device"],
            ", ".join(row["layers"]),
            *(
                Number(row[key], f"{row[key] / (1 << 20):,.2f} MiB")
                for key in ("weight_bytes", "activation_bytes_per_shower", "bytes_in_per_shower")
            ),
        )
        for row in rows
    )
    heads = ("network", "device", "layers", "weights", "activations", "sent")
    note = "Layers by device. Weights with their slots; activations, and what is sent one way, of one shower."
    return Table(heads, cells, note, "lrlrrr")


def describe_ranks(config: RunConfig, layout: Layout) -> dict[str, Any]:
    """Returns what `train --describe` prints of a run with ranks."""
    return {
        "preset": config.model.preset,
        "config_hash": config.config_hash(),
        "layout": layout.as_json(),
        "parallel": config.parallel.model_dump(mode="json"),
    }
