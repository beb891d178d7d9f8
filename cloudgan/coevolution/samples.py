"""What a grid of cells generates: showers as an ordinary run, or samples of another task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cloudgan.coevolution.evolution import Purpose, random_numbers
from cloudgan.coevolution.files import GridFolder
from cloudgan.coevolution.grid_generator import GridGenerator
from cloudgan.coevolution.result_file import read_result
from cloudgan.coevolution.task import Draw
from cloudgan.coevolution.tasks import find_task
from cloudgan.core.arrays import as_archive
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.progress import Progress
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.schema.run_folder import RunFolder, Step
from cloudgan.training.tensorflow_import import import_tensorflow

_ARCHIVE = ".npz"


def is_grid(folder: RunFolder) -> bool:
    """Whether the folder is that of a grid of `cloudgan evolve`."""
    return (folder.path / "coevolution.json").exists()


def has_other_samples(folder: RunFolder) -> bool:
    """Whether the folder is that of a grid with another task than showers."""
    return is_grid(folder) and _config(folder)[1].task != "showers"


def grid_generator(folder: RunFolder, step: Step, cell: str) -> GridGenerator:
    """Loads the generators of a grid of showers.

    Step 0 is the network before its training; `cell` see
    `cloudgan.coevolution.result_file.GridResult.choose`.
    """
    files, config = _config(folder)
    if config.task != "showers":
        raise DataError(
            f"{folder.path} is a grid with the task {config.task}, not showers; `cloudgan generate`"
            f" writes its samples to a file {_ARCHIVE}"
        )
    if step not in (None, 0):
        raise ConfigError(
            f"--step={step}: {folder.path} is a grid, which keeps no checkpoints of steps; use --cell="
            "mixture, best or ROW,COLUMN, or --step=0 for the untrained network"
        )
    result = read_result(files.result_file)
    result.choose(cell)
    run = folder.config()
    import_tensorflow()
    return GridGenerator(result, cell, run, files.result_file, untrained=step == 0)


def refuse_shower_options(folder: RunFolder, options: Mapping[str, Any]) -> None:
    """Refuses options of showers for a grid with another task."""
    given = [f"--{name}" for name, value in options.items() if value not in (None, False)]
    if given:
        raise ConfigError(
            f"{', '.join(given)}: {folder.path} trained {_config(folder)[1].task}, not showers; omit"
            " these flags"
        )


def write_samples(
    folder: RunFolder, path: Path, *, cell: str | None, samples: int, seed: int, progress: Progress
) -> int:
    """Writes samples of a grid with another task than showers: an archive with the array ``samples``."""
    if path.suffix != _ARCHIVE:
        raise ConfigError(
            f"{path}: the samples of this grid are written to a NumPy archive; give a name ending in"
            f" {_ARCHIVE}"
        )
    files, config = _config(folder)
    result = read_result(files.result_file)
    mixture = result.choose(cell or "mixture")
    import_tensorflow()
    pair = find_task(config).make_pair()
    progress.start("generating", samples * len(mixture.members), "samples")
    pools = {}
    for member in mixture.members:
        draw = Draw(seed, member, result.iteration, Purpose.RESULT)
        pools[member] = pair.generate_with(draw, result.generators[member], samples)
        progress.advance(samples)
    order = random_numbers(Draw(seed, 0, result.iteration, Purpose.RESULT), 1)
    write_atomic(path, as_archive({"samples": mixture.samples(pools, order)}))
    return samples


def _config(folder: RunFolder) -> tuple[GridFolder, CoevolutionConfig]:
    files = GridFolder(folder.path)
    config = files.read_config()
    if config is None:
        raise DataError(f"{files.config_file} is missing; run `cloudgan evolve`")
    return files, config
