"""The ranks of a run: what is refused before anything starts, and the layout as a table."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cloudgan.core import settings
from cloudgan.core.errors import ConfigError, install_command
from cloudgan.core.hardware import nvidia_gpus
from cloudgan.parallel.layout import make_layout, ranks_per_node, size_for
from cloudgan.reports.table import Number, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cloudgan.parallel.layout import Layout
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.parallel import ParallelConfig
    from cloudgan.schema.plan import Workers


def has_ranks(config: RunConfig) -> bool:
    """Whether masters and workers train the run.

    Raises:
        ConfigError: This process is a rank of an MPI world, and the run has none.
    """
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

    Raises:
        ConfigError: The ranks fit no layout or not this machine's GPUs, or are not those of the
            world; the machine is a TPU.
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
        raise ConfigError(_no_tpu(parallel))
    layout = make_layout(size, parallel)
    if world is None:
        _check_accelerators(layout, parallel, nodes=1, per_node=len(nvidia_gpus()))
    return layout


def check_mpi(option: str = "--parallel") -> None:
    """Checks that mpi4py, which an option needs, is installed.

    Raises:
        ConfigError: It is not.
    """
    if find_spec("mpi4py") is None:
        raise ConfigError(
            f"{option} needs mpi4py, which is not installed; run {install_command('mpi')}"
        )


def ranks_on(config: RunConfig, workers: Workers) -> int:
    """Returns the ranks of a run on nodes: as requested, else one worker rank per accelerator.

    With stages a worker rank has an accelerator for each. A node without accelerators has one worker
    rank. Masters need no accelerator.

    Raises:
        ConfigError: The ranks fit no layout, or not the accelerators.
    """
    parallel, per_node = config.parallel, workers.accelerators_per_node
    if (workers.accelerator or "").startswith("TPU"):
        raise ConfigError(_no_tpu(parallel))
    devices = workers.nodes * max(1, per_node // (len(parallel.stages) + 1))
    masters = parallel.masters + (parallel.masters > 1)
    _check_group(parallel.group, per_node)
    layout = make_layout(parallel.ranks or masters + devices, parallel)
    _check_accelerators(layout, parallel, nodes=workers.nodes, per_node=per_node)
    ranks_per_node(layout, workers.nodes)
    return layout.size


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
    """Returns a row per network and device, from `DeviceStages.as_json`."""
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


def _check_group(group: int, per_node: int) -> None:
    if not per_node or per_node % group == 0 or group % per_node == 0:
        return
    fitting = [str(each) for each in range(1, per_node + 1) if per_node % each == 0]
    raise ConfigError(
        f"--group={group} does not divide the {per_node} accelerators of a node: each rank of a group"
        f" has one; use --group={', '.join(fitting)}, or a multiple of {per_node}"
    )


def _check_accelerators(
    layout: Layout, parallel: ParallelConfig, *, nodes: int, per_node: int
) -> None:
    """Checks that each worker rank has its own accelerator, or one per stage, where there are some."""
    _check_group(layout.group, per_node)
    each = len(parallel.stages) + 1
    ranks, there = layout.size - layout.master_ranks, nodes * (per_node // each)
    if not per_node or ranks <= there:
        return
    fits = layout.master_ranks + there // layout.group * layout.group
    use = f"use --ranks={fits} or less" if there else f"give fewer stages than {each - 1}"
    needs = f", which need {each} accelerators each for their stages" if each > 1 else ""
    raise ConfigError(
        f"--ranks={layout.size} has {ranks} worker ranks{needs}, and there are {nodes * per_node}"
        f" accelerators: two ranks never share one; {use}"
    )


def _no_tpu(parallel: ParallelConfig) -> str:
    return (
        f"--parallel={parallel.mode} has a process per accelerator, but one process owns all cores of"
        " a TPU; omit --parallel there, or use GPUs or CPUs"
    )
