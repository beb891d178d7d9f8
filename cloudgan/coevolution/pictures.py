"""Pictures of a cell's samples over the iterations, as small arrays beside its record."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.errors import DataError
from cloudgan.training.array_archive import as_archive, read_arrays

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from cloudgan.coevolution.cell import Cell
    from cloudgan.coevolution.cell_files import CellFiles

MOST_IMAGES = 16
_NAME = re.compile(r"samples-(\d{9})\.npz")
_SERIES = (1, 2, 5)
_ARRAY = "images"
_WHITE = 255


def is_pictured(iteration: int, last: int) -> bool:
    """Returns whether pictures of an iteration are kept: 1, 2, 5, 10, 20, 50, ... and the last one.

    Their number grows with the logarithm of the iterations.
    """
    return iteration == last or _in_series(iteration)


def keep_pictures(files: CellFiles, cell: Cell, last: int) -> None:
    """Writes the pictures of a cell's newest iteration if they are kept, and deletes superfluous ones.

    Superfluous is the last iteration of a run that was continued since.

    Args:
        files: Of the cell.
        cell: After an iteration.
        last: Iterations of the run.

    Raises:
        DataError: The file cannot be written.
    """
    if cell.pictures is None or not is_pictured(cell.state.iteration, last):
        return
    images = np.clip(cell.pictures[:MOST_IMAGES], 0.0, 1.0)
    content = as_archive({_ARRAY: np.round(_WHITE * images).astype(np.uint8)})
    files.path.mkdir(parents=True, exist_ok=True)
    write_atomic(_file(files, cell.state.iteration), content)
    for iteration in pictured(files):
        if not is_pictured(iteration, last):
            _file(files, iteration).unlink(missing_ok=True)


def pictured(files: CellFiles) -> list[int]:
    """Returns the iterations whose pictures are kept, in ascending order."""
    if not files.path.is_dir():
        return []
    found = (_NAME.fullmatch(file.name) for file in files.path.iterdir())
    return sorted(int(name[1]) for name in found if name)


def read_pictures(files: CellFiles, iteration: int) -> NDArray[np.uint8]:
    """Reads images (N, height, width) from 0 (black) to 255.

    Raises:
        DataError: The file is missing or damaged.
    """
    path = _file(files, iteration)
    images = read_arrays(path).get(_ARRAY)
    if images is None or images.ndim != 3 or images.dtype != np.uint8 or not images.size:  # noqa: PLR2004
        raise DataError(f"{path}: damaged (no images)")
    return images


def _file(files: CellFiles, iteration: int) -> Path:
    return files.path / f"samples-{iteration:09d}.npz"


def _in_series(iteration: int) -> bool:
    while iteration and iteration % 10 == 0:
        iteration //= 10
    return iteration in _SERIES
