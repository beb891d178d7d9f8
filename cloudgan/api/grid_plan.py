"""Plans of a grid of cells on nodes: what is valid, which ranks the nodes have, what its cells train."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.api.launch_data import NO_SHOWERS
from cloudgan.api.run_options import flag_of
from cloudgan.coevolution.grid import check_grid
from cloudgan.core.documents import read_yaml
from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import local_path
from cloudgan.parallel.layout import divide_ranks
from cloudgan.schema.plan import Showers

if TYPE_CHECKING:
    from cloudgan.api.launch_request import LaunchRequest
    from cloudgan.api.plan_inputs import Training
    from cloudgan.schema.coevolution import CoevolutionConfig
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.plan import Workers

_SECTION = "grid."
_SHARED = frozenset(
    {
        "data.path",
        "data.unit",
        "model.preset",
        "training.seed",
        "training.batch_per_replica",
        "grid.task",
    }
)
_PRESET = "mini"
"""As of `evolve`."""


def has_grid(training: Training) -> bool:
    """Whether flags or run.yaml request a grid of cells."""
    given, file = training
    if given.get("grid.rows"):
        return True
    return bool(file) and bool(read_yaml(local_path(str(file))).get("grid"))


def check_grid_flags(training: Training, request: LaunchRequest) -> None:
    """Checks that all flags apply: those of a grid to a grid, and no other ones.

    Raises:
        ConfigError: A flag is of a single GAN or of a grid only, or the nodes cannot run the task.
    """
    given = {key: value for key, value in training[0].items() if value is not None}
    of_grid = [key for key in given if key.startswith(_SECTION)]  # rows and columns: of one flag
    if not has_grid(training):
        if of_grid:
            flags = " and ".join(f"--{flag_of(key)}" for key in of_grid)
            raise ConfigError(
                f"{flags}: only valid with a grid, and the run.yaml has none: give --grid=2x2"
            )
        return
    wrong = [key for key in given if key not in _SHARED and key not in of_grid]
    if wrong:
        flags = " and ".join(f"--{flag_of(key)}" for key in wrong)
        raise ConfigError(
            f"{flags}: not an option of a grid of cells, which trains for --iterations; omit it, or"
            " omit the grid"
        )
    if request.is_provisioned and request.nodes is None:
        raise ConfigError(
            "the time of a grid is not known before it ran, so no number of nodes is the cheapest: give"
            " --nodes=N"
        )


def grid_settings(asked: RunConfig, given: dict[str, Any], workers: Workers) -> dict[str, Any]:
    """Returns the keys of run.yaml that follow from the requested grid and its nodes.

    Seed and threads are fixed, so that another placement of the cells after a loss changes no bit.

    Args:
        asked: As requested.
        given: The requested keys.
        workers: The nodes.

    Raises:
        ConfigError: The grid is not valid, or the nodes are TPUs or more than its ranks.
    """
    grid = asked.grid
    assert grid is not None  # noqa: S101  the caller has checked
    check_grid(grid)
    if (workers.accelerator or "").startswith("TPU"):
        raise ConfigError("cells run on CPUs and GPUs, and one process owns all cores of a TPU")
    has_seed = "seed" in asked.training.model_fields_set
    seed = asked.training.seed if has_seed else grid.seed
    most = max(cells_per_node(grid, workers.nodes))
    threads = grid.threads or max(1, int(workers.cpus) // max(1, most))
    found: dict[str, Any] = {"training.seed": seed, "grid.seed": seed, "grid.threads": threads}
    if batch := given.get("training.batch_per_replica"):
        found |= {"grid.batch_size": batch, "training.batch_per_replica": None}
    if grid.task == "showers" and "preset" not in asked.model.model_fields_set:
        found["model.preset"] = _PRESET
    return found


def grid_ranks(grid: CoevolutionConfig, nodes: int) -> tuple[int, ...]:
    """Returns the ranks of each node: the master beside the first cells, where they are enough.

    Raises:
        ConfigError: There are more nodes than ranks.
    """
    if nodes > grid.cells + 1:
        raise ConfigError(
            f"--nodes={nodes} are more than the {grid.cells + 1} ranks of a grid of"
            f" {grid.rows}x{grid.columns}: a master and {grid.cells} cells; use"
            f" --nodes={grid.cells + 1} or fewer"
        )
    return divide_ranks(1, grid.cells, nodes)


def cells_per_node(grid: CoevolutionConfig, nodes: int) -> tuple[int, ...]:
    """Returns the cells of each node.

    Raises:
        ConfigError: There are more nodes than ranks.
    """
    first, *others = grid_ranks(grid, nodes)
    return (first - 1, *others)


def check_grid_nodes(grid: CoevolutionConfig, data: str) -> None:
    """Checks that the nodes can run the task of a grid.

    Raises:
        ConfigError: Data are given that the task does not read.
    """
    if grid.task != "showers" and data:
        raise ConfigError(
            f"--data={data}: on nodes the task {grid.task} has no data of its own; omit it, or give"
            " --task=showers"
        )


def showers_of(grid: CoevolutionConfig | None) -> Showers | None:
    """Returns the data of a grid that trains no showers; None: the run needs showers."""
    if grid is None or grid.task == "showers":
        return None
    return Showers(source=NO_SHOWERS)
