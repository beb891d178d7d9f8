"""The ranks of a run: what is refused before anything starts, and the layout as a table."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from cloudgan.core import settings
from cloudgan.core.errors import ConfigError, install_command
from cloudgan.core.hardware import nvidia_gpus
from cloudgan.ranks.layout import Layout, make_layout, ranks_per_node, size_for
from cloudgan.reports.table import Table
from cloudgan.schema.config import RunConfig
from cloudgan.schema.parallel import ParallelConfig
from cloudgan.schema.plan import Workers


def ranks_on(config: RunConfig, workers: Workers) -> int:
    """Returns the ranks of a run on nodes: as requested, else one worker rank per accelerator.

    With stages a worker rank has an accelerator for each. A node without accelerators has one worker
    rank. Masters need no accelerator.
    """
    parallel, per_node = config.parallel, workers.accelerators_per_node
    if (workers.accelerator or "").startswith("TPU"):
        raise ConfigError(no_tpu(parallel))
    devices = workers.nodes * max(1, per_node // (len(parallel.stages) + 1))
    masters = parallel.masters + (parallel.masters > 1)
    _check_group(parallel.group, per_node)
    layout = make_layout(parallel.ranks or masters + devices, parallel)
    check_accelerators(layout, parallel, nodes=workers.nodes, per_node=per_node)
    ranks_per_node(layout, workers.nodes)
    return layout.size


def _check_group(group: int, per_node: int) -> None:
    if not per_node or per_node % group == 0 or group % per_node == 0:
        return
    fitting = [str(each) for each in range(1, per_node + 1) if per_node % each == 0]
    raise ConfigError(
        f"--group={group} does not divide the {per_node} accelerators of a node: each rank of a group"
        f" has one; use --group={', '.join(fitting)}, or a multiple of {per_node}"
    )


def check_accelerators(
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


def no_tpu(parallel: ParallelConfig) -> str:
    """Returns why ranks do not train on a TPU."""
    return (
        f"--parallel={parallel.mode} has a process per accelerator, but one process owns all cores of"
        " a TPU; omit --parallel there, or use GPUs or CPUs"
    )


def check_mpi(option: str = "--parallel") -> None:
    """Checks that mpi4py, which an option needs, is installed."""
    if find_spec("mpi4py") is None:
        raise ConfigError(
            f"{option} needs mpi4py, which is not installed; run {install_command('mpi')}, or install"
            " mpi4py beside the MPI of your site"
        )


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


def describe_ranks(config: RunConfig, layout: Layout) -> dict[str, Any]:
    """Returns what `train --describe` prints of a run with ranks."""
    return {
        "preset": config.model.preset,
        "config_hash": config.config_hash(),
        "layout": layout.as_json(),
        "parallel": config.parallel.model_dump(mode="json"),
    }
